"""`dovetail mine`: from a model and limits to the best chip, with a store to go on from."""

from __future__ import annotations

from dovetail.api.mine_search import MineAsked, named
from dovetail.api.mined import mined_for
from dovetail.cli.answers import show_answer
from dovetail.cli.around import Terminal
from dovetail.cli.html import check_html
from dovetail.cli.slow_loops import say_if_slow


def answer(asked: MineAsked, terminal: Terminal, *, as_json: bool, html: str = "") -> bool:
    """Shows the best chip, and says whether there is one."""
    named(asked)
    check_html(html)
    say_if_slow()
    return show_answer(mined_for(asked, terminal), as_json=as_json, html=html)
