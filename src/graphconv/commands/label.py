"""What `graphconv label` does: load the data, serve the page, write the model at the end."""

from __future__ import annotations

import getpass
import ipaddress
import os
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphconv.commands.console import Screen
from graphconv.commands.data_source import DataRequest, check_options_are_used, load_data
from graphconv.commands.password import read_password
from graphconv.commands.summary import describe
from graphconv.commands.training_job import ModelRequest, load_job, resolve
from graphconv.io.files import REPORT_FILE, check_replaceable
from graphconv.io.label_file import LabelFile, read_label_lines
from graphconv.io.readers import LoadedGraph
from graphconv.io.wording import count
from graphconv.results.answers import Answers, with_label_lines

if TYPE_CHECKING:
    from graphconv.report.label.server import Access
    from graphconv.report.label.session import Session

# Requests that are answered at the same time; more get "busy" and may ask again.
MOST_AT_ONCE = 500


class _SilentScreen(Screen):
    """Prints nothing: the page says what there is to say."""

    def table(self, title: str, columns: list[str], rows: list[list[str]]) -> None:
        pass

    def result(self, values: dict[str, Any]) -> None:
        pass


@dataclass(frozen=True)
class LabelRequest:
    """What to label, where to save it, and who may come to the page."""

    data: DataRequest
    output: Path
    results: Path | None = None
    no_labels: bool = False
    host: str = "127.0.0.1"
    port: int = 0
    password_file: Path | None = None
    open_browser: bool = True
    seed: int = 0

    @property
    def folder(self) -> Path:
        """Where the model goes."""
        return self.results or self.output.with_name(f"{self.output.stem}-model")

    @property
    def is_open_to_others(self) -> bool:
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host != "localhost"

    def password(self) -> str | None:
        """What colleagues must know; asked for where they can reach the page."""
        reason = f"--host {self.host} lets others reach the page"
        return read_password(self.password_file, reason if self.is_open_to_others else None)

    def check(self) -> None:
        """Refuse what no data could make right."""
        if self.output.suffix.lower() != ".csv":
            raise ValueError(f"--output must end in .csv, got {self.output}")
        if not 0 <= self.port < 2**16:
            raise ValueError(f"--port must be from 0 to 65535, got {self.port}")
        check_options_are_used(self.data)
        check_replaceable(self.folder)


def run_labelling(wanted: LabelRequest, screen: Screen) -> None:
    """Serve the page until Ctrl-C, then write the model folder."""
    wanted.check()
    password = wanted.password()
    try:
        import starlette  # noqa: F401 - asked only whether it is there
        import uvicorn
    except ImportError:
        raise ValueError("the page needs a server: pip install starlette uvicorn") from None
    loaded = _load(wanted, screen)
    with LabelFile(wanted.output) as file:
        session = _make_session(wanted, loaded, file)
        for note in loaded.notes:
            screen.remark(note)
        screen.note(describe(loaded.graph)[0])
        if session.answers.actions:
            n_before = count(session.answers.n_answered, "node")
            screen.note(f"going on with {wanted.output}: {n_before} labelled")
        session.start()

        def finish() -> dict[str, Any]:
            return _write_model(wanted, loaded, _SilentScreen(quiet=True))

        try:
            _serve(uvicorn, wanted, password, session, finish, screen)
        finally:
            session.close()
        n_answered = session.answers.n_answered
    screen.note(f"{count(n_answered, 'node')} labelled in {wanted.output}")
    _finish(wanted, loaded, n_answered, screen)


def _finish(wanted: LabelRequest, loaded: LoadedGraph, n_answered: int, screen: Screen) -> None:
    results: dict[str, Any] = {"n_labelled": n_answered, "labels": str(wanted.output)}
    if n_answered:
        screen.note(f"writing the model to {wanted.folder} (Ctrl-C again leaves it)")
        try:
            silent = _SilentScreen(quiet=True)
            results |= _write_model(wanted, loaded, silent if screen.as_json else screen)
        except ValueError as error:
            screen.note(f"no model was written: {error}")
    screen.result(results)


