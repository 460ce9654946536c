"""The labelling server: who gets in, what is refused, and that nothing saved is ever lost."""

import concurrent.futures
import json
import os
import signal
import socket
import threading
import time
from pathlib import Path

import httpx
import pytest
from scripts.kill_labelling import kill_again_and_again
from tests.generated_graphs import generate
from tests.label_server import client, command, serving, until

from graphconv import Graph
from graphconv.commands import password
from graphconv.commands.password import read_password
from graphconv.io.label_file import read_label_lines
from graphconv.report.label.server import MOST_BYTES

ANSWER = {"nodes": [3], "label": "red", "how": "chosen"}


@pytest.fixture(scope="module")
def graph():
    made = generate("homophilous, bag of words", n_nodes=60)
    return Graph(made.adjacency, made.features)


@pytest.fixture
def served(graph, tmp_path):
    with serving(graph, tmp_path / "labels.csv") as (session, access):
        yield session, access


def test_the_address_is_needed_as_a_whole(served):
    _, access = served
    base = f"http://127.0.0.1:{access.port}"
    for path in ("/", "/x/", "/api/state", f"/{access.token[:-1]}/", f"/{access.token}",
                 f"/{access.token}x/api/state", f"//{access.token}/api/state"):  # fmt: skip
        assert httpx.get(base + path).status_code == 404, path
    assert httpx.get(f"{access.address()}api/state").status_code == 200
    assert len(access.token) >= 32
    assert access.token not in repr(access)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1"])
def test_another_host_name_is_refused(served, host):
    """A name that was bound to this machine to get around the browser's rules."""
    _, access = served
    response = httpx.get(f"{access.address()}api/state", headers={"Host": host})
    assert response.status_code == 421


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_other_sites_can_not_answer(served, headers, status):
    session, access = served
    sent = {"Content-Type": "application/json", **headers}
    response = httpx.post(f"{access.address()}api/answer", content=json.dumps(ANSWER), headers=sent)
    assert response.status_code == status
    assert session.answers.actions == []


def test_every_response_carries_the_policy(served):
    _, access = served
    scripts = [f"{name}.js" for name in ("map", "page", "card", "overview", "controls")]
    for path in ("", *scripts, "page.css", "api/state", "api/nodes", "api/nothing"):
        headers = httpx.get(access.address() + path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b'"x"', b"\xff\xfe", b"{}", b"[" * 100_000,
        b'{"nodes": 3, "label": "a", "how": "asked"}',
        b'{"nodes": [true], "label": "a", "how": "asked"}',
        b'{"nodes": [-1], "label": "a", "how": "asked"}',
        b'{"nodes": [99999999999999999999], "label": "a", "how": "asked"}',
        b'{"nodes": [1], "label": "", "how": "asked"}',
        b'{"nodes": [1], "label": "a\\nb", "how": "asked"}',
        b'{"nodes": [1], "label": 7, "how": "asked"}',
        b'{"nodes": [1], "label": "a", "how": "undo"}',
        b'{"nodes": [], "label": "a", "how": "asked"}',
        b'{"nodes": [1], "label": "' + b"a" * MOST_BYTES + b'", "how": "asked"}',
    ],
)  # fmt: skip
def test_malformed_answers_are_refused_with_a_sentence(served, body):
    session, access = served
    with client(access.address(), **{"Content-Type": "application/json"}) as http:
        response = http.post("api/answer", content=body)
    assert response.status_code == 400
    assert response.json()["problem"]
    assert session.answers.actions == []


@pytest.mark.parametrize(
    "path",
    ["card", "card?node=x", "card?node=-1", "card?node=60", "why?node=1e9", "table?kind=all",
     "table?kind=no&first=0&n=5", "table?kind=all&first=-1&n=5", "table?kind=all&first=0&n=9999",
     "table?kind=all&first=0&n=5&class=x", "search", "question"],
)  # fmt: skip
def test_malformed_questions_are_refused(served, path):
    _, access = served
    response = httpx.get(f"{access.address()}api/{path}")
    assert response.status_code == 400
    assert response.json()["problem"]


