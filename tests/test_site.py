"""The documentation builds without a warning into a site whose links hold and which asks nothing of another server."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs_site import ROOT, built_once

PARTS = ("Home", "Tutorials", "How to", "The model", "Reference", "Protocols", "Decisions")
# Attributes by which a page loads something without being asked; `a href` is asked for.
LOADED = {
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("source", "srcset"),
}
OUTSIDE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
OF_STYLES = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


@dataclass(frozen=True, slots=True)
class Page:
    """What a built page has: names that can be linked to, links, and what it loads."""

    names: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("id", "name") and value:
                self.page.names.add(value)
            elif (tag, key) == ("a", "href") and value:
                self.page.links.append(value)
            elif (tag, key) in LOADED and value and dict(attrs).get("rel") != "canonical":
                self.page.loads.append(value)


def read(html: str) -> Page:
    reader = _Reader()
    reader.feed(html)
    return reader.page


def nav_entries(entries: list[object]) -> Iterator[str]:
    """The pages of a navigation, however deep."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict):
            for value in entry.values():
                yield from nav_entries(value if isinstance(value, list) else [value])


def broken(site: Path) -> list[str]:
    """Links and resources of built pages that lead nowhere, and those that another server would have to give."""
    pages = {file: read(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    found = []
    for file, page in pages.items():
        if file.name == "404.html":  # is served from any folder, so its addresses are absolute
            continue
        where = file.relative_to(site)
        found += [f"{where} loads {target}" for target in page.loads if OUTSIDE.match(target)]
        inside = [target for target in page.loads + page.links if not re.match(r"[a-z]+:|//", target)]
        found += [f"{where}: {target} {why}" for target in inside if (why := _missing(file, target, pages))]
    return found


def _missing(file: Path, target: str, pages: dict[Path, Page]) -> str:
    name, _, anchor = unquote(target).partition("#")
    other = (file.parent / name.partition("?")[0]).resolve() if name else file
    if other.is_dir():
        other /= "index.html"
    if not other.exists():
        return "leads nowhere"
    is_there = not anchor or other not in pages or anchor in pages[other].names
    return "" if is_there else "names nothing on that page"


def outside_styles(site: Path) -> list[str]:
    """Style sheets that load something of another server."""
    found = []
    for file in sorted(site.rglob("*.css")):
        targets = [a or b for a, b in OF_STYLES.findall(file.read_text(encoding="utf-8"))]
        found += [f"{file.relative_to(site)} loads {target}" for target in targets if OUTSIDE.match(target)]
    return found


@pytest.fixture(scope="module")
def config() -> dict[str, object]:
    project: dict[str, object] = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    return project


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_once(tmp_path_factory)


def test_every_page_is_in_the_navigation_once_and_it_has_these_parts(config):
    nav = config["nav"]
    assert isinstance(nav, list)
    assert tuple(key for entry in nav for key in entry) == PARTS
    named = list(nav_entries(nav))
    assert len(named) == len(set(named)), "a page is in the navigation twice"
    docs = ROOT / "docs"
    assert set(named) == {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_every_page_is_there(site, config):
    nav = config["nav"]
    assert isinstance(nav, list)
    built = {page.removesuffix(".md").replace("README", "index") + ".html" for page in nav_entries(nav)}
    assert built <= {page.relative_to(site).as_posix() for page in site.rglob("*.html")}


@pytest.mark.slow
def test_links_anchors_and_resources_of_the_site_are_in_the_site(site):
    assert broken(site) == []
    assert outside_styles(site) == []


@pytest.mark.slow
def test_nothing_on_a_page_is_left_to_a_renderer_that_would_have_to_be_fetched(site):
    """The theme fetches Mermaid for diagrams, and maths needs a script of its own: no page has either."""
    for page in site.rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        assert 'class="mermaid"' not in html, page.name
        assert 'class="arithmatex"' not in html, page.name


# --- the checks themselves can fail ---------------------------------------------------------------------------------


def test_a_page_that_asks_for_more_than_the_site_has_is_found(tmp_path):
    (tmp_path / "index.html").write_text(
        '<script src="https://cdn.example/x.js"></script><a href="other.html#there">a</a>'
        '<a href="other.html#gone">b</a>'
        '<a href="missing.html">c</a><a href="https://example.org">d</a><img src="here.svg"><a href="#nowhere">e</a>',
        encoding="utf-8",
    )
    (tmp_path / "other.html").write_text('<h1 id="there">x</h1>', encoding="utf-8")
    (tmp_path / "here.svg").write_text("<svg/>", encoding="utf-8")
    (tmp_path / "a.css").write_text("@import 'https://cdn.example/font.css'; b {c: url(d.svg)}", encoding="utf-8")
    assert broken(tmp_path) == [
        "index.html loads https://cdn.example/x.js",
        "index.html: other.html#gone names nothing on that page",
        "index.html: missing.html leads nowhere",
        "index.html: #nowhere names nothing on that page",
    ]
    assert outside_styles(tmp_path) == ["a.css loads https://cdn.example/font.css"]


def test_pages_of_a_navigation_are_found_however_deep():
    assert list(nav_entries([{"Home": "a.md"}, {"Part": ["b.md", {"Page": "c.md"}]}])) == ["a.md", "b.md", "c.md"]
