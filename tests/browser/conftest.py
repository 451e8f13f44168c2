"""A real browser and the real server: Debian's Chromium driven by Playwright, `dovetail ui` as a process of its own.

A page may talk to loopback alone; whatever else it asks for fails the test that asked.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("playwright", reason="Playwright is not installed: pip install 'dovetail-codesign[test]'")

from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    # Playwright asks for lines of code, for which V8 reads Plotly a second time unless it keeps them the first time.
    "--js-flags=--no-enable-lazy-source-positions",
)  # fmt: skip
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
WAIT_MS = 240_000
START_S = 300.0
NUM_PORTS_TRIED = 5

expect.set_options(timeout=WAIT_MS)  # a busy machine takes its time, and no test is about that


def chromium() -> str:
    """The browser of this machine; empty where there is none."""
    found = [os.environ.get("DOVETAIL_CHROMIUM", ""), *(shutil.which(name) or "" for name in NAMES)]
    return next((path for path in found if path), "")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a process."""
    path = chromium()
    if not path:
        pytest.skip("there is no Chromium here; `make test` installs it where it may, else: apt-get install chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield found
        found.close()


@dataclass(eq=False)
class Visit:
    """A page with what went wrong on it."""

    page: Page
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def notice(self, url: str) -> None:
        """Keeps an address that is not of this machine; the browser knows no name but its own, so none answers."""
        address = urlsplit(url)
        if address.scheme not in ("data", "blob", "file") and (address.hostname or "") not in LOOPBACK:
            self.foreign.append(url)

    def wait_for(self, expression: str) -> None:
        """Asks the page until it says yes. Playwright's own `wait_for_function` asks from inside the page, where a page
        that forbids `eval` refuses all but the first question."""
        last_s = time.monotonic() + WAIT_MS / 1e3
        while not self.page.evaluate(expression):
            assert time.monotonic() < last_s, f"never became true: {expression}"
            time.sleep(0.05)

    def assert_calm(self) -> None:
        assert not self.foreign, f"the page asked others than loopback: {self.foreign}"
        assert not self.errors, "the browser's console has errors:\n" + "\n".join(self.errors)


Visitor = Callable[..., Visit]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visitor]:
    """Opens an address in a new context: visit(url, width=390, scheme="dark"); nothing but loopback is reached.

    The browser has shown the token of every server before, unless `is_known` is false.
    """
    contexts: list[BrowserContext] = []
    visits: list[Visit] = []

    def opened(url: str, *, width: int = 1280, scheme: str = "light", is_known: bool = True, **options: Any) -> Visit:
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, color_scheme=scheme, **options)  # type: ignore[arg-type]
        contexts.append(context)
        for server in SERVERS if is_known else ():
            name, _, value = server.cookie.partition("=")
            context.add_cookies([{"name": name, "value": value, "url": server.url}])
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        found = Visit(page)
        context.on("request", lambda request: found.notice(request.url))
        page.on("console", lambda said: found.errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: found.errors.append(str(error)))
        visits.append(found)
        page.goto(url)
        return found

    yield opened
    for context in contexts:
        context.close()
    for one in visits:
        assert not one.foreign, f"a page asked others than loopback: {one.foreign}"


@dataclass(eq=False)
class Server:
    """`dovetail ui`, running; `said` is what it printed so far.

    `url` is the address without the token, which browsers that `visit` opens have as a cookie already.
    """

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def address(self) -> str:
        """What was printed to be opened."""
        return self.said.split("Dovetail is at ")[1].split()[0]

    @property
    def token(self) -> str:
        return self.address.partition("?token=")[2]

    @property
    def cookie(self) -> str:
        """What the browser of whoever opened the address sends."""
        return f"dovetail-{urlsplit(self.url).port}={self.token}"


SERVERS: list[Server] = []  # all that run now


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Server]:
    """The server as its user starts it, on a free port, ended by an interrupt; its log is shown where a test fails."""
    server = _started(folder, options)
    SERVERS.append(server)
    try:
        yield server
    except BaseException:
        print(f"--- what the server said ---\n{server.said}")
        raise
    finally:
        SERVERS.remove(server)
        server.process.send_signal(signal.SIGINT)
        try:
            server.process.wait(30)
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.process.wait(30)


def _started(folder: Path, options: Sequence[str]) -> Server:
    """A server that listens. Another process may take a port that was free a moment ago; then another one is tried."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}  # NiceGUI looks for them
    environment = own | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    said = ""
    for number in range(NUM_PORTS_TRIED):
        port, log = free_port(), folder / f"server-{number}.log"
        command = [sys.executable, "-m", "dovetail", "ui", "--port", str(port), *options]
        with log.open("wb") as told:
            process = subprocess.Popen(command, cwd=folder, env=environment, stdout=told, stderr=subprocess.STDOUT)
        server = Server(f"http://127.0.0.1:{port}", process, log)
        if _listens(server):
            return server
        said = server.said
    pytest.fail(f"none of {NUM_PORTS_TRIED} ports stayed free: {said}")


def _listens(server: Server) -> bool:
    """Waits until it does; false if its port was taken."""
    end_s = time.monotonic() + START_S
    while "Dovetail is at" not in server.said:
        if server.process.poll() is not None:
            assert "cannot listen on" in server.said, f"the server ended: {server.said}"
            return False
        if time.monotonic() > end_s:
            server.process.kill()
            pytest.fail(f"the server did not start in {START_S:g} s: {server.said}")
        time.sleep(0.1)
    return True


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one study in it: the front of a small space, as `dovetail pareto` keeps it."""
    from dovetail.api.requests.searches import pareto

    file = tmp_path_factory.mktemp("store") / "studies.db"
    found = pareto("gpt2-345m", preset="cores", devices=16, batch=16, axes=("throughput", "area"), store=file)
    assert found.fits
    return file


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, store: Path) -> Iterator[Server]:
    """One server for all tests of a process; users are told apart by it, so tests are too."""
    pytest.importorskip("nicegui", reason="NiceGUI is not installed: pip install 'dovetail-codesign[ui]'")
    with serving(tmp_path_factory.mktemp("ui"), "--store", str(store)) as found:
        yield found
