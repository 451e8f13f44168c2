"""Makes the screenshots of the explorer: `python docs/images/screenshots.py` writes explorer-PAGE.png for every page.

It starts `dovetail ui`, asks one question, keeps three designs of it, and takes what is on the screen of each page,
light; of the first page dark and on a telephone too. Needs Playwright and Chromium.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

FOLDER = Path(__file__).resolve().parent
NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDE, NARROW, HIGH = 1440, 390, 900
QUESTION = "model=llama3-70b&cluster=dgx-h100&devices=256"
SETTLE_MS = 4_000  # what an answer takes to be drawn
WAIT_MS = 120_000


@contextmanager
def explorer() -> Iterator[str]:
    """The address of an explorer of this machine, with its token."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "dovetail", "ui", "--json", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        said = ""
        while not said.rstrip().endswith("}"):
            said += served.stdout.readline()
        try:
            yield str(json.loads(said)["url"])
        finally:
            served.terminate()


class Visitor:
    """A browser tab that asks one question, keeps three designs of it, and is pictured on every page."""

    def __init__(self, browser: Browser, first: str, width: int, scheme: Any) -> None:
        self._site = "{0.scheme}://{0.netloc}".format(urlsplit(first))
        context = browser.new_context(viewport={"width": width, "height": HIGH}, color_scheme=scheme)
        self.page = context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.page.goto(first, timeout=WAIT_MS)  # with the token, which the browser then keeps
        self.page.goto(f"{self._site}/?{QUESTION}", timeout=WAIT_MS)
        self.settle()

    def settle(self) -> None:
        """Waits until an answer is drawn."""
        self.page.wait_for_timeout(SETTLE_MS)
        with contextlib.suppress(PlaywrightTimeout):  # a search that goes on is a picture too
            self.page.get_by_role("button", name="Cancel").first.wait_for(state="hidden", timeout=WAIT_MS)
        self.page.wait_for_timeout(SETTLE_MS)

    def shot(self, name: str) -> None:
        file = FOLDER / f"explorer-{name}.png"
        self.page.screenshot(path=str(file), animations="disabled")
        sys.stderr.write(f"{file.name}\n")

    def keep(self, name: str) -> None:
        self.page.fill("#design-name", name)
        self.page.click("#pin")
        self.page.wait_for_timeout(SETTLE_MS)

    def open(self, name: str) -> None:
        self.page.get_by_role("navigation").get_by_role("link", name=name, exact=True).click()
        self.settle()

    def keep_three(self) -> None:
        """The best plan, one by hand, and the best on other hardware; ends on the hardware page."""
        self.keep("best plan")
        self.page.select_option("#plan-tp", "8")
        self.settle()
        self.keep("TP 8")
        self.page.click("#plan-anew")
        self.settle()
        self.open("Hardware")
        move = "(own) => { own.value = 0.5; own.dispatchEvent(new Event('input', {bubbles: true})); }"
        self.page.eval_on_selector("#turn-power", move)
        self.settle()
        self.keep("power x1.41")


def main() -> None:
    program = os.environ.get("DOVETAIL_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not program:
        raise SystemExit("screenshots need Chromium: apt-get install chromium, or name one in DOVETAIL_CHROMIUM")
    with explorer() as first, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        Visitor(browser, first, WIDE, "dark").shot("plan-dark")
        Visitor(browser, first, NARROW, "light").shot("plan-phone")
        visitor = Visitor(browser, first, WIDE, "light")
        visitor.shot("plan")
        visitor.keep_three()
        visitor.shot("hardware")
        for name in ("Chip", "Network", "Compare", "Accuracy", "Search"):
            visitor.open(name)
            visitor.shot(name.lower())
        browser.close()


if __name__ == "__main__":
    main()
