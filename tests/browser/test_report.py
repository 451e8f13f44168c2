"""Pages in a real browser without a network: everything is drawn, nothing is asked for, anyone can read it."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="Playwright is not installed: pip install 'dovetail-codesign[test]'")

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from dovetail.cli import main
from tests.browser.conftest import ROOT, Visit, Visitor
from tests.once import made_once

SMALL = (str(ROOT / "tests" / "e2e" / "few-systems.yaml"),)
STEP = ("--model", "llama3-8b", "--cluster", "dgx-h100", "--devices", "16", "--global-batch", "64")
COMMANDS = {
    "simulate": ("simulate", str(ROOT / "examples" / "llama3-405b-16384xh100.yaml")),
    "plan": ("plan", *STEP, "--fix", "tp=2,4", "--forbid", "context"),
    "codesign": ("codesign", *SMALL),
    "pareto": ("pareto", *SMALL, "--axes", "throughput,area,power"),
    "validate": ("validate", "dies"),
    "network": ("network", "all-reduce", "--size", "1MiB..4MiB", "--topology", "ring:4@50GB/s,500ns"),
    "schedule": ("schedule", "bert-base", "--chip", "tpuv2-like"),
    "launch": ("launch", *STEP, "--plan", "ddp", "--framework", "megatron-lm"),
}
VIEWS = [
    ("pareto", 1280, "light"), ("network", 1280, "light"), ("schedule", 1280, "light"), ("simulate", 390, "dark"),
]  # fmt: skip
MOST_BYTES = 2_000_000
# Of what is seen, not of what stands in a part that is folded.
DRAWN = """() => [...document.querySelectorAll("[data-chart]")].map((box) => {
  const svg = [...box.querySelectorAll("svg")].find((one) => one.getBoundingClientRect().width > 0);
  return {
    name: box.dataset.chart,
    isFolded: !!box.closest("details:not([open])"),
    marks: svg ? svg.querySelectorAll("g[data-t] > *").length : 0,
    ink: svg && svg.querySelector(".dv-dim") ? getComputedStyle(svg.querySelector(".dv-dim")).fill : "",
    right: svg ? svg.getBoundingClientRect().right : 0,
    outside: svg && !box.classList.contains("scrolls") ? [...svg.querySelectorAll("text")].filter((text) => {
      const own = text.getBoundingClientRect(), frame = svg.getBoundingClientRect();
      return own.left < frame.left - 2 || own.right > frame.right + 2;
    }).map((text) => text.textContent) : [],
  };
})"""


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each command, as the command writes it."""
    folder = made_once(tmp_path_factory, "pages", written)
    return {name: folder / f"{name}.html" for name in COMMANDS}


def written(folder: Path) -> None:
    for name, words in COMMANDS.items():
        write(folder / f"{name}.html", *words)


