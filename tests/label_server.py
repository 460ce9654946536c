"""A labelling server for tests: inside the process of the test, or as a command of its own."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time

import httpx

from graphconv.io.label_file import LabelFile
from graphconv.report.cards import Cards
from graphconv.report.label.server import Access, Pages
from graphconv.report.label.session import Session
from graphconv.results.answers import Answers
from graphconv.results.labelling import Learner


@contextlib.contextmanager
def serving(graph, labels_path, table=None, finish=dict, preset="robust", **access):
    """A page about a graph: its Session and the Access that knows its address."""
    import uvicorn

    with LabelFile(labels_path) as file, socket.create_server(("127.0.0.1", 0)) as listening:
        session = Session(
            graph, Answers(graph, file), Learner(graph, preset=preset), Cards(graph, table or {})
        )
        session.start()
        given = Access(listening.getsockname()[1], **{"who": "tester", **access})
        config = uvicorn.Config(
            Pages(session, given, finish).app(),
            log_level="critical",
            limit_concurrency=500,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            until(lambda: server.started)
            yield session, given
        finally:
            server.should_exit = True
            thread.join(timeout=120)
            session.close()


def until(holds, seconds=120.0, what="the server"):
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)


@contextlib.contextmanager
def command(*arguments, cwd):
    """`graphconv label` as a process of its own: the process and the page's address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "graphconv", "label", *map(str, arguments), "--no-open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        address = process.stdout.readline().strip()
        assert address, process.stderr.read()
        yield process, address
    finally:
        process.kill()
        process.communicate()


def client(address, **headers):
    return httpx.Client(base_url=address, timeout=120, headers=headers)
