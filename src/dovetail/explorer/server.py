"""The server: settings in, pages out, until it is interrupted."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.explorer.settings import Settings, is_anywhere

MISSING = "dovetail ui needs NiceGUI, which is an extra: pip install 'dovetail-codesign[ui]'"
RECONNECT_S = 60.0  # a tab may be silent for so long, as on a busy machine, and goes on where it was
POLL_S = 0.05
GONE = "No response returned."  # Starlette, of a browser that left
END_S = 3  # for requests under way when it is ended: one whose sender has stalled would hold it for ever
Ready = Callable[[str], None]
ENDS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="6" fill="#0b5cad"/>'
    '<path d="M7 8h18v16H7z" fill="none" stroke="#fff" stroke-width="2.5"/>'
    '<path d="M12 8l2.5 8h3L20 8M12 24l2.5-8h3l2.5 8" fill="none" stroke="#fff" stroke-width="2.5"/></svg>'
)


def serve(settings: Settings, ready: Ready, *, opens_browser: bool = False) -> None:
    """Serves pages until interrupted; `ready` is told the address once they can be had."""
    _check_port(settings)
    with _own_folder() as folder:
        os.environ["NICEGUI_STORAGE_PATH"] = folder  # read at import; nothing is put there, nor into the user's folder
        try:
            from nicegui import app, ui
        except ImportError:
            raise InvalidInput(MISSING) from None
        logging.getLogger("uvicorn.error").addFilter(_is_news)
        _prepare(app, settings, ready, str(Path(folder, "searches.db")), opens_browser=opens_browser)
        ui.run(
            host=settings.host,
            port=settings.port,
            title="Dovetail",
            favicon=FAVICON,
            dark=None,
            language="en-US",
            show=False,
            reload=False,
            show_welcome_message=False,
            binding_refresh_interval=None,
            reconnect_timeout=RECONNECT_S,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=END_S,
        )


def _is_news(record: logging.LogRecord) -> bool:
    """Whether it is worth printing: a tab that was closed or reloaded before its page was made is not."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, RuntimeError) and str(error) == GONE)


@contextmanager
def _own_folder() -> Iterator[str]:
    """A folder that goes with the server, however that is ended: by a signal too, after which nothing else runs.

    The server stops at SIGINT and SIGTERM by itself and then sends itself the signal again: that one arrives here.
    """
    folder = tempfile.TemporaryDirectory(prefix="dovetail-ui-", ignore_cleanup_errors=True)
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in ENDS if is_main}

    def end(number: int, _: FrameType | None) -> None:
        folder.cleanup()
        signal.signal(number, before[number])
        signal.raise_signal(number)

    met = [number for number, met_by in before.items() if met_by not in (None, signal.SIG_IGN)]  # nohup ignores SIGHUP
    for number in met:
        signal.signal(number, end)
    try:
        with folder as name:
            yield name
    finally:
        for number in met:
            signal.signal(number, before[number])


def _prepare(app: Any, settings: Settings, ready: Ready, own_store: str, *, opens_browser: bool) -> None:
    """Pages, who does their work, and the guard before them; searches go to `own_store` where none was named."""
    from dovetail.explorer.guard import Guard
    from dovetail.explorer.pages import add_pages, begin_warm, warm
    from dovetail.explorer.searches import Searches
    from dovetail.explorer.work import Workers

    begin_warm()
    workers = Workers()
    searches = Searches(settings.store or own_store, is_read_only=settings.is_read_only)
    app.add_middleware(Guard, settings=settings)
    add_pages(settings, workers, searches)

    async def begun() -> None:
        asyncio.get_running_loop().create_task(warm(workers))
        asyncio.get_running_loop().create_task(_announced(settings, ready, opens_browser=opens_browser))

    app.on_startup(begun)
    app.on_shutdown(searches.stop)
    app.on_shutdown(workers.stop)


async def _announced(settings: Settings, ready: Ready, *, opens_browser: bool) -> None:
    """Tells the address, once somebody can connect to it."""
    host = ("::1" if ":" in settings.host else "127.0.0.1") if is_anywhere(settings.host) else settings.host
    while True:
        try:
            _, link = await asyncio.open_connection(host, settings.port)
        except OSError:
            await asyncio.sleep(POLL_S)
        else:
            link.close()
            break
    ready(settings.url)
    if opens_browser:
        webbrowser.open(settings.url)


def _check_port(settings: Settings) -> None:
    """Raises in one line where the address cannot be listened on; the web server would print a page."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        reason = (error.strerror or str(error)).lower()
        raise InvalidInput(f"cannot listen on {where}: {reason}; name another --port or --host") from None
