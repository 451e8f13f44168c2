"""What pages are made of: the browser's own controls, each with its label, so that keys work as anywhere."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any
from urllib.parse import quote

from nicegui import ui
from nicegui.element import Element

from dovetail.report.charts.chart import HIGH_PX, WIDE, Chart, box_style
from dovetail.report.charts.themes import Mode, themed
from dovetail.report.page import Section
from dovetail.report.page_tables import table_html
from dovetail.report.table import Table

SCALE_PX = 90  # more height for a drawing to scale
VALUE = "(e) => emit(e.target.value)"
NOTHING = "() => emit()"
# What a field holds at first, as an attribute: the property of that name is written again whenever anything on the page
# changes, over whatever is being typed or dragged.
AT_FIRST = "^value"
# The number in the `data-place` of what was pressed within an element.
PLACE = """(e) => {
  const own = e.target.closest('[data-place]');
  if (own) emit(Number(own.dataset.place));
}"""
Groups = Mapping[str, Sequence[tuple[str, str]]]  # options by group, each a value and its words
Handler = Callable[..., Any]


@contextmanager
def box(kind: str, tag: str = "div", **attributes: str) -> Iterator[Element]:
    with ui.element(tag).classes(kind) as found:
        _attributed(found, attributes)
        yield found


def words(text: str, tag: str = "p", kind: str = "", **attributes: str) -> ui.html:
    """Text as it is: whatever is in it, none of it is read as HTML."""
    found = markup(escape(text), tag, kind)
    _attributed(found, attributes)
    return found


def markup(html: str, tag: str = "div", kind: str = "") -> ui.html:
    """HTML of our own making, in which every name was escaped."""
    return ui.html(html, sanitize=False, tag=tag).classes(kind)


def _attributed(element: Any, attributes: Mapping[str, str]) -> None:
    for name, value in attributes.items():
        element.props[name.rstrip("_").replace("_", "-")] = value


def button(text: str, act: Handler, *, is_quiet: bool = False, sent: str = NOTHING, **attributes: str) -> ui.html:
    """A button; `sent` is what the browser tells `act`."""
    found = words(text, "button", "act quiet" if is_quiet else "act", type="button", **attributes)
    found.on("click", act, js_handler=sent)
    return found


def choice_field(key: str, label: str, groups: Groups, value: str, act: Handler) -> ui.html:
    """A list to choose from; the words of an option are text."""
    with box("field"):
        words(label, "label", for_=key)
        found = markup(options_html(groups, value), "select")
        _attributed(found, {"id": key, "name": key})
    return found.on("change", lambda event: act(str(event.args)), js_handler=VALUE)


def options_html(groups: Groups, value: str) -> str:
    told = []
    for name, options in groups.items():
        inside = "".join(
            f'<option value="{escape(own)}"{" selected" if own == value else ""}>{escape(said)}</option>'
            for own, said in options
        )
        told.append(f'<optgroup label="{escape(name)}">{inside}</optgroup>' if name else inside)
    return "".join(told)


def text_field(key: str, label: str, value: str, act: Handler, **attributes: str) -> Element:
    with box("field"):
        words(label, "label", for_=key)
        found = ui.element("input")
        _attributed(
            found, {"type": "text", "id": key, "name": key, AT_FIRST: value, "autocomplete": "off", **attributes}
        )
    return found.on("change", lambda event: act(str(event.args)), js_handler=VALUE)


def put_text(field: Element, text: str) -> None:
    """Other text into a field, over what was typed there."""
    field.props[AT_FIRST] = text
    field.update()
    if ui.context.client.has_socket_connection:
        key = json.dumps(field.props["id"])
        ui.run_javascript(f"document.getElementById({key}).value = {json.dumps(text)}")


def suggest_text(field: Element, text: str, before: str) -> None:
    """Other text into a field that has what was suggested `before` still; what somebody typed there stays."""
    field.props[AT_FIRST] = text
    if not ui.context.client.has_socket_connection:
        field.update()
        return
    ui.run_javascript(f"""{{
      const field = document.getElementById({json.dumps(field.props["id"])});
      if (['', {json.dumps(before)}].includes(field.value)) {{
        const isWhole = field.selectionStart === 0 && field.selectionEnd === field.value.length;
        field.value = {json.dumps(text)};
        if (isWhole && document.activeElement === field) field.select();  // typing goes over all of it, as before
      }}
    }}""")


def file_field(key: str, label: str, kind: str, limit_bytes: int, act: Handler) -> Element:
    """A file that goes to the server as it is, and what that says of it to `act`."""
    with box("field"):
        words(label, "label", for_=key)
        found = ui.element("input")
        _attributed(found, {"type": "file", "id": key, "name": key, "accept": ".json,.yaml,.yml"})
    send = f"""async (e) => {{
      const file = e.target.files[0];
      if (!file) return;
      const send = await fetch('/upload/{kind}?name=' + encodeURIComponent(file.name), {{method: 'POST', body: file}})
        .catch(() => null);
      e.target.value = '';
      if (!send) emit({{error: 'the file could not be sent; an upload has at most {limit_bytes:,} bytes'}});
      else if (send.headers.get('content-type').startsWith('application/json')) emit(await send.json());
      else emit({{error: (await send.text()).trim()}});
    }}"""
    return found.on("change", lambda event: act(event.args), js_handler=send)


def copy_button(key: str) -> None:
    """Copies the text of the element with this id."""
    found = words("Copy", "button", "act", type="button", id=f"copy-{key}")
    copy = f"""async (e) => {{
      await navigator.clipboard.writeText(document.getElementById({json.dumps(key)}).textContent);
      e.target.textContent = 'Copied';
    }}"""
    found.on("click", _nothing, js_handler=copy)


def _nothing() -> None:
    """What the browser does alone."""


def download_html(name: str, text: str, label: str) -> str:
    """A link that saves `text` under a name: nothing is asked of the server."""
    return f'<a download="{escape(name)}" href="data:text/plain;charset=utf-8,{quote(text)}">{escape(label)}</a>'


def _csv(table: Table) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows((table.columns, *table.rows) if table.columns else table.rows)
    return out.getvalue()


def slider(
    key: str, label: str, said: str, act: Handler, note: str = "", *, value: str, **attributes: str
) -> tuple[Element, ui.html]:
    """A slider and the words of its value, which are its caller's to change."""
    with box("field turn"):
        with box("label"):
            words(label, "label", for_=key)
            output = markup(said, "output")
            _attributed(output, {"for": key, "id": f"{key}-value"})
        found = ui.element("input")
        _attributed(found, {"type": "range", "id": key, "name": key, "aria-describedby": f"{key}-value", **attributes})
        found.props[AT_FIRST] = value
        if note:
            words(note, "div", "hint")
    return found.on("input", lambda event: act(str(event.args)), js_handler=VALUE, throttle=0.05), output


