"""Makes the screenshots of the explorer: `python docs/images/screenshots.py` writes explorer-PAGE.png for every page.

It starts `dovetail ui`, opens each page that the explorer's own navigation leads to, waits until an answer is drawn,
and takes what is on the screen, light; of the first page dark too. Needs Playwright and Chromium.
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
WIDE, HIGH = 1440, 900
SETTLE_MS = 9_000  # what an answer takes to be drawn
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


def pages(browser: Browser, address: str) -> dict[str, str]:
    """The pages that the navigation leads to, by the names that pictures of them get."""
    page = browser.new_page()
    page.goto(address, timeout=WAIT_MS)
    page.wait_for_load_state("networkidle", timeout=WAIT_MS)
    site = "{0.scheme}://{0.netloc}".format(urlsplit(address))
    found = {urlsplit(str(link)).path for link in page.eval_on_selector_all("a[href]", "all => all.map(a => a.href)")}
    page.close()
    return {path.strip("/").replace("/", "-") or "plan": f"{site}{path}" for path in sorted({"/", *found})}


def shot(browser: Browser, first: str, address: str, file: Path, scheme: Any) -> None:
    context = browser.new_context(viewport={"width": WIDE, "height": HIGH}, color_scheme=scheme)
    page = context.new_page()
    page.goto(first, timeout=WAIT_MS)  # with the token, which the browser then keeps
    page.goto(address, timeout=WAIT_MS)
    page.wait_for_timeout(SETTLE_MS)
    with contextlib.suppress(PlaywrightTimeout):  # a search that goes on is a picture too
        page.get_by_role("button", name="Cancel").first.wait_for(state="hidden", timeout=WAIT_MS)
    page.wait_for_timeout(SETTLE_MS)
    page.screenshot(path=str(file), animations="disabled")
    context.close()


def main() -> None:
    program = os.environ.get("DOVETAIL_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not program:
        raise SystemExit("screenshots need Chromium: apt-get install chromium, or name one in DOVETAIL_CHROMIUM")
    with explorer() as first, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for name, address in pages(browser, first).items():
            schemes = ("light", "dark") if name == "plan" else ("light",)
            for scheme in schemes:
                file = FOLDER / f"explorer-{name}{'-dark' if scheme == 'dark' else ''}.png"
                shot(browser, first, address, file, scheme)
                sys.stderr.write(f"{file.name}\n")
        browser.close()


if __name__ == "__main__":
    main()
