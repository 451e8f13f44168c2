"""What the explorer is started with: where it listens, who may come in, and which store it shows."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import InvalidInput
from dovetail.store import opened, reading

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8037
LOOPBACK_NAMES = ("localhost", "ip6-localhost")
MAX_PORT = 2**16 - 1
TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where to listen and what to show; whoever asks shows `token`, other users of this machine too."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    token: str
    store: str = ""
    is_read_only: bool = False  # nothing is uploaded, and no search is started

    @property
    def url(self) -> str:
        """What to open, with the token in it."""
        host = self.host if not is_anywhere(self.host) else socket.gethostname()
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}/?token={self.token}"


def settings_of(host: str, port: int, store: str, *, is_read_only: bool = False) -> Settings:
    """Settings with a new token; raises where they cannot be.

    On loopback too: every user of a login node reaches its loopback, and pages read the store and start searches.
    """
    if not host.strip():
        raise InvalidInput("--host is an address of this machine, such as 127.0.0.1; got nothing")
    if not 0 < port <= MAX_PORT:
        raise InvalidInput(f"--port is from 1 to {MAX_PORT:,}; got {port}")
    if store and is_read_only and not Path(store).exists():
        raise InvalidInput(f"--read-only makes no store, and there is none at {store}", "store")
    if store:
        _check_store(Path(store))
    token = secrets.token_urlsafe(TOKEN_BYTES)
    return Settings(host=host, port=port, token=token, store=store, is_read_only=is_read_only)


def _check_store(file: Path) -> None:
    """Raises in one line where this is no store and none can be made."""
    with reading(file) if file.exists() else opened(file):
        pass


def is_loopback(host: str) -> bool:
    """Whether this is an address, or the name of one, that only this machine reaches."""
    name = host.strip("[]").lower()
    if name in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_anywhere(host: str) -> bool:
    """Whether this stands for every address of this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


def may_be_called(name: str, settings: Settings) -> bool:
    """Whether a browser that asks for `name`, a host without its port, can mean this server.

    A foreign name that was made to point here (DNS rebinding) is refused: addresses cannot be, so where the server is
    open to others, any address will do, and of names its own.
    """
    if is_loopback(name):
        return True
    if is_loopback(settings.host):
        return False
    own = {settings.host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
    if name.lower() in own:
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
