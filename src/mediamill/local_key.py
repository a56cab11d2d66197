"""The key in the data folder, by which a server knows its own user: who can read the file is that user.

The key never travels. Commands and the Python client sign a pass with it for each request, which soon expires: another
user's program that listens on the port while the server is down learns nothing of use. A link for a browser is signed
the same way, for the server on one port. docs/decisions/local-key.md tells why.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
import tempfile
import time
from pathlib import Path

DATA_FOLDER = Path("~/.local/share/mediamill")
FILE = "local_key"
LONGEST_BYTES = 1_000
REQUEST, REQUEST_SECONDS = "request", 60.0
LINK_SECONDS = 24 * 3600.0
GRACE_SECONDS = 1.0  # between signing and arriving
_PASS = re.compile(r"pass_([0-9]{1,20})_([0-9a-f]{16})_([0-9a-f]{64})")


def keep_secret(file: Path) -> str:
    """The random secret in this file, which is made the first time."""
    with contextlib.suppress(FileNotFoundError):
        return _read(file)
    _make(file)
    return _read(file)


def local_key(data_folder: Path) -> str:
    """Of the server that uses this data folder."""
    return keep_secret(data_folder / FILE)


def find_local_key(data_folder: Path) -> str | None:
    """The same for whoever wants to call that server; None if there is none, or it is another user's."""
    try:
        return _read(data_folder / FILE)
    except OSError:
        return None


def link_purpose(port: int) -> str:
    """Of the link that opens the pages of the server on this port."""
    return f"link {port}"


def sign_pass(key: str, purpose: str = REQUEST) -> str:
    """A pass that says when it was made, and what for."""
    issued, nonce = str(time.time_ns()), secrets.token_hex(8)
    return f"pass_{issued}_{nonce}_{_mac(key, purpose, issued, nonce)}"


def is_pass(text: str) -> bool:
    """Whether it looks like one."""
    return text.startswith("pass_")


class PassCheck:
    """Which passes a server accepts: those that were signed with its key, while it ran.

    Before that, somebody else may have listened on its port.
    """

    def __init__(self, data_folder: Path) -> None:
        self._key, self._began = local_key(data_folder), time.monotonic()

    def accepts(self, text: str, purpose: str = REQUEST, seconds: float = REQUEST_SECONDS) -> bool:
        """Whether it was signed for this purpose, not longer ago than that."""
        found = _PASS.fullmatch(text)
        if found is None or not hmac.compare_digest(found[3], _mac(self._key, purpose, found[1], found[2])):
            return False
        age, uptime = (time.time_ns() - int(found[1])) / 1e9, time.monotonic() - self._began
        return -GRACE_SECONDS <= age <= min(seconds, uptime + GRACE_SECONDS)


def _mac(key: str, *said: str) -> str:
    return hmac.new(key.encode(), " ".join(("mediamill", *said)).encode(), hashlib.sha256).hexdigest()


def _read(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(LONGEST_BYTES).decode().strip()


def _make(file: Path) -> None:
    """Whole or not at all, for this user's eyes only; the first of two that make it at once wins."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "w") as opened:
            opened.write(f"{secrets.token_urlsafe(32)}\n")
            opened.flush()
            os.fsync(opened.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(made, file)
    finally:
        Path(made).unlink()
