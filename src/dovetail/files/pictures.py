"""A chart as a file: SVG as it is drawn, PNG of it by Chromium, or a page of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from os import PathLike
from pathlib import Path

from dovetail.errors import InvalidInput
from dovetail.files.text import quoted
from dovetail.files.written import check_writable, write_bytes, write_file
from dovetail.report.charts.chart import WIDE_PX, Chart
from dovetail.report.charts.themes import Mode

SUFFIXES = (".svg", ".png", ".html", ".htm")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip
SHARP = 2  # dots of a PNG for each of the picture's
WAIT_S = 60.0
SIZE = re.compile(r'width="([\d.]+)" height="([\d.]+)"')


def save_chart(chart: Chart, path: str | PathLike[str], mode: Mode = "light", width_px: float = WIDE_PX) -> None:
    """Writes `chart` to a file: a picture where its name ends in .svg or .png, a page where it ends in .html.

    `mode` is "light" or "dark". SVG and pages need nothing more; PNG is drawn by Chromium, named by DOVETAIL_CHROMIUM or
    found by its name.
    """
    file = Path(path)
    if file.suffix.lower() not in SUFFIXES:
        raise InvalidInput(f"a chart is written to .svg, .png or .html; got {quoted(file.name)}")
    if mode not in ("light", "dark"):
        raise InvalidInput(f"a chart is light or dark; got {quoted(str(mode))}")
    check_writable(file, is_forced=True)
    if file.suffix.lower() == ".svg":
        write_file(file, chart.to_svg(mode, width_px))
    elif file.suffix.lower() == ".png":
        write_bytes(file, png_of(chart.to_svg(mode, width_px)))
    else:
        from dovetail.files.report_page import page_text, versions
        from dovetail.report.page import Page, Provenance, Section
        from dovetail.store.version import model_version

        page = Page(title=chart.title, sentence=chart.alt, sections=(Section(title=chart.title, charts=(chart,)),))
        write_file(file, page_text(page, Provenance(command="", versions=versions(model_version()))))


def chromium() -> str:
    """The browser of this machine; empty where there is none."""
    found = [os.environ.get("DOVETAIL_CHROMIUM", ""), *(shutil.which(name) or "" for name in BROWSERS)]
    return next((path for path in found if path), "")


def png_of(svg: str) -> bytes:
    """A picture of `svg`, as Chromium draws it."""
    browser, size = chromium(), SIZE.search(svg)
    assert size, "a picture states its size"
    if not browser:
        message = "PNG is drawn by Chromium, and there is none here"
        raise InvalidInput(f"{message}; install it, name it in DOVETAIL_CHROMIUM, or write .svg")
    wide, high = (int(float(number)) for number in size.groups())
    with tempfile.TemporaryDirectory(prefix="dovetail-") as folder:
        page, picture = Path(folder) / "chart.html", Path(folder) / "chart.png"
        page.write_text(f'<!doctype html><meta charset="utf-8"><body style="margin:0">{svg}', encoding="utf-8")
        command = [
            browser, *FLAGS, f"--user-data-dir={folder}/profile", f"--force-device-scale-factor={SHARP}",
            f"--window-size={wide},{high}", f"--screenshot={picture}", page.as_uri(),
        ]  # fmt: skip
        try:
            subprocess.run(command, capture_output=True, timeout=WAIT_S, check=False)
            return picture.read_bytes()
        except (OSError, subprocess.TimeoutExpired):
            raise InvalidInput(f"{quoted(browser)} drew no picture; write .svg instead") from None
