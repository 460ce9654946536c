"""The server of the labelling page: Starlette routes over a `Session`, and who may ask.

The address holds a secret; every request is checked for it, for the host it was sent to and for the
page it comes from, before anything else looks at it. All that is served lies in the package.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphconv.io.files import json_text
from graphconv.report.label._views import Views
from graphconv.report.label.session import Session

MOST_BYTES = 2_000_000
SECONDS_BETWEEN_PINGS = 15.0
COOKIE = "graphconv"
_ASSETS = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    **{
        f"{name}.js": (f"{name}.js", "text/javascript; charset=utf-8")
        for name in ("map", "page", "card", "overview", "controls")
    },
}
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Access:
    """Who may ask.

    Parameters
    ----------
    port : int
    hosts : tuple of str
        Names by which the server may be called, without the port.
    token : str
        The secret in the address.
    who : str
        Who labels, where nobody signs in.
    password : str, optional
        What colleagues must know to sign in with their name.
    """

    port: int
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost")
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    who: str = ""
    password: str | None = field(default=None, repr=False)

    def address(self, host: str | None = None) -> str:
        return f"http://{host or self.hosts[0]}:{self.port}/{self.token}/"


class Guard:
    """Lets only requests through that know the secret and come from the page itself."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access
        self._hosts = {f"{host}:{access.port}" for host in access.hosts}
        if access.port == 80:
            self._hosts |= set(access.hosts)
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await Response(refusal[1], refusal[0], _HEADERS)(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        prefix = f"/{self.access.token}"
        inner = {**scope, "path": scope["path"].removeprefix(prefix) or "/"}
        await self.app(inner, receive, send_guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in
                   scope["headers"]}  # fmt: skip
        if headers.get("host", "").lower() not in self._hosts:
            return 421, "This server does not go by that name."
        given = scope["path"].split("/", 2)
        token = given[1] if len(given) > 2 else ""
        if not hmac.compare_digest(token.encode(), self.access.token.encode()):
            return 404, "Not found. The whole address is needed, as it was printed."
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._origins:
            return 403, "Requests must come from the page itself."
        site = headers.get("sec-fetch-site", "same-origin")
        if site not in ("same-origin", "none"):
            return 403, "Requests must come from the page itself."
        if scope["method"] == "POST" and headers.get("content-type") != "application/json":
            return 415, "Answers must be JSON."
        return None


Finish = Callable[[], dict[str, Any]]


class Pages:
    """What is answered to whom."""

    def __init__(self, session: Session, access: Access, finish: Finish) -> None:
        self.session, self.access, self.finish = session, access, finish
        self.views = Views(session)
        self._names: dict[str, str] = {}  # who signed in, by cookie
        self._changed: asyncio.Condition | None = None
        self._finishing = asyncio.Lock()
        self._signing_in = asyncio.Lock()

    def app(self) -> ASGIApp:
        calls: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "state": self.state,
            "nodes": self.nodes,
            "map": self.map,
            "events": self.events,
            "question": self.question,
            "card": self.card,
            "why": self.why,
            "table": self.table,
            "search": self.search,
        }
        actions: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "answer": self.answer,
            "undo": self.undo,
            "layout": self.layout,
            "finish": self.finished,
        }
        routes = [Route(f"/{name}", self.asset, methods=["GET"]) for name in _ASSETS]
        routes += [Route(f"/api/{n}", self._safe(f), methods=["GET"]) for n, f in calls.items()]
        routes += [Route(f"/api/{n}", self._safe(f), methods=["POST"]) for n, f in actions.items()]
        routes.append(Route("/api/login", self._safe(self.login, open=True), methods=["POST"]))
        return Guard(Starlette(routes=routes, lifespan=self._lifespan), self.access)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._changed = asyncio.Condition()
        loop = asyncio.get_running_loop()

        def tell() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(lambda: loop.create_task(self._wake()))

        self.session.listeners.append(tell)
        yield
        self.session.listeners.remove(tell)

    async def _wake(self) -> None:
        assert self._changed is not None
        async with self._changed:
            self._changed.notify_all()

    def _safe(
        self, call: Callable[[Request], Awaitable[Response]], open: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        """What is wrong with a request becomes a sentence; nobody who is not signed in gets in."""

        async def respond(request: Request) -> Response:
            if not open and self._who(request) is None:
                return _problem(401, "Sign in first.")
            try:
                return await call(request)
            except OSError as error:
                reason = error.strerror or str(error)
                return _problem(507, f"Not saved: {reason}. Nothing was changed.")
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                text = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
                return _problem(400, text)
            except ClientDisconnect:
                return Response(status_code=400)

        return respond

    def _who(self, request: Request) -> str | None:
        if self.access.password is None:
            return self.access.who
        return self._names.get(request.cookies.get(COOKIE, ""))

    async def asset(self, request: Request) -> Response:
        name, kind = _ASSETS[request.url.path.removeprefix("/")]
        folder = files("graphconv.report.label")
        return Response(folder.joinpath(name).read_bytes(), media_type=kind)

    async def login(self, request: Request) -> Response:
        given = await _body(request)
        name, password = str(given.get("name", "")).strip(), str(given.get("password", ""))
        if self.access.password is None or not 0 < len(name) <= 80 or not name.isprintable():
            return _problem(400, "A name is needed.")
        async with self._signing_in:  # one try at a time, and not many of them
            if not hmac.compare_digest(password.encode(), self.access.password.encode()):
                await asyncio.sleep(1)
                return _problem(403, "That is not the password.")
        cookie = secrets.token_urlsafe(24)
        self._names[cookie] = name
        response = _json({"who": name})
        path = f"/{self.access.token}/"
        response.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", path=path)
        return response

    async def state(self, request: Request) -> Response:
        return _json({**self.views.state(), "who": self._who(request)})

    async def nodes(self, request: Request) -> Response:
        return Response(self.views.node_bytes(), media_type="application/octet-stream")

    async def map(self, request: Request) -> Response:
        return Response(self.views.place_bytes(), media_type="application/octet-stream")

    async def question(self, request: Request) -> Response:
        found = self.views.question(_text(request, "page")[:40])
        return _json({"question": found})

    async def card(self, request: Request) -> Response:
        return _json(await run_in_threadpool(self.views.card, self._node(request)))

    async def why(self, request: Request) -> Response:
        node = self._node(request)
        return _json({"node": node, "why": await run_in_threadpool(self.views.why, node)})

    async def table(self, request: Request) -> Response:
        kind = _text(request, "kind")
        if kind not in ("all", "labelled", "unlabelled", "doubts"):
            raise ValueError("kind must be all, labelled, unlabelled or doubts")
        wanted = request.query_params.get("class")
        number = None if wanted in (None, "") else int(wanted)
        low, high = (float(request.query_params.get(name, end)) for name, end in
                     (("low", "0"), ("high", "1")))  # fmt: skip
        first, n = int(_text(request, "first")), int(_text(request, "n"))
        if first < 0 or not 0 < n <= 200:
            raise ValueError("first must be at least 0 and n from 1 to 200")
        return _json(await run_in_threadpool(self.views.table, kind, number, low, high, first, n))

    async def search(self, request: Request) -> Response:
        text = _text(request, "q")[:200]
        return _json({"found": await run_in_threadpool(self.views.search, text)})

    async def answer(self, request: Request) -> Response:
        given = await _body(request)
        nodes, label, how = given["nodes"], given["label"], given["how"]
        if not isinstance(nodes, list) or not all(type(node) is int for node in nodes):
            raise ValueError("nodes must be a list of node positions")
        if not isinstance(label, str) or not isinstance(how, str):
            raise ValueError("label and how must be text")
        who = self._who(request) or ""
        action = await run_in_threadpool(self.session.give, nodes, label, who, how)
        following = self.views.question(_page(given))
        card = None if following is None else self.views.card(following["node"])
        return _json({"saved": len(action.nodes), "next": following, "card": card})

    async def undo(self, request: Request) -> Response:
        page = _page(await _body(request))
        action = await run_in_threadpool(self.session.undo, self._who(request) or "", page)
        nodes = [] if action is None else list(action.nodes)
        return _json({"undone": nodes, "how": "" if action is None else action.how})

    async def layout(self, request: Request) -> Response:
        await _body(request)
        self.session.lay_out()
        return _json({})

    async def finished(self, request: Request) -> Response:
        await _body(request)
        async with self._finishing:
            return _json(await run_in_threadpool(self.finish))

    async def events(self, request: Request) -> Response:
        """Server-sent events: the state whenever it changes; a slow page gets the newest only."""
        who = self._who(request)

        async def stream() -> AsyncIterator[str]:
            sent = -1
            while True:
                state = self.views.state()
                if state["revision"] != sent:
                    sent = state["revision"]
                    yield f"data: {json_text({**state, 'who': who})}\n\n"
                try:
                    await asyncio.wait_for(self._change_since(sent), SECONDS_BETWEEN_PINGS)
                except asyncio.TimeoutError:
                    yield ": still here\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def _change_since(self, sent: int) -> None:
        assert self._changed is not None
        async with self._changed:
            await self._changed.wait_for(lambda: self.session.revision != sent)

    def _node(self, request: Request) -> int:
        node = int(_text(request, "node"))
        if not 0 <= node < self.session.graph.n_entities:
            raise ValueError("node must be a position of the graph's nodes")
        return node


def _text(request: Request, name: str) -> str:
    return request.query_params[name]


def _page(given: dict[str, Any]) -> str:
    """Which of several open pages it is."""
    return str(given.get("page", ""))[:40]


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object that was sent, if it is one of a reasonable size."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            raise ValueError(f"a request must not be larger than {MOST_BYTES:,} bytes")
        parts.append(part)
    try:
        given = json.loads(b"".join(parts))
    except UnicodeDecodeError:
        raise ValueError("a request must be JSON in UTF-8") from None
    if not isinstance(given, dict):
        raise ValueError("a request must be a JSON object")
    return given


def _json(values: dict[str, Any]) -> Response:
    return Response(json_text(values), media_type="application/json")


def _problem(status: int, text: str) -> Response:
    return JSONResponse({"problem": text[:300]}, status)
