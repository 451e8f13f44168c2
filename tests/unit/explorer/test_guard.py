"""Who may ask the explorer: Host, Origin, token and size, by the ASGI application alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dovetail.errors import InvalidInput
from dovetail.explorer.guard import HEADERS, MAX_BODY_BYTES, Guard, cookie_name, host_name
from dovetail.explorer.settings import Settings, is_loopback, may_be_called, settings_of
from tests.apart import ended

HERE = Settings(port=8037, token="mine")
SHOWN = "dovetail-8037=mine"  # the cookie of whoever opened the printed address of HERE
OPEN = Settings(host="0.0.0.0", port=8037, token="let-me-in")


def asked(settings: Settings, kind: str = "http", body: tuple[bytes, ...] = (b"",), query: bytes = b"", **headers: str):
    """Status, headers and what the application behind the guard read; status 0 where it was never asked."""
    known = {"cookie": SHOWN} if settings is HERE else {}
    said = {"host": "127.0.0.1:8037"} | known | headers
    scope = {
        "type": kind,
        "path": "/compare",
        "method": "GET",
        "query_string": query,
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in said.items()],
    }
    sent: list[Any] = []
    read: list[Any] = []

    async def behind(scope: Any, receive: Any, send: Any) -> None:
        for _ in body:
            read.append(await receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})

    left = list(body)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message: Any) -> None:
        sent.append(message)

    ended(Guard(behind, settings)(scope, receive, send))
    first = sent[0]
    return first.get("status", first.get("code")), dict(first.get("headers", [])), read


def test_the_servers_own_names_are_answered_with_headers_that_keep_others_out():
    for host in ("127.0.0.1:8037", "localhost:8037", "localhost:9000", "[::1]:8037", "127.0.0.2"):
        status, headers, _ = asked(HERE, host=host)
        assert status == 200, host
        assert headers.items() >= dict(HEADERS).items()
        assert b"default-src 'self'" in headers[b"content-security-policy"]


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8037", "127.0.0.1.evil.example", "10.0.0.1", "localhost@evil.example", "", "a b"],
)
def test_a_foreign_host_is_refused_whatever_it_points_to(host):
    status, _, read = asked(HERE, host=host)
    assert (status, read) == (403, [])


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://127.0.0.1:9999",
        "https://localhost",
        "null",
        "file://",
        "http://127.0.0.1:8037.evil",
    ],
)
def test_a_page_of_another_site_is_refused(kind, origin):
    status, _, read = asked(HERE, kind, origin=origin)
    assert (status, read) == (1008 if kind == "websocket" else 403, [])


def test_the_servers_own_page_may_ask():
    assert asked(HERE, origin="http://127.0.0.1:8037")[0] == 200


def test_a_body_that_says_it_is_too_large_is_refused_unread():
    status, _, read = asked(HERE, content_length=str(MAX_BODY_BYTES + 1))
    assert (status, read) == (413, [])
    assert asked(HERE, content_length="many")[0] == 413
    assert asked(HERE, content_length="9" * 5000)[0] == 413
    assert asked(HERE, content_length=str(MAX_BODY_BYTES))[0] == 200


def test_a_body_that_does_not_say_how_long_it_is_is_refused_at_the_limit_and_whole_below_it():
    half = b"x" * (MAX_BODY_BYTES // 2 + 1)
    status, _, read = asked(HERE, body=(half, half, half))
    assert (status, read) == (413, [])
    status, _, read = asked(HERE, body=(half, b"y", b"z"))
    assert status == 200
    assert b"".join(message["body"] for message in read) == half + b"yz"


def test_an_address_that_is_too_long_is_refused():
    assert asked(HERE, query=b"x" * 60_001)[0] == 414


@pytest.mark.parametrize(
    "settings", [OPEN, replace(HERE, token="let-me-in"), replace(HERE, host="::1", token="let-me-in")]
)
def test_everyone_needs_the_token_once_and_a_cookie_afterwards(settings):
    """On loopback too, which every user of a machine reaches."""
    name = cookie_name(settings)
    assert asked(settings)[0] == 401
    assert asked(settings, "websocket")[0] == 1008
    assert asked(settings, query=b"token=guess")[0] == 401
    assert asked(settings, query=b"token=")[0] == 401
    assert asked(settings, cookie=f"{name}=guess")[0] == 401
    assert asked(settings, cookie="dovetail-9000=let-me-in")[0] == 401  # another server's of the same host
    status, headers, read = asked(settings, query=b"model=llama3-8b&token=let-me-in")
    assert (status, read) == (303, [])
    assert headers[b"location"] == b"/compare?model=llama3-8b"
    assert b"HttpOnly" in headers[b"set-cookie"]
    assert b"SameSite=Strict" in headers[b"set-cookie"]
    for kind in ("http", "websocket"):
        assert asked(settings, kind, cookie=f"other=1; {name}=let-me-in")[0] == 200


def test_a_socket_without_the_token_is_answered_401_where_the_server_can():
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": "/_nicegui_ws/socket.io/",
        "query_string": b"EIO=4&transport=websocket",
        "headers": [(b"host", b"127.0.0.1:8037")],
        "extensions": {"websocket.http.response": {}},
    }
    ended(Guard(None, HERE)(scope, None, send))  # type: ignore[arg-type]
    assert [message["type"] for message in sent] == ["websocket.http.response.start", "websocket.http.response.body"]
    assert sent[0]["status"] == 401
    assert b"token" in sent[1]["body"]


def test_a_server_open_to_others_answers_to_addresses_and_its_own_name_alone():
    assert may_be_called("192.168.1.7", OPEN)
    assert may_be_called("::1", OPEN)
    assert not may_be_called("evil.example", OPEN)
    assert not may_be_called("192.168.1.7", HERE)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_a_token_is_made_at_every_start_and_is_in_the_address(host):
    one, other = (settings_of(host, 8037, "") for _ in range(2))
    assert one.token != other.token
    assert len(one.token) >= 40
    assert one.url.endswith(f":8037/?token={one.token}")
    if host != "0.0.0.0":
        assert one.url.startswith(f"http://{host}:8037/")


def test_what_is_loopback_is_told():
    assert is_loopback("::1")
    assert not is_loopback("example.org")


@pytest.mark.parametrize(
    ("host", "port", "store"), [("", 1, ""), ("127.0.0.1", 70_000, ""), ("127.0.0.1", 1, "/no/folder/x.db")]
)
def test_settings_that_cannot_be_are_refused_in_one_line(host, port, store):
    with pytest.raises(InvalidInput):
        settings_of(host, port, store)


def test_a_store_is_made_where_there_is_none_and_anything_else_is_refused(tmp_path):
    assert settings_of("127.0.0.1", 1, str(tmp_path / "new.db")).store.endswith("new.db")
    assert (tmp_path / "new.db").is_file()
    (tmp_path / "text.db").write_text("no store", encoding="utf-8")
    with pytest.raises(InvalidInput, match="is not a store"):
        settings_of("127.0.0.1", 1, str(tmp_path / "text.db"))


@pytest.mark.parametrize(("host", "name"), [("a:80", "a"), ("[::1]:80", "::1"), ("a:b", ""), ("a/b", ""), ("x@a", "")])
def test_a_host_header_is_read_without_its_port(host, name):
    assert host_name(host) == name


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(("mode", "dest"), [("no-cors", "image"), ("no-cors", "script"), ("navigate", "iframe")])
def test_what_another_sites_page_embeds_is_refused_token_or_not(kind, site, mode, dest):
    fetched = {"sec_fetch_site": site, "sec_fetch_mode": mode, "sec_fetch_dest": dest}
    status, _, read = asked(HERE, kind, query=b"token=mine", **fetched)
    assert (status in (403, 1008), read) == (True, [])


def test_a_link_from_elsewhere_is_followed_and_what_our_own_page_asks_is_answered():
    link: dict[str, Any] = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert asked(HERE, query=b"token=mine", **link)[0] == 303
    for site in ("same-origin", "none"):
        assert asked(HERE, sec_fetch_site=site, sec_fetch_mode="cors", sec_fetch_dest="empty")[0] == 200


def test_a_server_that_is_read_only_makes_no_store(tmp_path):
    with pytest.raises(InvalidInput, match="--read-only makes no store"):
        settings_of("127.0.0.1", 8037, str(tmp_path / "no.db"), is_read_only=True)
    assert settings_of("127.0.0.1", 8037, "", is_read_only=True).is_read_only
