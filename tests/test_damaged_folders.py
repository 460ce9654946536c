"""Graph folders whose bytes were changed are refused with one line, or are still graphs."""

import json
import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from tests.generated_graphs import random_matrix

from graphconv import Graph
from graphconv.io.files import file_checksum
from graphconv.storage import _stored_checks as stored_checks
from graphconv.storage.graph_part import open_part
from graphconv.storage.partition import partition_graph
from graphconv.storage.stored_graph import open_graph, store_graph, verify_graph


def write_graph(folder, features="dense", ids=str):
    rng = np.random.default_rng(0)
    n_nodes = 40
    adjacency = random_matrix((n_nodes, n_nodes), 0.1, rng)
    adjacency = adjacency + adjacency.T
    values = rng.standard_normal((n_nodes, 5)).astype(np.float32)
    graph = Graph(
        adjacency,
        features=sp.csr_array(values * (values > 0)) if features == "sparse" else values,
        labels=rng.integers(-1, 3, n_nodes),
        node_ids=[ids(f"{number}") for number in range(n_nodes)],
    )
    store_graph(graph, folder)
    return folder


def use(graph):
    """Follow the indices as training would."""
    assert np.isfinite(graph.adjacency @ np.ones(graph.n_nodes)).all()
    assert np.isfinite(graph.features @ np.ones(graph.n_features)).all()
    assert graph.node_ids[::2].tolist() is not None
    graph.node_ids.tolist()


