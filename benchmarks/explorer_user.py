"""A user of the explorer without a browser: the page fetched, its socket opened, its controls turned."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
import uuid
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

CARD = 'data-key="step"'
SOCKET = "/_nicegui_ws/socket.io"
_ELEMENTS = re.compile(r"String\.raw`(.*?)`", re.DOTALL)
_CLIENT = re.compile(r"'client_id': '([0-9a-f-]+)'")
_STEP = re.compile(CARD + r' data-value="(.*?)"')


class User:
    """One tab; `turn` comes back once the figures it changed were told."""

    def __init__(self, address: str, state: str, path: str = "/") -> None:
        """`address` is what `dovetail ui` printed; its token is shown as the browser's cookie is."""
        self._path = path
        self._url, _, token = address.partition("/?token=")
        self._cookie = {"Cookie": f"dovetail-{urlsplit(self._url).port}={token}"}
        self._state = state
        self._client = ""
        self._elements: dict[str, Any] = {}
        self._shown: asyncio.Queue[str] = asyncio.Queue()

    async def __aenter__(self) -> User:
        import socketio

        page = await asyncio.to_thread(self._page)
        self._client = _CLIENT.findall(page)[0]
        self._elements = json.loads(_unescaped(_ELEMENTS.findall(page)[0]))
        self._updated(self._elements)  # an answer that was known comes with the page
        self._link = socketio.AsyncClient(reconnection=False)
        self._link.on("update", self._updated)
        self._link.on("run_javascript", self._asked)
        said = {"client_id": self._client, "next_message_id": "0", "implicit_handshake": "true"}
        said |= {"document_id": str(uuid.uuid4()), "tab_id": str(uuid.uuid4())}
        query = "&".join(f"{name}={value}" for name, value in said.items())
        await self._link.connect(
            f"{self._url}?{query}",
            headers=self._cookie,
            socketio_path=SOCKET,
            transports=["websocket"],
            wait_timeout=60,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._link.disconnect()

    async def shown(self, wait_s: float) -> str:
        """The step time that is told next."""
        return await asyncio.wait_for(self._shown.get(), wait_s)

    async def turn(self, key: str, place: float, wait_s: float) -> str:
        """Turns a slider, and gives the step time that follows."""
        while not self._shown.empty():
            self._shown.get_nowait()
        number, element = next(one for one in self._elements.items() if one[1].get("props", {}).get("id") == key)
        listener = element["events"][0]["listener_id"]
        said = {
            "id": int(number),
            "client_id": self._client,
            "listener_id": listener,
            "args": [json.dumps(f"{place:.2f}")],
        }
        await self._link.emit("event", said)
        return await self.shown(wait_s)

    def _page(self) -> str:
        asked = urllib.request.Request(f"{self._url}{self._path}?{self._state}", headers=self._cookie)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return str(answer.read().decode())

    def _updated(self, told: dict[str, Any]) -> None:
        for element in told.values():
            html = element.get("props", {}).get("innerHTML", "") if isinstance(element, dict) else ""
            for step in _STEP.findall(html):
                self._shown.put_nowait(step)

    async def _asked(self, told: dict[str, Any]) -> None:
        """What the server asks of a browser: whether it is dark."""
        if told.get("request_id"):
            said = {"request_id": told["request_id"], "client_id": self._client, "result": False}
            await self._link.emit("javascript_response", said)


def _unescaped(text: str) -> str:
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&#36;", "$"), ("&#96;", "`"), ("&amp;", "&")):
        text = text.replace(entity, character)
    return text