def test_an_answer_is_on_the_disk_before_it_is_confirmed(served):
    session, access = served
    with client(access.address()) as http:
        for number in range(5):
            response = http.post("api/answer", json={**ANSWER, "nodes": [number]})
            assert response.json()["saved"] == 1
            assert len(read_label_lines(session.answers.file.path)) == number + 1


def test_ten_thousand_requests_at_once(served):
    """Answers that were confirmed are saved; those that came too thick are told so."""
    session, access = served
    with client(access.address()) as http:
        assert http.get("api/state").status_code == 200

    def flood(first):
        statuses = []
        with client(access.address()) as http:
            for number in range(first, first + 100):
                if number % 50:
                    statuses.append(http.get("api/state").status_code)
                else:
                    sent = {**ANSWER, "nodes": [number % 60]}
                    statuses.append(http.post("api/answer", json=sent).status_code)
        return statuses

    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        found = [status for part in pool.map(flood, range(0, 10_000, 100)) for status in part]
    assert len(found) == 10_000
    assert set(found) <= {200, 503}
    assert found.count(200) > 1000
    until(lambda: len(session.answers.actions) == len(read_label_lines(session.answers.file.path)))
    assert httpx.get(f"{access.address()}api/state").status_code == 200


def test_slow_clients_hold_nobody_up(served):
    _, access = served
    held = []
    for _ in range(100):
        slow = socket.create_connection(("127.0.0.1", access.port))
        slow.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n")
        held.append(slow)
    reader = socket.create_connection(("127.0.0.1", access.port))
    path = f"/{access.token}/api/events"
    reader.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{access.port}\r\n\r\n".encode())
    began = time.monotonic()
    with client(access.address()) as http:
        for number in range(20):  # the reader never reads
            assert http.post("api/answer", json={**ANSWER, "nodes": [number]}).status_code == 200
    assert time.monotonic() - began < 120  # the limit of a request
    for one in (*held, reader):
        one.close()


def test_news_are_pushed(served):
    _, access = served
    states = []

    def listen():
        with httpx.stream("GET", f"{access.address()}api/events", timeout=120) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            for line in response.iter_lines():
                if line.startswith("data: "):
                    states.append(json.loads(line.removeprefix("data: ")))
                    if states[-1]["nAnswered"]:
                        return

    thread = threading.Thread(target=listen)
    thread.start()
    until(lambda: states)
    httpx.post(f"{access.address()}api/answer", json=ANSWER)
    thread.join(timeout=120)
    assert states[-1]["nAnswered"] == 1
    assert [state["revision"] for state in states] == sorted({s["revision"] for s in states})


def test_colleagues_sign_in(graph, tmp_path):
    more = {"password": "correct horse", "who": ""}
    with serving(graph, tmp_path / "labels.csv", **more) as (session, access):
        with client(access.address()) as http:
            assert http.get("api/state").status_code == 401
            assert http.post("api/answer", json=ANSWER).status_code == 401
            wrong = http.post("api/login", json={"name": "ann", "password": "correct hors"})
            assert wrong.status_code == 403
            assert http.post("api/login", json={"name": " ", "password": "x"}).status_code == 400
            right = http.post("api/login", json={"name": "ann", "password": "correct horse"})
            assert right.status_code == 200
            cookie = right.headers["set-cookie"]
            assert "HttpOnly" in cookie
            assert "samesite=strict" in cookie.lower()
            assert http.post("api/answer", json=ANSWER).status_code == 200
        with client(access.address()) as other:
            assert other.get("api/state").status_code == 401
        assert session.answers.actions[0].who == "ann"


