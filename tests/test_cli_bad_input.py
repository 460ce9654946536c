"""Bad input on the command line: one line on stderr, exit code 2, and every file as it was."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from tests.command_line import finish, make_runner, start
from tests.small_disk import mounted

EDGES = "source,target\na,b\nb,c\nc,d\nd,a\na,c\n"
NODES = "id,label,age\na,x,1\nb,y,2\nc,x,3\nd,y,4\ne,,5\n"
TRAIN = "train --edges edges.csv --nodes nodes.csv --max-epochs 2"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text(EDGES)
    (tmp_path / "nodes.csv").write_text(NODES)
    runner = make_runner(monkeypatch, capsys)
    return lambda line, **options: runner(*line.split(), **options)


@pytest.fixture
def model(run):
    """A model folder, in a folder with nothing else."""
    run(f"{TRAIN} -o model -q")
    return Path("model")


def contents(folder="."):
    paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in paths}


def refuse(run, line, reason):
    """The command fails as it should, says why, and touches nothing."""
    before = contents()
    done = run(line, expect=2)
    assert done.out == ""
    assert len(done.err) == 1, done.err
    assert done.err[0].startswith("graphconv: ")
    assert reason in done.err[0]
    assert contents() == before
    return done


REQUESTS = {
    "train": "name a data set or a graph file, or give --edges and --nodes",
    "train corra": "got 'corra' (did you mean 'cora'?)",
    "train --nodes nodes.csv": "--nodes alone is no graph",
    "train karate --edges edges.csv": "give a data set or --edges, not both",
    "train karate --nodes nodes.csv": "data set 'karate' has its own nodes",
    "train edges.csv": "edges.csv is a table: give it as --edges edges.csv",
    "train edges.graphml": "edges.graphml: no such file (did you mean 'edges.csv'?)",
    "train --edges edgs.csv": "edgs.csv: no such file (did you mean 'edges.csv'?)",
    "train --edges edges.csv --nodes node.csv": "(did you mean 'nodes.csv'?)",
    "train --edges .": "must be a file, but it is a folder",
    f"{TRAIN} --label lable": "nodes.csv has no column 'lable'",
    f"{TRAIN} --target taget": "(did you mean 'target'?): choose one with --target",
    f"{TRAIN} --text title": "nodes.csv has no column 'title'",
    f"{TRAIN} --split-column part": "nodes.csv has no column 'part'",
    f"{TRAIN} --ignore age --categorical age": "column 'age' must have one use, got 2",
    f"{TRAIN} --duplicates twice": "--duplicates must be 'sum' or 'collapse', got 'twice'",
    f"{TRAIN} --split public": "--split public needs data with a split of its own",
    f"{TRAIN} --split random": "random_split needs 20 labelled nodes",
    f"{TRAIN} --split thirds": "--split must be public, random",
    f"{TRAIN} --split fraction:a,b,c": "--split must be public, random",
    f"{TRAIN} --split kfold:2,2": "must have I from 0 to K-1",
    "train karate --directed": "--directed is for tables (--edges, --nodes), got 'karate' instead",
    "train karate --split-column part": "--split-column is for tables",
    "train karate --propagation rewired": "--propagation must be one of 'renormalised'",
    "train karate --preset best": "--preset must be one of 'robust', 'paper'",
    "train karate --hidden wide": "--hidden must be whole widths of at least 1, got 'wide'",
    "train karate --hidden -3": "--hidden must be whole widths of at least 1",
    "train karate --dropout 1": "--dropout must be at least 0 and below 1, got 1",
    "train karate --dropout 0.1,0.2,0.3": "--dropout must be one rate, or one for each of 2 layers",
    "train karate --max-epochs 0": "--max-epochs must be a whole number above 0",
    "train karate --max-epochs many": "--max-epochs must be a whole number above 0, got 'many'",
    "train karate --learning-rate nan": "--learning-rate must be above 0, got nan",
    "train karate --self-loop-weight much": "--self-loop-weight must be 'learn' or at least 0",
    "train karate --lambda-max -1": "--lambda-max must be 'true' or above 0",
    "train karate --class-weight heavy": "--class-weight must be 'balanced' or a weight",
    "train karate --kernels gpu": "--kernels must be auto, native or reference, got 'gpu'",
    "train karate --seed -1": "--seed must be from 0",
    "train karate --runs 0": "--runs must be at least 1, got 0",
    "train karate --checkpoint-seconds -1": "--checkpoint-seconds must be at least 0",
    "train karate --model gcnn": "got 'gcnn' (did you mean 'gcn'?)",
    "train karate --model label-propagtion": "(did you mean 'label-propagation'?)",
    "train karate --model sgc --hidden 3": "sgc must get parameters among",
    "train karate --model sgc --preset auto": "--preset is for gcn, appnp, grand and mlp",
    "train karate --model sgc --resume": "--resume is for gcn, appnp, grand and mlp",
    "train karate --hiden 3": "no such option: --hiden",
    "train karate extra": "extra",
    "trian karate": "no such command 'trian'. Did you mean 'train'?",
    "train random:50": "at least two classes, got one class only: '1'",
    "train nell": "nell needs a folder with",
    "predict": "MODEL_DIR",
    "predict nowhere": "nowhere must be a graphconv model folder, but is not there",
    "predict .": "must be a graphconv model folder, but has no model.json",
    "predict nowhere -o table.xlsx": "output must end in .csv, .tsv or .parquet, got table.xlsx",
    "datasets --data-dir nowhere": "there is none at 'nowhere'",
}


@pytest.mark.parametrize("line", REQUESTS)
def test_requests(run, line, monkeypatch):
    monkeypatch.delenv("GRAPHCONV_DATA", raising=False)
    refuse(run, line, REQUESTS[line])


TABLES = {
    "number": ("nodes.csv", "id,label,age\na,x,1\nb,y,old\n", "nodes.csv, line 3: column 'age'"),
    "nan": ("nodes.csv", "id,label,age\na,x,nan\nb,y,1\n", "nodes.csv, line 2: column 'age' must"),
    "infinite": ("nodes.csv", "id,label,age\na,x,1\nb,y,inf\n", "nodes.csv, line 3: column 'age'"),
    "empty cell": ("nodes.csv", "id,label,age\na,x,1\nb,y,\n", "got an empty cell"),
    "twice": ("nodes.csv", "id,label,age\na,x,1\na,y,2\n", "id 'a' must be unique, but nodes.csv"),
    "no label": ("nodes.csv", "id,label,age\na,,1\nb,,2\n", "must have a label to learn from"),
    "one class": ("nodes.csv", "id,label,age\na,x,1\nb,x,2\n", "got one class only: 'x'"),
    "no label column": ("nodes.csv", "id,Lable\na,x\n", "(did you mean 'Lable'?)"),
    "no id": ("nodes.csv", "id,label\n,x\nb,y\n", "nodes.csv, line 2: column 'id' must name a"),
    "other ids": ("nodes.csv", "id,label\n1,x\n2,y\n", "must share ids"),
    "long row": (
        "nodes.csv",
        "id,label\na,x,3\nb,y\n",
        "nodes.csv, line 2: a row must have at most",
    ),
    "open quote": ("nodes.csv", 'id,label\na,"x\nb,y\n', "a quote must be closed"),
    "no text": ("nodes.csv", b"id,label\na,\x81\n", "nodes.csv must be UTF-8 or cp1252 text"),
    "train lacks label": (
        "nodes.csv",
        "id,label,split\na,x,train\nb,,train\n",
        "line 3: a train node",
    ),
    "split": ("nodes.csv", "id,label,split\na,x,train\nb,y,tset\n", "must be train, validation or"),
    "one class trains": (
        "nodes.csv",
        "id,label,split\na,x,train\nb,y,test\nc,x,train\n",
        "training nodes must have at least two classes, got one class only: 'x'",
    ),
    "empty edges": ("edges.csv", "", "edges.csv is empty: its first line must name the columns"),
    "empty nodes": ("nodes.csv", "", "nodes.csv is empty: its first line must name the columns"),
    "weight": (
        "edges.csv",
        "source,target,weight\na,b,heavy\n",
        "edges.csv, line 2: column 'weight'",
    ),
    "nan weight": ("edges.csv", "source,target,weight\na,b,1\nb,c,NaN\n", "edges.csv, line 3"),
    "infinite weight": ("edges.csv", "source,target,weight\na,b,inf\n", "edges.csv, line 2"),
    "negative weight": (
        "edges.csv",
        "source,target,weight\na,b,-1\n",
        "must not be negative, got -1",
    ),
    "no target": (
        "edges.csv",
        "von,nach,am\na,b,c\n",
        "no column 'source'; its columns are 'von', 'nach'",
    ),
    "no end": (
        "edges.csv",
        "source,target\na,\n",
        "edges.csv, line 2: column 'target' must name a",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(run, name):
    file, content, reason = TABLES[name]
    Path(file).write_bytes(content if isinstance(content, bytes) else content.encode())
    refuse(run, TRAIN, reason)


def test_edge_to_an_unknown_node(run):
    Path("edges.csv").write_text(EDGES + "d,zoe\n")
    refuse(run, f"{TRAIN} --closed-ids", "edges.csv, line 7: target 'zoe' is not in nodes.csv")
    assert any("1 node only in edges.csv" in line for line in run(TRAIN).err)


def test_graph_files(run):
    arrays = {"row": [0, 1], "col": [1, 0], "data": [1.0], "shape": (2, 2), "format": b"coo"}
    np.savez("lengths.npz", **arrays)
    refuse(run, "train lengths.npz", "lengths.npz must be an .npz file of a graph")
    sp.save_npz("oblong.npz", sp.csr_matrix(np.ones((2, 3))))
    refuse(run, "train oblong.npz", "adjacency must be square, got shape (2, 3)")
    sp.save_npz("square.npz", sp.csr_matrix(np.ones((3, 3))))
    refuse(run, "train square.npz", "at least one node must have a label")
    refuse(run, "train square.npz --label x", "--label is for tables")
    refuse(run, "train square.npz --nodes nodes.csv", "nodes.csv, line 2: an id must be the number")
    Path("broken.npz").write_bytes(b"no zip")
    refuse(run, "train broken.npz", "it is no zip archive")
    Path("broken.graphml").write_text("<graphml>")
    refuse(run, "train broken.graphml", "broken.graphml must be a GraphML file")
    Path("broken.mtx").write_text("1 2\n")
    refuse(run, "train broken.mtx", "broken.mtx must be a Matrix Market file")
    Path("broken.parquet").write_text("no table")
    refuse(run, "train --edges broken.parquet", "broken.parquet must be a Parquet file")


def test_a_graph_with_labels_of_its_own_takes_no_table(run, model):
    shutil.copy(model / "graph.npz", "own.npz")
    refuse(run, "train own.npz --nodes nodes.csv", "says all about its nodes itself")


def test_class_that_training_lacks_is_a_warning(run):
    Path("nodes.csv").write_text("id,label,split\na,x,train\nb,y,train\nc,z,validation\nd,x,test\n")
    with pytest.warns(
        UserWarning, match="no training node has class 'z', which validation or test"
    ):
        run(TRAIN)


def test_edges_with_nothing_but_a_header(run):
    Path("edges.csv").write_text("source,target\n")
    done = run(TRAIN)
    assert "note: no edges: the graph is empty, the model works as a multi-layer perceptron" in (
        done.err
    )


def test_warnings_are_lines(tmp_path):
    """In a process of its own, where warnings are not errors."""
    (tmp_path / "edges.csv").write_text(EDGES)
    (tmp_path / "nodes.csv").write_text(
        "id,label,split\na,x,train\nb,y,train\nc,z,validation\nd,x,test\n"
    )
    done = finish(start(*TRAIN.split(), "-q", cwd=tmp_path))
    assert done.code == 0
    assert done.err == [
        "warning: no training node has class 'z', which validation or test nodes have: "
        "it can't be predicted"
    ]


def test_a_slip_is_told_before_torch_is_imported(tmp_path):
    (tmp_path / "edges.csv").write_text(EDGES)
    code = (
        "import sys; from graphconv.commands.cli import _run; code = _run(); "
        "sys.exit(99 if 'torch' in sys.modules else code)"
    )
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code, "train", "--edges", "edges.csv", "--nodes", "x"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "graphconv: x: no such file\n"


def damage(name, change):
    path = Path("model", name)
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize("name", ["model.json", "model.safetensors", "graph.npz"])
def test_corrupt_models(run, model, name):
    damage(name, lambda content: content[: len(content) // 2])
    refuse(run, "predict model -o out.csv", "")
    Path("model", name).write_bytes(b"")
    refuse(run, "embed model -o out.csv", "")
    Path("model", name).unlink()
    refuse(run, "predict model -o out.csv", "model")


def test_models_of_another_format(run, model):
    description = json.loads((model / "model.json").read_text())
    (model / "model.json").write_text(json.dumps({**description, "format": 99}))
    refuse(run, "predict model -o out.csv", "must have model format 1, got 99")


PREDICTIONS = {
    "edges.csv --nodes bare.csv": "bare.csv has no column 'age', which the model was trained with",
    "edges.csv --alone": "was trained with the column 'age': give a node table with --nodes",
    "edges.csv --nodes text.csv": "text.csv, line 2: column 'age' must be a finite number",
}


@pytest.mark.parametrize("files", PREDICTIONS)
def test_features_that_do_not_fit_the_model(run, model, files):
    Path("bare.csv").write_text("id,label\na,x\n")
    Path("text.csv").write_text("id,age\na,old\n")
    Path("predictions.csv").write_text("of another day")
    refuse(run, f"predict model --edges {files}", PREDICTIONS[files])


def test_graph_that_does_not_fit_the_model(run, model):
    refuse(run, "predict model cora", "trained with 1 feature")
    refuse(run, "predict model karate", "the graph to predict has none")


def test_new_nodes_for_a_model_without_features(run):
    run(f"{TRAIN} --ignore age -o model -q")
    Path("edges.csv").write_text(EDGES + "d,zoe\n")
    refuse(run, "predict model --edges edges.csv --nodes nodes.csv", "but 'zoe' is new")


OUTPUTS = {
    "-o edges.csv": "edges.csv must be a folder to write the model to, but is a file",
    "-o edges.csv/model": "--output must be where files can be written, got edges.csv/model",
    "-o thesis": "thesis must be a new or empty folder, or an earlier model, but holds other files",
    "-o .": "holds other files",
    "-o /proc/nowhere/model": "--output must be where files can be written",
}


@pytest.mark.parametrize("option", OUTPUTS)
def test_outputs(run, option):
    Path("thesis").mkdir()
    Path("thesis", "chapter.tex").write_text("years of work")
    refuse(run, f"{TRAIN} {option}", OUTPUTS[option])
    assert not Path("model").exists()


def test_models_with_something_else_in_their_folder_stay(run, model):
    (model / "notes.txt").write_text("keep me")
    refuse(run, f"{TRAIN} -o model --seed 1", "but holds other files (notes.txt)")


def test_the_current_folder_is_not_replaced(run, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    refuse(run, "train karate -o .", "--output must not be the current folder itself")


def test_read_only_file_system(run, tmp_path):
    with mounted(tmp_path / "disk", "ro"):
        refuse(run, f"{TRAIN} -o disk/model", "got disk/model: Read-only file system")
        refuse(run, f"{TRAIN} -o disk", "--output must not be a mount point itself")


def test_full_disk(run, tmp_path):
    with mounted(tmp_path / "disk", "size=64k") as disk:
        run(f"{TRAIN} -o disk/model -q --hidden 2")
        # The message names what was to be written; the old model and nothing else is there.
        refuse(run, f"{TRAIN} -o disk/model -q --hidden 30000", "disk/model: the disk is full")
        assert sorted(os.listdir(disk)) == ["model"]
        run("predict disk/model -o fine.csv")
        # While training, too; and when a table is written.
        line = f"{TRAIN} -o disk/model -q --hidden 30000 --checkpoint-seconds 0"
        refuse(run, line, "disk/model.training: the disk is full")
        refuse(run, "embed wide -o disk/table.csv", "wide must be a graphconv model folder")
        run(f"{TRAIN} -o wide -q --hidden 9000")
        refuse(run, "embed wide -o disk/table.csv -q", "disk/table.csv: the disk is full")
        refuse(run, "embed wide -o disk/table.parquet -q", "disk/table.parquet: the disk is full")
        assert sorted(os.listdir(disk)) == ["model"]


def test_more_memory_than_there_is(run):
    refuse(run, f"{TRAIN} -q --hidden 2000000000000", "training must fit the memory, but even in")


def test_a_failed_ingest_says_one_line_up_to_the_end_of_the_process(tmp_path):
    """DuckDB 2 looks for objects that are left when Python ends, and tells of each."""
    pytest.importorskip("duckdb")
    (tmp_path / "e.csv").write_text("source,target\na,b\n")
    done = finish(start("ingest", "--edges", "e.csv", "--nodes", "nobody", "-o", "g", cwd=tmp_path))
    assert (done.code, done.err) == (2, ["graphconv: nobody: no such file"])
    done = finish(start("ingest", "--edges", "e.csv", "-o", "g", "--quiet", cwd=tmp_path))
    assert (done.code, done.err) == (0, [])


@pytest.mark.parametrize("command", ["predict", "embed", "doubt"])
def test_an_output_that_is_a_folder(run, model, command):
    Path("d.csv").mkdir()
    refuse(run, f"{command} model -o d.csv", "output must be a file to write, got the folder d.csv")
