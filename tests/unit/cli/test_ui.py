"""`dovetail ui` before anything is served."""

from __future__ import annotations

import importlib.util
import socket

import pytest

from dovetail.cli.commands import run
from dovetail.cli.ui import answer
from dovetail.errors import InvalidInput
from dovetail.explorer.server import serve
from dovetail.explorer.settings import Settings


def test_without_its_extra_it_says_in_one_line_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InvalidInput, match=r"pip install 'dovetail-codesign\[ui\]'"):
        answer("127.0.0.1", 8037, "", opens_browser=False, as_json=False)


def test_a_port_that_is_taken_is_refused_in_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match="cannot listen on"):
            serve(Settings(port=port, token="t"), ready=lambda _: None)


@pytest.mark.parametrize("port", ["0", "x", "70000"])
def test_a_port_that_cannot_be_is_refused(port):
    with pytest.raises(InvalidInput, match="--port"):
        run(["ui", "--port", port])
