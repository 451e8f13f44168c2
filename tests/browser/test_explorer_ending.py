"""How `dovetail ui` ends: with nothing left behind, by an interrupt or a signal, whatever is under way."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.browser.conftest import Server, Visitor, serving


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where servers of a test put their folders."""
    pytest.importorskip("nicegui", reason="NiceGUI is not installed: pip install 'dovetail-codesign[ui]'")
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def check_ends(server: Server, own: Path, number: signal.Signals, code: int) -> None:
    assert list(own.glob("dovetail-ui-*"))
    server.process.send_signal(number)
    assert server.process.wait(20) == code, server.said
    assert not list(own.glob("dovetail-ui-*"))
    assert "Traceback" not in server.said


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGHUP, -1)])
def test_a_server_that_is_ended_with_a_page_open_leaves_no_folder(
    number: signal.Signals, code: int, visit: Visitor, own: Path, tmp_path: Path
):
    with serving(tmp_path) as server:
        visit(f"{server.url}/search")  # of its pages the one that is drawn soonest
        check_ends(server, own, number, code)


def test_a_server_that_is_ended_waits_for_no_upload_that_has_stalled(own: Path, tmp_path: Path):
    """As when a laptop sleeps, or the machine is so busy that the browser does not get to it."""
    with serving(tmp_path) as server, socket.create_connection(("127.0.0.1", urlsplit(server.url).port)) as sender:
        host = f"Host: 127.0.0.1:{urlsplit(server.url).port}\r\nCookie: {server.cookie}"
        sender.sendall(f"POST /upload/model?name=a.json HTTP/1.1\r\n{host}\r\nContent-Length: 9\r\n\r\nhalf".encode())
        with socket.create_connection(("127.0.0.1", urlsplit(server.url).port)) as other:  # answered after the first
            other.sendall(f"GET /favicon.ico HTTP/1.1\r\n{host}\r\n\r\n".encode())
            assert other.recv(12) == b"HTTP/1.1 200"
        check_ends(server, own, signal.SIGTERM, -signal.SIGTERM)
