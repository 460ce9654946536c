"""Planetoid's format: the tables in it, NELL's form of it, and the pickles that are refused."""

from __future__ import annotations

import collections
import io
import pickle
import pickletools
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from graphconv.io.datasets import download as download_module
from graphconv.io.datasets import list_datasets, load_dataset
from graphconv.io.datasets.planetoid import (
    PlanetoidFiles,
    Stored,
    graph_from_planetoid,
    parse_planetoid,
    read_folder,
    read_pickle,
)


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


@pytest.fixture
def clean_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("GRAPHCONV_DATA", raising=False)
    monkeypatch.setenv("GRAPHCONV_CACHE", str(tmp_path / "cache"))
    return tmp_path


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
def test_truncated_pickles(suffix):
    files = tiny_files()
    for length in range(len(files[suffix])):
        cut = PlanetoidFiles("ind.a", {**files, suffix: files[suffix][:length]}, "here")
        with pytest.raises(ValueError, match=f"here/ind.a.{suffix}: must") as error:
            parse_planetoid(cut)
        one_line(error)


def dumps(value: object) -> bytes:
    return pickle.dumps(value, protocol=4)


def broken_matrix() -> bytes:
    matrix = sp.csr_matrix(np.eye(4, 3, dtype=np.float32))
    matrix.indices[0] = 1000
    return dumps(matrix)


def endless_matrix() -> bytes:
    """One that says it has no entries at all, and so many in a row that scipy leaves the memory."""
    matrix = sp.csr_matrix(np.eye(4, 3, dtype=np.float32))
    matrix.indptr[3:] = 10**8, 0
    return dumps(matrix)


@pytest.mark.parametrize(
    ("suffix", "data", "message"),
    [
        ("x", b"<html>not found</html>", "must be a pickle"),
        ("allx", dumps("text"), "must hold a sparse matrix"),
        ("allx", dumps(np.array([["a"]])), "something else than numbers"),
        ("allx", broken_matrix(), "must hold a sparse matrix"),
        ("allx", dumps(np.ones(4)), "must hold a sparse matrix (got shape (4,))"),
        ("allx", endless_matrix(), "must form a non-decreasing sequence"),
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
        with pytest.raises(ValueError, match=r"known_labels\.csv, line 3") as error:
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
    with pytest.raises(ValueError, match=r"nell_data\.tar\.gz: must be a tar archive") as error:
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