def tables_html(tables: Sequence[Table], under: str = "") -> str:
    """Tables one after the other, each with its title but where it stands `under` the same."""
    return "\n".join(line for table in tables for line in table_html(table, is_titled=table.title != under))


def show_section(section: Section, mode: Mode) -> None:
    """A part of an answer: its words, charts and tables. A part that is one chart has that chart's title alone."""
    is_chart = len(section.charts) == 1 and not section.sentences
    with box("panel", "section"):
        if not is_chart:
            words(section.title, "h2")
        for sentence in section.sentences:
            words(sentence)
        for chart in section.charts:
            show_chart(chart, mode, heading="h2" if is_chart else "h3")
        if section.tables:
            told = tables_html(section.tables, under=section.title)
            is_long = bool(section.charts)
            markup(
                f"<details><summary>{escape(section.title)}: the figures</summary>{told}</details>" if is_long else told
            )


def show_chart(chart: Chart, mode: Mode, *, is_whole: bool = True, heading: str = "h3") -> ui.plotly:
    """A figure that can be looked at, read and taken along: what it shows in words, its numbers as a table, and files.

    One that still changes is not whole: it has its title alone.
    """
    with box("chart-box", "figure", aria_label=chart.alt):
        words(chart.title, heading)
        is_wide = chart.figure["layout"].get("meta") == WIDE
        with box("wide-chart" if is_wide else "whole-chart", **({"tabindex": "0"} if is_wide else {})):
            figure = drawn(chart, mode)
            found = ui.plotly(figure).classes("w-full plot").style(box_style(figure))
            found.props["role"] = "img"
            found.props["aria-label"] = chart.alt
        if not is_whole:
            return found
        words(chart.alt, "figcaption")
        with box("save"):
            markup(f"<details><summary>Numbers of this chart</summary>{tables_html((chart.table,))}</details>")
            with box("files", role="group", aria_label=f"Download {chart.title}"):
                words("Download", "span", "note")
                for name, save in _saving(chart, mode).items():
                    words(name, "button", "file", type="button", aria_label=f"Save {chart.title} as {name}").on(
                        "click", save, js_handler=NOTHING
                    )
    return found


# An SVG drawn at twice its size, and saved.
PNG = """(svg, name) => {
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    const link = document.createElement('a');
    [link.href, link.download] = [canvas.toDataURL('image/png'), name];
    link.click();
  };
  image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(svg);
}"""


def _saving(chart: Chart, mode: Mode) -> dict[str, Handler]:
    """What makes each kind of file, by its name; all are made when they are wanted."""

    def svg() -> None:
        ui.download.content(chart.to_svg(mode=mode).encode(), f"{chart.name}.svg")

    def png() -> None:
        ui.run_javascript(f"({PNG})({json.dumps(chart.to_svg(mode=mode))}, {json.dumps(f'{chart.name}.png')})")

    def table() -> None:
        ui.download.content(_csv(chart.table).encode(), f"{chart.name}.csv")

    def figure() -> None:
        shown = themed(chart.figure, mode)
        kept = {"title": chart.title, "alt": chart.alt, "data": shown["data"], "layout": shown["layout"]}
        ui.download.content(json.dumps(kept).encode(), f"{chart.name}.json")

    return {"SVG": svg, "PNG": png, "CSV": table, "JSON": figure}


def drawn(chart: Chart, mode: Mode) -> dict[str, Any]:
    """The figure for the page, as wide as there is room, without a toolbar."""
    figure = themed(chart.figure, mode)
    layout = {**figure["layout"], "autosize": True}
    layout.setdefault("height", HIGH_PX)
    if "scaleanchor" in layout.get("yaxis", {}):  # what is drawn to scale keeps its size under a legend
        layout["height"] += SCALE_PX
    return {"data": figure["data"], "layout": layout, "config": {"displayModeBar": False, "responsive": True}}