def write(page: Path, *words: str) -> None:
    """As the command does it, without the start of a process."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as told:
        code = main([*words, "--html", str(page)])
    assert code == 0, told.getvalue()


@pytest.mark.parametrize(("name", "width", "scheme"), VIEWS)
def test_every_chart_is_drawn_without_a_network(visit: Visitor, pages, name, width, scheme):
    opened(visit, pages[name], width, scheme)


def opened(visit: Visitor, file: Path, width: int, scheme: str) -> Visit:
    """The page as it was found calm and whole, with its charts in the colours of the reader."""
    assert file.stat().st_size < MOST_BYTES
    found = visit(file.as_uri(), width=width, scheme=scheme, offline=True)
    found.page.wait_for_load_state("load")
    check_drawn(found, width, scheme)
    assert bool(found.page.evaluate(DRAWN)) == (file.stem != "launch")
    return found


def check_drawn(found: Visit, width: int, scheme: str) -> None:
    drawn = [one for one in found.page.evaluate(DRAWN) if not one["isFolded"]]
    assert all(one["marks"] for one in drawn), drawn
    assert not [one for one in drawn if one["outside"]], "words end where the picture does"
    inks = {one["ink"] for one in drawn} - {""}
    assert inks <= {"rgb(169, 177, 186)" if scheme == "dark" else "rgb(83, 92, 102)"}, inks
    assert found.page.evaluate("document.documentElement.scrollWidth") == width
    found.assert_calm()


def check_no_barrier(page: Page) -> None:
    for summary in page.locator("summary").all():
        if summary.locator("..").get_attribute("open") is None:
            summary.click()
    result = Axe().run(page, options={"resultTypes": ["violations"]})
    grave = [one for one in result.response["violations"] if one["impact"] in ("serious", "critical")]
    assert not grave, json.dumps(
        [{"id": one["id"], "nodes": [node["html"][:200] for node in one["nodes"][:3]]} for one in grave], indent=1
    )


@pytest.mark.parametrize(("name", "scheme"), [("codesign", "dark"), ("validate", "light")])
def test_a_page_fits_a_telephone_has_no_barrier_and_widens(visit: Visitor, pages, name, scheme):
    found = opened(visit, pages[name], 390, scheme)
    if name == "validate":
        check_no_barrier(found.page)
    found.page.set_viewport_size({"width": 1280, "height": 900})
    check_drawn(found, 1280, scheme)


def test_a_page_without_charts_has_no_barrier(visit: Visitor, pages):
    check_no_barrier(opened(visit, pages["launch"], 1280, "dark").page)


def test_a_page_is_read_by_keyboard_has_no_barrier_and_prints(visit: Visitor, pages):
    page = opened(visit, pages["simulate"], 1280, "light").page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "A"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#s0"
    details = page.locator("figure details").first
    details.locator("summary").focus()
    page.keyboard.press("Enter")
    assert details.get_attribute("open") is not None
    assert details.locator("td").count()
    printed = page.pdf(format="A4", print_background=True)
    assert printed.startswith(b"%PDF")
    assert 4 <= printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") + printed.count(b"/Type/Page/") <= 25
    check_no_barrier(page)


def test_charts_follow_the_reader_from_light_to_dark(visit: Visitor, pages):
    found = opened(visit, pages["plan"], 1280, "light")
    found.page.emulate_media(color_scheme="dark")
    check_drawn(found, 1280, "dark")


def test_pointing_says_what_a_mark_is_a_press_hides_a_part_and_a_chart_is_saved(visit: Visitor, pages):
    found = opened(visit, pages["plan"], 1280, "light")
    page = found.page
    bars = page.locator("#time-by-stage .wide g[data-t='0'] rect")
    bars.first.scroll_into_view_if_needed()
    bars.first.hover()
    tip = page.locator(".tip")
    assert "compute" in tip.inner_text()
    button = page.locator("#time-by-stage .legend button").first
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert bars.first.is_hidden()
    with page.expect_download() as download:
        page.locator("#time-by-stage [data-save]").click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    assert text.startswith("<svg")
    assert "var(" not in text
    found.assert_calm()


def test_a_telephone_shows_whole_labels_and_captions_below(visit: Visitor, pages):
    found = opened(visit, pages["plan"], 390, "dark")
    check_no_barrier(found.page)
    assert found.page.evaluate("document.documentElement.scrollWidth") == 390


def test_what_the_user_named_is_text_in_every_chart(visit: Visitor, tmp_path):
    """Labels of charts come from files."""
    name = "<img src=x onerror=document.title='owned'><b>bold</b>"
    text = (ROOT / "examples" / "my-cluster.yaml").read_text(encoding="utf-8")
    spec, file = tmp_path / "spec.yaml", tmp_path / "page.html"
    for own in ("h100-large", "ethernet"):  # a chip and a level of its network, which is on an axis
        text = text.replace(f"name: {own}", f'name: "{own}{name}"')
    spec.write_text(text, encoding="utf-8")
    write(file, "simulate", str(spec))
    found = visit(file.as_uri(), offline=True)
    assert found.page.locator("img").count() == 0
    labels = " ".join(found.page.locator("#elasticities .wide text").all_text_contents())
    assert "<img" in labels
    assert "<b>bold</b>" in labels
    assert found.page.title() != "owned"
    found.assert_calm()
