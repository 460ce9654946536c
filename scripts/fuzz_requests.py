"""Fuzzing, the requests: what a browser, or anybody, may send to the labelling page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from graphconv import Graph
from graphconv.io.label_file import LabelFile
from graphconv.report.cards import Cards
from graphconv.report.label.server import Access, Pages
from graphconv.report.label.session import Session
from graphconv.results.answers import Answers
from graphconv.results.labelling import Learner

ANSWER = b'{"nodes": [0, 3], "label": "red", "how": "asked", "page": "p1"}'
# What pages ask for, by the name of the call.
QUERY = b"""{"question": {"page": "p1"}, "card": {"node": "3"}, "why": {"node": "0"},
"table": {"kind": "all", "class": "1", "low": "0", "high": "1", "first": "0", "n": "5"},
"search": {"q": "n1"}, "state": {}, "nodes": {}}"""
HOST, TOKEN = "localhost", "secret"


def readers(folder: Path, graph: Graph) -> dict[str, tuple[bytes, Callable[[bytes], None]]]:
    """A valid request of each kind, and what it is sent to."""
    return {
        "answer": (ANSWER, partial(_answer, folder, graph)),
        "query": (QUERY, partial(_query, folder, graph)),
    }


def _answer(folder: Path, graph: Graph, content: bytes) -> None:
    """Send an answer and take it back."""
    path = folder / "answers.csv"
    path.unlink(missing_ok=True)
    # A session of its own, so that no input bears on the next.
    with LabelFile(path) as file:
        app = _app(graph, file)
        _send(app, "answer", body=content)
        _send(app, "undo", body=content)


def _query(folder: Path, graph: Graph, content: bytes) -> None:
    """Ask for whatever a page may ask for; names of calls that there are not are left out."""
    try:
        wanted = json.loads(content)
    except RecursionError:  # ours, not the server's
        raise ValueError("no query") from None
    with LabelFile(folder / "answers.csv") as file:
        app = _app(graph, file)
        for name in json.loads(QUERY):
            params = wanted.get(name) if isinstance(wanted, dict) else None
            if isinstance(params, dict):
                texts = {key: str(value) for key, value in params.items()}
                _send(app, name, query=urlencode(texts, errors="replace"))


def _app(graph: Graph, file: LabelFile) -> Any:
    session = Session(graph, Answers(graph, file), Learner(graph), Cards(graph, {}))
    return Pages(session, Access(80, (HOST,), TOKEN, who="me"), dict).app()


def _send(app: Any, name: str, body: bytes | None = None, query: str = "") -> None:
    """Make a request; one that is refused raises ValueError with the reason."""
    asked = [{"type": "http.request", "body": body or b"", "more_body": False}]
    answered: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return asked.pop() if asked else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        answered.append(message)

    headers = [(b"host", HOST.encode()), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "method": "GET" if body is None else "POST",
        "path": f"/{TOKEN}/api/{name}",
        "query_string": query.encode(),
        "headers": headers,
    }
    asyncio.run(app(scope, receive, send))
    if answered[0]["status"] != 200:
        raise ValueError(json.loads(answered[1]["body"])["problem"])
