"""The documentation in a browser: every page opens from a disk, calm and alone; none is wider than a telephone."""

from __future__ import annotations

import functools
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs_site import built_once

pytestmark = pytest.mark.slow
TOO_WIDE_PX = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
LOOKED_AT = f"""[
    document.querySelectorAll("h1").length, {TOO_WIDE_PX},
    Array.from(document.scripts).filter(one => one.src).map(one => one.src.split("/").pop())]"""
NUM_DECISIONS = 5
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
SHOWN = ("index", "tutorial/train-a-model", "model/operators")  # cards, a transcript, formulas and tables


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_once(tmp_path_factory)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves without telling."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is said of a request."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served, for what a page on a disk may not do."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_every_page_opens_from_the_disk_and_asks_nothing_of_another_server(visit, site):
    """Of decisions, which are plain text all of them, the first few; tests/test_site.py reads every page.

    All pages have the same two scripts, which run on one page of each folder.
    """
    pages = sorted(page for page in site.rglob("*.html") if page.name != "404.html")
    assert len(pages) > 60
    decisions = [page for page in pages if page.parent.name == "decisions"]
    pages = [page for page in pages if page not in decisions[NUM_DECISIONS:]]
    first_of_folder = {page.parent: page for page in reversed(pages)}.values()
    for has_scripts, opened in ((True, first_of_folder), (False, pages)):
        seen = visit(pages[0].as_uri(), width=390, java_script_enabled=has_scripts)
        for page in opened:
            seen.page.goto(page.as_uri())
            num_titles, too_wide_px, scripts = seen.page.evaluate(LOOKED_AT)
            assert num_titles == 1, page.name
            assert too_wide_px <= 0, f"{page.name} is wider than a telephone"
            assert [name.partition(".")[0] for name in scripts] == ["bundle", "reach"], page.name
        assert not seen.foreign


@pytest.mark.parametrize("name", SHOWN)
def test_a_page_is_calm_follows_the_scheme_of_the_reader_and_can_be_read_by_everybody(visit, address, name):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed: dovetail-codesign[test]"
    )
    backgrounds = set()
    for scheme, width in (("light", 1280), ("dark", 390)):
        seen = visit(f"{address}/{name}.html", scheme=scheme, width=width)
        seen.page.wait_for_load_state("networkidle")
        seen.assert_calm()
        found = axe.Axe().run(seen.page, options={"resultTypes": ["violations"]}).response["violations"]
        grave = [f"{one['id']}: {one['help']}" for one in found if one["impact"] in ("serious", "critical")]
        assert not grave, (scheme, width, grave)
        backgrounds.add(seen.page.evaluate(BACKGROUND))
    assert len(backgrounds) == 2, "light and dark look alike"


def test_a_transcript_of_80_columns_needs_no_scrolling_on_a_desk(visit, address):
    page = visit(f"{address}/tutorial/study-a-network.html").page
    wide = page.locator("pre").evaluate_all("all => all.map(one => one.scrollWidth - one.clientWidth)")
    assert len(wide) > 5
    assert max(wide) <= 0


def test_searching_finds_a_word(visit, address):
    page = visit(f"{address}/index.html").page
    page.wait_for_load_state("networkidle")
    page.keyboard.press("Control+k")
    page.keyboard.type("goodput")
    page.get_by_text(re.compile(r"^\d+ results$")).wait_for()
