"""Files that the browser sends: read by the same readers as the command line's, and given back as text for the page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fastapi import Request
from fastapi.responses import JSONResponse
from nicegui import app

from dovetail.errors import DovetailError, InvalidInput
from dovetail.explorer.packed import packed
from dovetail.files.uploaded import upload_name, upload_text, uploaded_cluster, uploaded_model

UNREADABLE = 422  # RFC 9110, 15.5.21
MOST_PACKED = 500_000  # characters: what a page's socket takes in one message, with room to spare
READERS: dict[str, Callable[[str, str], object]] = {"model": uploaded_model, "cluster": uploaded_cluster}


FORBIDDEN = 403  # RFC 9110, 15.5.4
READ_ONLY = "this server is read-only: nothing is uploaded here"


def add_uploads(*, is_read_only: bool) -> None:
    """The address that files are sent to; nothing of them is kept here."""

    @app.post("/upload/{kind}")
    async def upload(kind: str, request: Request) -> JSONResponse:
        if is_read_only:
            return JSONResponse({"error": READ_ONLY}, status_code=FORBIDDEN)
        data = await request.body()
        try:
            name = request.query_params.get("name", "")
            return JSONResponse(await asyncio.to_thread(checked_upload, kind, data, name))
        except DovetailError as error:
            return JSONResponse({"error": str(error)}, status_code=UNREADABLE)


def checked_upload(kind: str, data: bytes, name: str) -> dict[str, str]:
    """A file that can be read as what it is sent for, by its name and packed; raises in one line where it cannot."""
    if kind not in READERS:
        raise InvalidInput(f"a file is sent as a {' or a '.join(READERS)}; got {kind[:40]!r}")
    shown = upload_name(name)
    text = upload_text(data, shown)
    READERS[kind](text, shown)
    word = packed(text)
    if len(word) > MOST_PACKED:
        raise InvalidInput("this file does not pack small enough for a page; leave out what is not needed", shown)
    return {"name": shown, "text": word}