def _load(wanted: LabelRequest, screen: Screen) -> LoadedGraph:
    """The data, or that of a model folder."""
    data = wanted.data
    folder = Path(data.name or "")
    if data.name and (folder / "model.json").is_file():
        from graphconv.training.checkpoint import load_model

        saved = load_model(folder)
        loaded = LoadedGraph(saved.fitted.graph, saved.encoding)
    else:
        loaded = load_data(data, screen, require_label=False)
    graph = loaded.graph
    if graph.folder is not None:
        raise ValueError("labelling needs a graph in memory, got a folder")
    if graph.is_multilabel:
        raise ValueError("nodes must have one label each to be labelled here, got several")
    if wanted.no_labels:
        graph = graph.with_labels(np.full(graph.n_nodes, -1), [])
    return replace(loaded, graph=graph)


def _make_session(wanted: LabelRequest, loaded: LoadedGraph, file: LabelFile) -> Session:
    from graphconv.report.cards import Cards
    from graphconv.report.label.session import Session
    from graphconv.results.labelling import Learner

    preset, _ = resolve(ModelRequest(), loaded.graph.name)
    learner = Learner(loaded.graph, preset=preset, seed=wanted.seed)
    return Session(loaded.graph, Answers(loaded.graph, file), learner, Cards.of_loaded(loaded))


def _serve(
    uvicorn: Any,
    wanted: LabelRequest,
    password: str | None,
    session: Session,
    finish: Callable[[], dict[str, Any]],
    screen: Screen,
) -> None:
    from graphconv.report.label.server import Access, Pages

    with _open_socket(wanted) as listening:
        port = listening.getsockname()[1]
        who = "" if password else _user_name()
        access = Access(port, _host_names(wanted), who=who, password=password)
        config = uvicorn.Config(
            Pages(session, access, finish).app(),
            log_level="critical",
            access_log=False,
            server_header=False,
            limit_concurrency=MOST_AT_ONCE,
            timeout_graceful_shutdown=1,
        )
        _introduce(wanted, access, screen)
        if wanted.open_browser:
            threading.Thread(target=webbrowser.open, args=[access.address()], daemon=True).start()
        with suppress(KeyboardInterrupt):  # the way to end it
            uvicorn.Server(config).run(sockets=[listening])


def _introduce(wanted: LabelRequest, access: Access, screen: Screen) -> None:
    # On stdout, so that a script can read it; nobody else may see it.
    print(access.address(), flush=True)
    screen.note("open this address in a browser; Ctrl-C ends the session and writes the model")
    if wanted.is_open_to_others:
        screen.note(
            "note: whoever is in the same network and has the address and the password can read "
            "the data and label it. Nothing is encrypted on the way: use it only where you trust "
            "the network, or through an SSH tunnel"
        )


def _open_socket(wanted: LabelRequest) -> socket.socket:
    family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
    try:
        return socket.create_server((wanted.host, wanted.port), family=family, backlog=2048)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"--host and --port must be an address that is free here, got {wanted.host}, "
            f"{wanted.port}: {reason}"
        ) from None


def _host_names(wanted: LabelRequest) -> tuple[str, ...]:
    """What the server may be called in a request; the first is the one to print."""
    local = ("127.0.0.1", "localhost")
    if not wanted.is_open_to_others:
        own = f"[{wanted.host}]" if ":" in wanted.host else wanted.host
        return tuple(dict.fromkeys((own, *local)))
    name = socket.gethostname()
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(name, None, socket.AF_INET)}
    except OSError:
        found = set()
    is_any = wanted.host in ("0.0.0.0", "::")
    first = name if is_any else f"[{wanted.host}]" if ":" in wanted.host else wanted.host
    names = (first, name, socket.getfqdn(), *sorted(found), *local)
    return tuple(dict.fromkeys(one.lower() for one in names))


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a process without an entry among the users
        return str(os.getuid()) if hasattr(os, "getuid") else ""


def _write_model(wanted: LabelRequest, loaded: LoadedGraph, screen: Screen) -> dict[str, Any]:
    """Train on all answers but the random ones, which test it, and write the folder."""
    from graphconv.commands.train import train_gcn

    lines = read_label_lines(wanted.output)
    labelled = replace(
        loaded, graph=with_label_lines(loaded.graph, lines, wanted.output.name), notes=()
    )
    model = ModelRequest(seed=wanted.seed)
    job = load_job(wanted.data, model, wanted.folder, screen, True, labelled)
    train_gcn(job, False, 10.0)
    return {"output": str(wanted.folder), "report": str(wanted.folder / REPORT_FILE)}