def write_chain(folder, n_nodes=40):
    edges = "".join(f"n{k},n{k + 1}\n" for k in range(n_nodes - 1))
    (folder / "edges.csv").write_text(f"source,target\n{edges}")


def test_kill_at_random_moments_loses_nothing(tmp_path):
    n_confirmed, _ = kill_again_and_again(tmp_path, n_kills=4)
    assert n_confirmed > 4


def test_ctrl_c_writes_labels_model_and_report(tmp_path):
    (tmp_path / "nodes.csv").write_text(
        "id,title\n" + "".join(f"n{k},{'apples' if k < 20 else 'bears'} {k}\n" for k in range(40))
    )
    write_chain(tmp_path)
    arguments = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--text", "title")
    with command(*arguments, cwd=tmp_path) as (process, address):
        with client(address) as http:
            card = http.get("api/card?node=25").json()
            assert card["columns"] == [["title", "bears 25"]]
            for node in (1, 5, 15, 25, 30, 35):
                label = "fruit" if node < 20 else "animal"
                sent = {"nodes": [node], "label": label, "how": "chosen"}
                assert http.post("api/answer", json=sent).status_code == 200
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert "6 nodes labelled in labels.csv" in said
    folder = tmp_path / "labels-model"
    names = sorted(file.name for file in folder.iterdir())
    assert {"model.json", "predictions.csv", "report.html"} <= set(names)
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0 lets others reach the page, so a password must"),
        (["--host", "192.0.2.1"], "in --password-file FILE, in GRAPHCONV_PASSWORD"),
        (["--password-file", "short.txt"], "short.txt must have at least 8 characters, got 5"),
        (["--password-file", "none.txt"], "none.txt"),
        (["--password", "long enough"], "--password"),
        (["-o", "labels.txt"], "--output must end in .csv"),
        (["--port", "70000"], "--port must be from 0 to 65535"),
        (["--host", "192.0.2.1", "--password-file", "long.txt"], "must be an address that is free"),
    ],
)
def test_requests_that_make_no_sense_are_one_line(tmp_path, monkeypatch, capsys, options, said):
    from tests.command_line import make_runner

    monkeypatch.chdir(tmp_path)
    write_chain(tmp_path)
    (tmp_path / "short.txt").write_text("short\n")
    (tmp_path / "long.txt").write_text("long enough\n")
    run = make_runner(monkeypatch, capsys)
    done = run("label", "--edges", "edges.csv", "--no-open", *options, expect=2)
    assert said in done.err[-1]
    assert done.err[-1].startswith("graphconv: ")


def test_a_password_is_read_where_no_list_of_processes_shows_it(tmp_path, monkeypatch):
    path = tmp_path / "secret"
    path.write_text("correct horse\r\nanother line\n")
    assert read_password(path, None) == "correct horse"
    monkeypatch.setenv(password.VARIABLE, "from the environment")
    assert read_password(path, None) == "correct horse"
    assert read_password(None, None) == "from the environment"
    assert password.VARIABLE not in os.environ  # nobody who is started later sees it
    assert read_password(None, None) is None
    typed = iter(["typed by hand", "typed by hand", "typed by hand", "typed by foot"])
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(typed))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert read_password(None, "others can come") == "typed by hand"
    with pytest.raises(ValueError, match="typed differently"):
        read_password(None, "others can come")


def test_a_password_shows_nowhere(tmp_path):
    write_chain(tmp_path)
    (tmp_path / "secret").write_text("correct horse")
    arguments = ("--edges", "edges.csv", "--password-file", "secret")
    with command(*arguments, cwd=tmp_path) as (process, address):
        listed = Path(f"/proc/{process.pid}/cmdline")
        if listed.exists():
            assert b"correct horse" not in listed.read_bytes()
        with client(address) as http:
            sent = {"name": "ann", "password": "correct horse"}
            assert http.post("api/login", json=sent).status_code == 200
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=600)
    assert "correct horse" not in "".join(said)
    assert address not in said[1]
