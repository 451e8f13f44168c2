"""Curves as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from dovetail.report.curves import HEIGHT, WIDTH, Curve, Panel, curves_svg

SVG = "{http://www.w3.org/2000/svg}"


def panel(*curves, is_y_log=True):
    return Panel(title="a < b", x_name="x", y_name="y", x_label=str, y_words=str, curves=curves, is_y_log=is_y_log)


@pytest.mark.parametrize("is_y_log", [True, False])
def test_every_point_is_in_the_picture(is_y_log):
    line = Curve(name="one & only", points=((1.0, 5.0), (2.0, 50.0), (4.0, 500.0)))
    bound = Curve(name="one & only", points=((1.0, 4.0), (4.0, 400.0)), is_dashed=True)
    root = ElementTree.fromstring(curves_svg("t", [panel(line, bound, is_y_log=is_y_log)]))
    places = [(float(c.get("cx") or 0), float(c.get("cy") or 0)) for c in root.iter(f"{SVG}circle")]
    assert len(places) == 3
    assert [x for x, _ in places] == [0.0, WIDTH / 2, WIDTH]
    assert all(0 <= y <= HEIGHT for _, y in places)
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)
    assert [line.get("stroke-dasharray") for line in root.iter(f"{SVG}polyline")] == [None, "5 4"]


def test_a_band_lies_round_its_line_and_within_the_picture():
    curve = Curve(name="c", points=((1.0, 5.0), (2.0, 50.0)), band=((1.0, 4.0, 6.0), (2.0, 20.0, 2000.0)))
    root = ElementTree.fromstring(curves_svg("t", [panel(curve), panel(Curve(name="c", points=((1.0, 5.0),)))]))
    [band] = root.iter(f"{SVG}polygon")
    corners = [tuple(map(float, corner.split(","))) for corner in (band.get("points") or "").split()]
    line = [(float(c.get("cx") or 0), float(c.get("cy") or 0)) for c in root.iter(f"{SVG}circle")][:2]
    assert [x for x, _ in corners] == [0.0, WIDTH, WIDTH, 0.0]
    for (_, at), (_, low), (_, high) in zip(line, corners[:2], corners[:1:-1], strict=True):
        assert 0 <= high < at < low <= HEIGHT


def test_one_point_nothing_and_zero_are_drawn_too():
    for points in (((3.0, 7.0),), ((1.0, 0.0), (2.0, 0.0))):
        for is_y_log in (True, False):
            ElementTree.fromstring(curves_svg("t", [panel(Curve(name="c", points=points), is_y_log=is_y_log)]))
