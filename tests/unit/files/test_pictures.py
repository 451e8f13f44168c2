"""Charts as files: pictures that need nothing, a PNG where there is a browser, and a page."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from dovetail.errors import InvalidInput
from dovetail.files.pictures import chromium, save_chart
from dovetail.files.published_runs import load_published_runs
from dovetail.files.residuals import load_residuals
from dovetail.report.charts.chart import Chart, layout
from dovetail.report.table import Table

DATA = [{"type": "bar", "orientation": "h", "x": [1.0], "y": ["a"], "hovertemplate": "%{y}"}]
CHART = Chart(
    name="one",
    title="T",
    alt="A.",
    figure={"data": DATA, "layout": layout(yaxis={"type": "category"})},
    table=Table(title="t", rows=(("a", "1"),)),
)


def test_a_chart_is_written_as_a_picture_and_as_a_page(tmp_path):
    save_chart(CHART, tmp_path / "x.svg", mode="dark", width_px=600)
    root = ET.parse(tmp_path / "x.svg").getroot()
    assert root.get("width") == "600"
    save_chart(CHART, tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert 'data-chart="one"' in page
    assert "default-src 'none'" in page


def test_a_chart_becomes_png_by_chromium(tmp_path):
    if not chromium():
        pytest.skip("there is no Chromium here")
    save_chart(CHART, tmp_path / "x.png", width_px=400)
    data = (tmp_path / "x.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20], "big") == 800, "twice as sharp as it is wide"


def test_without_a_browser_there_is_no_png_and_one_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("DOVETAIL_CHROMIUM", raising=False)
    with pytest.raises(InvalidInput, match=r"drawn by Chromium.*write \.svg"):
        save_chart(CHART, tmp_path / "x.png")


@pytest.mark.parametrize(
    ("name", "mode", "words"), [("x.pdf", "light", "svg, .png or .html"), ("x.svg", "blue", "light or dark")]
)
def test_a_chart_that_cannot_be_written_is_refused(tmp_path, name, mode, words):
    with pytest.raises(InvalidInput, match=words):
        save_chart(CHART, tmp_path / name, mode=mode)
    assert not list(tmp_path.iterdir())


def test_every_published_run_has_its_measured_seconds():
    runs = load_published_runs()
    assert len(runs) == len(load_residuals())
    assert all(one.measured_s > 0 and one.predicted_s > 0 for one in runs)
