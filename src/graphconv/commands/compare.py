"""What `graphconv compare` does: load data, compare methods on it, write numbers and plot, tell."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from graphconv.commands.console import Screen, TrainingStoppedError
from graphconv.commands.data_source import DataRequest, check_options_are_used, load_data
from graphconv.commands.summary import about_isolated
from graphconv.estimators.compare import METHODS, choose_methods, compare
from graphconv.estimators.verdict import Comparison
from graphconv.io.files import check_writable, json_text, replacing_file
from graphconv.io.split_values import KINDS
from graphconv.io.table_graph import TableOptions
from graphconv.io.wording import as_file_name, count
from graphconv.models.settings import PAPER_ACCURACY


def run_comparison(
    data: DataRequest,
    methods: Sequence[str] | None,
    n_splits: int,
    seed: int,
    output: Path | None,
    screen: Screen,
) -> None:
    """Compare methods on somebody's data; print the table, write numbers and plot to a folder."""
    chosen = choose_methods(methods)
    check_options_are_used(data)
    with _saying_how_to_go_on():
        by_column = (data.split or "").partition(":")[0] in KINDS
        loaded = load_data(data if by_column else replace(data, split=None), screen)
    name = as_file_name(loaded.graph.name, "graph")
    folder = Path("runs") / f"compare-{name}" if output is None else output
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--output must be a folder, got the file {folder}")
    check_writable(folder)
    for note in (*loaded.notes, *loaded.columns, about_isolated(loaded.graph)):
        screen.remark(note)
    log_path = folder / "runs.jsonl"
    with _saying_how_to_go_on(log_path), screen.showing() as progress:
        found = compare(
            loaded.graph,
            chosen,
            n_splits=n_splits,
            split=data.split or "fraction",
            split_values=loaded.split_values,
            random_state=seed,
            log_path=log_path,
            progress=progress,
        )
        command = train_command(data, found.recommended.method)
        results: dict[str, Any] = {**found.to_json(), "command": command, "output": str(folder)}
        _write(found, results, folder)
    _tell(found, data.split or "", screen)
    screen.note(f"compare.png, compare.svg, compare.json and runs.jsonl written to {folder}")
    screen.say(command)
    screen.result(results)


def train_command(data: DataRequest, method: str) -> str:
    """The command that trains a method on the data that was compared on.

    Examples
    --------
    >>> from graphconv.commands.data_source import DataRequest
    >>> from graphconv.commands.compare import train_command
    >>> data = DataRequest(edges=("my edges.csv",), table_options={"text": ("title",)})
    >>> train_command(data, "sgc")
    "graphconv train --edges 'my edges.csv' --text title --model sgc"
    >>> train_command(DataRequest("cora"), "gcn-first-order")
    'graphconv train cora --preset robust --propagation first-order'
    """
    words = ["graphconv", "train", *([] if data.name is None else [data.name])]
    for name in ("edges", "nodes", "data_dir", "labels"):
        value = getattr(data, name)
        for one in value if isinstance(value, tuple) else (value,):
            words += [] if one is None else [_option(name), str(one)]
    usual = {field.name: field.default for field in fields(TableOptions)}
    for name, value in data.table_options.items():
        if value == usual.get(name) or value in (None, ()):
            continue
        option = "--split-column" if name == "split" else _option(name)
        if isinstance(value, bool):
            words.append(option)
        else:
            for one in value if isinstance(value, tuple) else (value,):
                words += [option, str(one)]
    if (data.split or "").partition(":")[0] in KINDS:
        words += ["--split", str(data.split)]
    how = METHODS[method]
    if not how.preset or how.model:
        words += ["--model", method]
    else:
        # A data set of the paper is trained by the paper's recipe unless another is named.
        is_usual = how.preset == "robust" and how.rule and data.name not in PAPER_ACCURACY
        words += [] if is_usual else ["--preset", how.preset]
        words += ["--propagation", how.rule] if how.rule else []
    return shlex.join(words)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@contextmanager
def _saying_how_to_go_on(log_path: Path | None = None) -> Iterator[None]:
    """On Ctrl-C, say which runs are kept and what goes on from them."""
    try:
        yield
    except KeyboardInterrupt:
        n_kept = 0
        if log_path is not None and log_path.exists():
            n_kept = log_path.read_bytes().count(b"\n")
        if not n_kept:
            raise TrainingStoppedError(
                "no run had finished, so none is kept; the same command starts anew"
            ) from None
        raise TrainingStoppedError(
            f"{count(n_kept, 'run')} kept; the same command goes on from {log_path}"
        ) from None


def _write(found: Comparison, results: dict[str, Any], folder: Path) -> None:
    from graphconv.report.comparison import draw_comparison
    from graphconv.report.figures import save_figure

    with replacing_file(folder / "compare.json") as new:
        new.write_text(json_text(results, indent=1), encoding="utf-8")
    save_figure(draw_comparison(found), folder / "compare")


def _tell(found: Comparison, split: str, screen: Screen) -> None:
    columns, rows = found.table()
    sizes = f"{found.n_train} training, {found.n_validation} validation, {found.n_test} test nodes"
    kind, _, column = split.partition(":")
    how = f"splits by {kind} (column {column!r})" if kind in KINDS else "random splits"
    title = f"{found.dataset}: {found.n_splits} {how} of {sizes}"
    screen.table(title, columns, rows)
    screen.say(f"\n{found.recommendation}")
    for name, reason in found.failed.items():
        screen.remark(f"{name} failed: {reason}")
    screen.remark(found.caution)
    if kind == "time":
        screen.remark("each split leaves a random fifth of the labels out, so that splits differ")
    screen.remark("intervals are of paired differences, Nadeau and Bengio's corrected t")
