"""How `dovetail ui` ends: with nothing left behind, by an interrupt or a signal."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.browser.conftest import Visitor, serving


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGHUP, -1)])
def test_a_server_that_is_ended_with_a_page_open_leaves_no_folder(
    number: signal.Signals, code: int, visit: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("nicegui", reason="NiceGUI is not installed: pip install 'dovetail-codesign[ui]'")
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv("TMPDIR", str(own))
    with serving(tmp_path) as server:
        assert list(own.glob("dovetail-ui-*"))
        visit(f"{server.url}/search")  # of its pages the one that is drawn soonest
        server.process.send_signal(number)
        assert server.process.wait(20) == code, server.said
        assert not list(own.glob("dovetail-ui-*"))
        assert "Traceback" not in server.said
