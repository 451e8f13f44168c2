"""The explorer against those who mean ill: foreign pages and names, large and crooked uploads, HTML in names."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from benchmarks.bar_explorer import image_statuses
from dovetail.explorer.packed import packed
from tests.browser.conftest import Server, Visitor, serving
from tests.browser.test_explorer import LLAMA, SMALL, planned

pytestmark = pytest.mark.slow

AXE = {"resultTypes": ["violations"]}  # of what is in order nothing need be told
EVIL = "<img src=x onerror=window.pwned=1>"
PAGES = ("/", "/hardware", "/chip", "/network", "/accuracy", "/compare", "/study", "/search")


def asked(
    server: Server,
    method: str,
    path: str,
    body: bytes | Iterator[bytes] = b"",
    *,
    is_known: bool = True,
    **headers: str,
) -> tuple[int, str]:
    """Status and text, of a request just as it is written: nobody tidies its path up."""
    headers = ({"Cookie": server.cookie} if is_known else {}) | headers
    link = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=300)
    try:
        link.request(method, path, body or None, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = link.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        link.close()


@pytest.mark.parametrize("path", [*PAGES, "/upload/model", "/_nicegui_ws/socket.io/?EIO=4&transport=polling"])
def test_a_foreign_host_or_origin_gets_nothing(server: Server, path: str):
    every: list[dict[str, Any]] = [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"}]
    for headers in every:
        for method in ("GET", "POST"):
            assert asked(server, method, path, **headers)[0] == 403


def test_a_foreign_page_opens_no_socket(server: Server, visit: Visitor):
    found = visit(f"{server.url}/search")
    closed = """async (url) => await new Promise(done => {
        const socket = new WebSocket(url);
        socket.onopen = () => done('open');
        socket.onerror = () => done('refused');
    })"""
    path = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    own = server.url.replace("http", "ws")
    assert found.page.evaluate(closed, own + path) == "open"
    assert found.page.evaluate(closed, own.replace("127.0.0.1", "localhost") + path) == "refused"


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/_nicegui/3.18.0/static/../../../../../../etc/passwd",
        "/_nicegui/3.18.0/static/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/_nicegui/3.18.0/resources/x/../../../etc/passwd",
        "/study?study=../../etc/passwd",
        "/?model=/etc/passwd",
        "/?cluster=../../../etc/passwd",
        "/search?kind=codesign&model=/etc/passwd&base=/etc/passwd",
        "/upload/../../etc/passwd",
    ],
)
def test_no_path_leads_out(server: Server, path: str):
    status, text = asked(server, "GET", path)
    assert "root:" not in text
    assert status in (200, 404, 405)


def test_an_upload_is_limited_read_strictly_and_answered_in_one_line(server: Server):
    large, before = b" " * (2 * 2**20), len(server.said)
    assert asked(server, "POST", "/upload/model?name=x.json", large)[0] == 413
    pieces = iter([large[: 2**16]] * 32)  # sent in chunks, without a word of how many
    assert asked(server, "POST", "/upload/model?name=x.json", pieces)[0] == 413
    assert "Traceback" not in server.said[before:]  # what others of this server's visitors met is theirs
    bomb = "a: &a [x,x]\n" + "".join(
        f"{new}: &{new} [*{old},*{old},*{old}]\n" for old, new in zip("abcdefghijkl", "bcdefghijklm", strict=True)
    )
    for body, name in (
        (bomb.encode(), "b.yaml"),
        (b"base: /etc/passwd.yaml", "c.yaml"),
        (b"{", "d.json"),
        (b"{}", "../e.exe"),
    ):
        status, text = asked(server, "POST", f"/upload/model?name={quote(name)}", body)
        assert status == 422
        assert "\n" not in json.loads(text)["error"]
        assert "root:" not in text
    assert asked(server, "POST", "/upload/model?name=ok.json", json.dumps(LLAMA).encode())[0] == 200


def test_html_in_names_is_shown_and_never_read(server: Server, visit: Visitor, tmp_path: Path):
    text = packed(json.dumps(LLAMA))
    found = visit(f"{server.url}/?model-name={quote(EVIL)}.json&model-text={text}&cluster=dgx-h100&devices=8&batch=64")
    planned(found.page)
    expect(found.page.locator("#result h2")).to_contain_text(EVIL)
    found.page.click("#pin")
    expect(found.page.locator("#pinned")).to_contain_text("Kept")
    found.page.get_by_role("link", name="Compare").click()
    expect(found.page.locator(".compare table")).to_contain_text(EVIL)
    found.page.goto(f"{server.url}/?model={quote(EVIL)}")
    expect(found.page.locator(".refused")).to_contain_text(EVIL[:20])
    found.page.goto(f"{server.url}/study?study={quote(EVIL)}")
    expect(found.page.locator(".refused")).to_contain_text("no study")
    assert found.page.evaluate("window.pwned") is None


ROUTES = (
    *PAGES,
    "/favicon.ico",
    "/no-such-page",
    "/_nicegui/3.18.0/static/nicegui.css",
    "/_nicegui_ws/socket.io/?EIO=4&transport=polling",
)


@pytest.mark.parametrize("path", ROUTES)
def test_another_user_of_this_machine_gets_nothing_without_the_token(server: Server, path: str):
    mark = "&" if "?" in path else "?"
    for cookie in ("", "dovetail-1=x", f"{server.cookie[:-1]}"):
        headers: dict[str, Any] = {"Cookie": cookie} if cookie else {}
        for method in ("GET", "POST"):
            assert asked(server, method, path, is_known=False, **headers)[0] == 401
            assert asked(server, method, f"{path}{mark}token=guess", is_known=False, **headers)[0] == 401
    assert asked(server, "POST", "/upload/model?name=x.json", b"{}", is_known=False)[0] == 401
    assert asked(server, "GET", path)[0] != 401


def test_no_socket_opens_without_the_token(server: Server):
    path = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    handshake: dict[str, Any] = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    assert asked(server, "GET", path, is_known=False, **handshake)[0] == 401
    assert asked(server, "GET", f"{path}&token=guess", is_known=False, **handshake)[0] == 401
    assert asked(server, "GET", path, **handshake)[0] == 101


def test_the_printed_address_opens_and_its_token_goes_into_a_cookie(server: Server, visit: Visitor):
    assert server.address.startswith(f"{server.url}/?token=")
    found = visit(server.address, is_known=False)
    planned(found.page)
    assert "token" not in found.page.url
    found.assert_calm()


def test_a_server_open_to_others_asks_for_its_token(visit: Visitor, tmp_path: Path):
    with serving(tmp_path, "--host", "0.0.0.0") as server:
        token = server.token
        assert len(token) >= 40
        assert server.said.count(token) == 1
        assert asked(server, "GET", "/", is_known=False)[0] == 401
        assert asked(server, "GET", "/?token=guess", is_known=False)[0] == 401
        assert asked(server, "POST", "/upload/model?name=x.json", b"{}", is_known=False)[0] == 401
        found = visit(f"{server.url}/search?token={token}", is_known=False)  # of its pages the one drawn soonest
        found.page.wait_for_selector("#start")
        assert "token" not in found.page.url
        found.page.reload()
        found.page.wait_for_selector("#start")
        found.assert_calm()


def test_an_image_from_another_site_is_refused_token_and_all(server: Server, browser: Browser):
    """What a browser really sends: localhost is another site than 127.0.0.1, and the same server."""
    assert 403 in image_statuses(browser, server.address)


def test_a_read_only_server_takes_no_upload_and_starts_no_search(visit: Visitor, tmp_path: Path):
    with serving(tmp_path, "--read-only") as server:
        assert asked(server, "POST", "/upload/model?name=ok.json", json.dumps(LLAMA).encode())[0] == 403
        found = visit(f"{server.url}/search")
        expect(found.page.locator("#start")).to_be_disabled()
        expect(found.page.locator("#told")).to_contain_text("read-only")
        found.page.goto(f"{server.url}/?{SMALL}")
        planned(found.page)
        assert found.page.locator("#model-file").count() == 0
        found.assert_calm()


READY = {
    "/": "#tab .main-svg",
    "/hardware": "figure .main-svg",
    "/chip": "#floorplan .main-svg",
    "/network": "[data-drawn] .main-svg",
    "/accuracy": "[data-drawn] .main-svg",
    "/compare": ".compare table",
    "/study": "#open-point",
    "/search": "#open-point",
}


@pytest.mark.parametrize("path", PAGES)
def test_every_page_can_be_read_by_everybody_light_and_dark_wide_and_narrow(server: Server, visit: Visitor, path: str):
    pins = f"&pin={quote(SMALL)}" if path == "/compare" else ""
    found = visit(f"{server.url}{path}?{SMALL if path not in ('/search', '/study') else ''}{pins}", width=1440)
    page = found.page
    page.wait_for_selector(READY[path])
    check_readable(page)
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("body.body--dark")
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(300)  # colours change within, and charts are drawn again
    page.wait_for_selector(READY[path])
    check_readable(page)
    check_width(page)
    page.emulate_media(color_scheme="light")
    page.wait_for_selector("body:not(.body--dark)")
    check_readable(page, rules=["color-contrast"])
    page.set_viewport_size({"width": 1440, "height": 900})
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("body.body--dark")
    check_readable(page, rules=["color-contrast"])
    check_width(page)
    found.assert_calm()


def check_width(page: Page) -> None:
    wide = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide[0] <= wide[1], f"the page is {wide[0]} px wide on a screen of {wide[1]}"


def check_readable(page: Page, rules: list[str] | None = None) -> None:
    options: dict[str, Any] = AXE if rules is None else {**AXE, "runOnly": rules}
    found = Axe().run(page, options=options).response["violations"]
    grave = [one for one in found if one["impact"] in ("serious", "critical")]
    told = [f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}" for one in grave]
    assert not told, "\n".join(told)
    unlabelled = (
        "els => els.filter(e => !e.labels?.length && !e.ariaLabel && e.type !== 'hidden').map(e => e.outerHTML)"
    )
    assert page.eval_on_selector_all("main input, main select", unlabelled) == []