def refusal(call):
    """What was said against it; None if nothing was."""
    try:
        call()
    except (ValueError, OSError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("features", ["dense", "sparse"])
@pytest.mark.parametrize("file", ["arrays", "ids.arrow", "manifest.json"])
def test_changed_bytes_are_refused_or_harmless(tmp_path, file, features):
    folder = write_graph(tmp_path / "g", features)
    arrays = sorted(
        path for path in folder.iterdir() if path.suffix == ".bin" and path.stat().st_size
    )
    rng = np.random.default_rng(7)
    n_refused = 0
    for _ in range(200):
        path = arrays[rng.integers(len(arrays))] if file == "arrays" else folder / file
        before = path.read_bytes()
        changed = bytearray(before)
        for place in rng.integers(len(changed), size=rng.integers(1, 5)):
            changed[place] = rng.integers(256)
        path.write_bytes(changed)
        message = refusal(lambda: use(open_graph(folder)))
        n_refused += message is not None
        assert message is None or (str(folder) in message and "\n" not in message)
        path.write_bytes(before)
    assert n_refused > 50
    use(open_graph(folder))


def change(folder, **values):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for name, value in values.items():
        if name in manifest["arrays"]:
            manifest["arrays"][name] |= value
        elif value is None:
            del manifest[name]
        else:
            manifest[name] = value
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "values",
    [
        {"n_nodes": 39}, {"n_nodes": 41}, {"n_nodes": -1}, {"n_nodes": "40"}, {"n_nodes": 10**30},
        {"n_entities": 41}, {"n_edges": "many"}, {"class_names": ["a"]}, {"class_names": 3},
        {"class_names": ["a", "a", "b"]}, {"feature_names": ["a"]}, {"arrays": []},
        {"labels": {"dtype": "<i8"}}, {"labels": {"dtype": "|O"}}, {"labels": {"shape": [20, 2]}},
        {"degree": {"dtype": "<f4", "shape": [80]}}, {"features": {"shape": [5, 40]}},
        {"degree": {"shape": [-40]}}, {"degree": {"shape": [2**40, 2**40]}},
        {"degree": {"file": "../degree.bin"}}, {"degree": {"file": "/etc/passwd"}},
        {"ids_file": {"file": "../ids.arrow", "blake2b": ""}}, {"ids_file": {}},
        {"n_nodes": None}, {"digest": None}, {"name": None}, {"has_split": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_manifest_that_says_otherwise_is_refused(tmp_path, values):
    folder = write_graph(tmp_path / "g")
    change(folder, **values)
    with pytest.raises(ValueError, match=r"^/.* must (hold a graph|be complete)") as caught:
        open_graph(folder)
    assert "\n" not in str(caught.value)


def test_deeply_nested_json_is_refused(tmp_path):
    folder = write_graph(tmp_path / "g")
    (folder / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        open_graph(folder)


@pytest.mark.parametrize("name", ["n_edges", "n_self_loops", "n_isolated", "n_labelled"])
def test_verify_works_the_sizes_out(tmp_path, name):
    folder = write_graph(tmp_path / "g")
    assert verify_graph(folder) > 0
    change(folder, **{name: 17})
    with pytest.raises(ValueError, match=f"must say {name} "):
        verify_graph(folder)


@pytest.mark.parametrize("file", ["features.bin", "features.data.bin"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_no_numbers_are_refused(tmp_path, file, value):
    folder = write_graph(tmp_path / "g", "sparse" if "data" in file else "dense")
    values = np.fromfile(folder / file, "<f4")
    values[3] = value
    values.tofile(folder / file)
    with pytest.raises(ValueError, match="must hold finite numbers, got nan or infinity"):
        open_graph(folder)


def test_half_numbers_are_looked_at_too():
    values = np.linspace(-60000, 60000, 1000).astype(np.float16)
    stored_checks.check_numbers("features", values)
    for wrong in (np.nan, np.inf, -np.inf):
        values[500] = wrong
        with pytest.raises(ValueError, match="finite"):
            stored_checks.check_numbers("features", values)


def test_rows_longer_than_a_block_are_followed(monkeypatch):
    monkeypatch.setattr(stored_checks, "_BLOCK", 3)
    matrix = sp.csr_array(np.tri(9, dtype=np.float32))
    arrays = {"m.indptr": matrix.indptr, "m.indices": matrix.indices}
    stored_checks.check_matrix("m", arrays, (9, 9))
    for place in range(1, len(matrix.indices)):
        wrong = matrix.indices.copy()
        wrong[[place - 1, place]] = wrong[[place, place - 1]]
        if place not in matrix.indptr:
            with pytest.raises(ValueError, match="must increase within a row"):
                stored_checks.check_matrix("m", {**arrays, "m.indices": wrong}, (9, 9))
    for place in range(1, 9):
        wrong = matrix.indptr.copy()
        wrong[place] = wrong[place + 1] + 1
        with pytest.raises(ValueError, match=r"m\.indptr must not decrease"):
            stored_checks.check_matrix("m", {**arrays, "m.indptr": wrong}, (9, 9))


@pytest.mark.parametrize("name", ["n_features", "n_parts", "n_nodes_whole", "n_halo"])
def test_sizes_of_a_part_are_whole_numbers(tmp_path, name):
    folder = write_graph(tmp_path / "g")
    partition_graph(folder, 2, method="contiguous")
    path = folder / "parts-2" / "part-1" / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, name: float("inf")}))
    with pytest.raises(ValueError, match=f"{name} must be a whole number, got inf"):
        open_part(folder, 1, 2)


def test_changed_parts_are_refused_or_harmless(tmp_path):
    folder = write_graph(tmp_path / "g")
    partition_graph(folder, 2, method="contiguous")
    own = folder / "parts-2" / "part-1"
    manifest = json.loads((own / "manifest.json").read_text())
    rng = np.random.default_rng(3)
    for name, spec in manifest["arrays"].items():
        path = own / spec["file"]
        before = path.read_bytes()
        for _ in range(20 if before else 0):
            changed = bytearray(before)
            changed[rng.integers(len(changed))] ^= 1 << rng.integers(8)
            path.write_bytes(changed)
            # Whoever changes the bytes can change their checksum.
            altered = json.loads(json.dumps(manifest))
            altered["arrays"][name]["blake2b"] = file_checksum(path)
            (own / "manifest.json").write_text(json.dumps(altered))

            def follow():
                graph = open_part(folder, 1, 2).graph
                return graph.adjacency @ np.ones(graph.n_nodes)

            message = refusal(follow)
            assert message is None or (str(folder) in message and "\n" not in message)
        path.write_bytes(before)
    (own / "manifest.json").write_text(json.dumps(manifest))
    assert open_part(folder, 1, 2).n_own == 20


def test_a_large_folder_is_looked_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHCONV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(stored_checks, "_REMEMBERED_BYTES", 0)
    folder = write_graph(tmp_path / "g")
    looked = []
    real = stored_checks.check_matrix
    monkeypatch.setattr(
        stored_checks, "check_matrix", lambda *given, **more: looked.append(real(*given, **more))
    )
    open_graph(folder)
    open_graph(folder)
    assert len(looked) == 1
    # A copy, or a file that was touched, is looked at again; a folder can't vouch for itself.
    shutil.copytree(folder, tmp_path / "h")
    open_graph(tmp_path / "h")
    assert len(looked) == 2
    (folder / "degree.bin").write_bytes((folder / "degree.bin").read_bytes())
    open_graph(folder)
    assert len(looked) == 3
    verify_graph(folder)
    assert len(looked) == 4


def test_a_cache_that_can_not_be_written_costs_time_only(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRAPHCONV_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(stored_checks, "_REMEMBERED_BYTES", 0)
    folder = write_graph(tmp_path / "g")
    assert open_graph(folder).n_nodes == 40
    assert open_graph(folder).n_nodes == 40
