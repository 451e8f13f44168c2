"""Who may ask: every request and every socket passes here before anything else sees it.

Refused are hosts that are not this one (DNS rebinding), requests that another site's page sends (by their Origin, and
by the Sec-Fetch headers of browsers), bodies larger than an upload may be, and whoever has not shown the token: other
users of this machine too.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from dovetail.explorer.settings import Settings, may_be_called
from dovetail.files.uploaded import LIMIT_BYTES
from dovetail.units import KIBI

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

TOKEN = "token"
NO_TOKEN = "open the address that `dovetail ui` printed, which has a token in it, or ask the person who started it"
FORM_BYTES = 16 * int(KIBI)  # what a form adds to the file in it
MAX_BODY_BYTES = LIMIT_BYTES + FORM_BYTES
TOO_LARGE = f"an upload has at most {LIMIT_BYTES:,} bytes"
MAX_QUERY_CHARACTERS = 60_000  # servers commonly read requests of 64 KiB
MAX_DIGITS = 15  # of a length that a request names: no body that is read is longer
CLOSED = 1008  # RFC 6455, 7.4.1: a message that breaks a rule of the server
# Nothing but this server: no other site is asked for anything, frames the page, or is told where it was opened.
# Vue compiles its templates in the page, which takes eval; NiceGUI's own start is written into the page.
POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Guard:
    """An ASGI application around another."""

    def __init__(self, app: App, settings: Settings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        status, reason = self._refusal(scope)
        if status:
            await _refuse(scope, send, status, reason)
        elif self._is_first_visit(scope):
            await self._welcome(scope, send)
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        """Hands the request on; a length that is said was checked, and the web server holds the sender to it."""
        if scope["type"] == "http" and not _values(scope, b"content-length"):
            messages = await _read(receive)
            if not messages:
                await _refuse(scope, send, 413, TOO_LARGE)
                return
            receive = _again(messages, receive)
        await self._app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Message) -> tuple[int, str]:
        """Why a request is not heard, with its HTTP status; 0 where it is."""
        hosts, origins = _values(scope, b"host"), _values(scope, b"origin")
        if len(hosts) != 1 or not may_be_called(host_name(hosts[0]), self._settings):
            return 403, "this server is not called that; open the address it printed"
        if any(not _is_same(origin, hosts[0]) for origin in origins) or not _is_own_fetch(scope):
            return 403, "pages of other sites may not send requests to this server"
        if len(scope.get("query_string", b"")) > MAX_QUERY_CHARACTERS:
            return 414, f"an address has at most {MAX_QUERY_CHARACTERS:,} characters"
        lengths = _values(scope, b"content-length")
        if not all(map(_is_short, lengths)):
            return 413, TOO_LARGE
        if not self._is_known(scope):
            return 401, NO_TOKEN
        return 0, ""

    def _is_known(self, scope: Message) -> bool:
        return any(self._is_token(said) for said in (*_cookies(scope, cookie_name(self._settings)), *_said(scope)))

    def _is_token(self, said: str) -> bool:
        """Compared in a time that does not tell how much of it was right."""
        return hmac.compare_digest(said.encode(), self._settings.token.encode())

    def _is_first_visit(self, scope: Message) -> bool:
        """Whether the token is in the address: it goes into a cookie, so that it is in no history or link."""
        return scope["type"] == "http" and bool(_said(scope))

    async def _welcome(self, scope: Message, send: Send) -> None:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        rest = urlencode([(name, value) for name, value in query if name != TOKEN])
        path = "/" + scope["path"].lstrip("/")  # //host would be another site
        to = (path + (f"?{rest}" if rest else "")).encode("ascii", "ignore")
        cookie = f"{cookie_name(self._settings)}={self._settings.token}; Path=/; HttpOnly; SameSite=Strict".encode()
        headers = [(b"location", to), (b"set-cookie", cookie), (b"content-length", b"0"), *HEADERS]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def cookie_name(settings: Settings) -> str:
    """Of each port its own: browsers send cookies to every port of a host, and one user may run several servers."""
    return f"dovetail-{settings.port}"


def host_name(host: str) -> str:
    """A Host header without its port; empty where it is no such thing."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises where it is no number
    except ValueError:
        return ""
    if parts.path or parts.query or parts.fragment or "@" in host:
        return ""
    return parts.hostname or ""


def _is_same(origin: str, host: str) -> bool:
    """Whether a page of `origin` was served under this very host and port."""
    scheme, _, own = origin.partition("://")
    return scheme in ("http", "https") and own.lower() == host.lower()


def _is_own_fetch(scope: Message) -> bool:
    """Whether a browser asks for a page of ours or by its user's hand, or follows a link: Sec-Fetch headers say.

    An image, script, frame or fetch of another site's page is none of these, and neither is one of another port of this
    host. Who sends no such header is no browser of today; the token and Origin guard against them.
    Source: W3C, Fetch Metadata Request Headers, 2021.
    """
    sites = _values(scope, b"sec-fetch-site")
    if all(site in ("same-origin", "none") for site in sites):
        return True
    is_link = _values(scope, b"sec-fetch-mode") == ["navigate"] and _values(scope, b"sec-fetch-dest") == ["document"]
    return is_link and scope.get("method") in ("GET", "HEAD")


def _is_short(length: str) -> bool:
    """Whether a body of the `length` that a request names is read."""
    return length.isdecimal() and len(length) <= MAX_DIGITS and int(length) <= MAX_BODY_BYTES


def _values(scope: Message, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _said(scope: Message) -> list[str]:
    query = parse_qsl(scope.get("query_string", b"").decode("latin-1"))
    return [value for name, value in query if name == TOKEN]


def _cookies(scope: Message, name: str) -> list[str]:
    found = []
    for header in _values(scope, b"cookie"):
        try:
            jar = SimpleCookie(header)
        except CookieError:
            continue
        if name in jar:
            found.append(jar[name].value)
    return found


async def _read(receive: Receive) -> tuple[Message, ...]:
    """A body that does not state how long it is, read before anybody is asked; nothing where it is too large."""
    messages: list[Message] = []
    num_bytes = 0
    while not messages or messages[-1].get("more_body"):
        messages.append(await receive())
        num_bytes += len(messages[-1].get("body", b""))
        if num_bytes > MAX_BODY_BYTES:
            return ()
    return tuple(messages)


def _again(messages: tuple[Message, ...], receive: Receive) -> Receive:
    """What was read, and then what else comes."""
    rest = list(reversed(messages))

    async def received() -> Message:
        return rest.pop() if rest else await receive()

    return received


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *HEADERS]}
        await send(message)

    return sent


async def _refuse(scope: Message, send: Send, status: int, reason: str) -> None:
    is_socket = scope["type"] == "websocket"
    if is_socket and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": CLOSED})  # before it is accepted: answered with 403
        return
    begin = "websocket." if is_socket else ""  # a server with this extension answers a handshake as any request
    body = f"{reason}\n".encode()
    length = str(len(body)).encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", length), *HEADERS]
    await send({"type": f"{begin}http.response.start", "status": status, "headers": headers})
    await send({"type": f"{begin}http.response.body", "body": body})
