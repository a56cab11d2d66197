"""What pi remembers of a thread, on disk: its session file, which a run that fails leaves as it was before.

Before a run, a note says how long the session file is; after it the note goes. Whoever starts pi and finds a note cuts
the file back to that length: no half turn and no image that the model chokes on stays in a conversation.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from mediamill.agents.contract import Turn

NOTHING_SPENT = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}


class PiThread:
    """The folder of one thread; its name says nothing about the thread's key."""

    def __init__(self, folder: Path, thread_key: str) -> None:
        self.folder = folder / hashlib.sha256(thread_key.encode()).hexdigest()
        self.session = self.folder / "session.jsonl"
        self.instructions = self.folder / "instructions.txt"
        self.work = self.folder / "work"
        self._note = self.folder / "running"

    def prepare(self, instructions: str, history: Sequence[Turn], model: str) -> None:
        """Make it ready for a start of pi: nothing half done in it, and a history if there is none yet."""
        self.work.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.rewind()
        self.instructions.write_text(instructions)
        if history and not self.session.exists():
            lines = _session_lines(history, model, str(self.work))
            fresh = self.session.with_suffix(".new")
            fresh.write_text("".join(json.dumps(line) + "\n" for line in lines))
            fresh.replace(self.session)

    def try_lock(self) -> int | None:
        """A lock to hand to the pi process, which holds it for its life; None while an older one still lives."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    def begin(self) -> None:
        """A run begins here."""
        size = self.session.stat().st_size if self.session.exists() else 0
        self._note.write_text(str(size))

    def settle(self) -> None:
        """The run is done, and stays."""
        self._note.unlink(missing_ok=True)

    def rewind(self) -> None:
        """Forget the run that did not settle, if there was one. Only while no pi process has the file."""
        try:
            size = int(self._note.read_text() or 0)
        except (FileNotFoundError, ValueError):
            size = -1
        if size == 0:
            self.session.unlink(missing_ok=True)
        elif 0 < size < (self.session.stat().st_size if self.session.exists() else 0):
            os.truncate(self.session, size)
        self.settle()


def _session_lines(history: Sequence[Turn], model: str, folder: str) -> list[dict[str, Any]]:
    """The history as pi writes a session down (its format, version 3)."""
    now = datetime.now(UTC)
    at = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    lines: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": str(uuid4()), "timestamp": at, "cwd": folder}
    ]
    parent = None
    for number, turn in enumerate(history, 1):
        message = _message(turn, model, int(now.timestamp() * 1000))
        entry = {"type": "message", "id": f"{number:08x}", "parentId": parent, "timestamp": at}
        lines.append({**entry, "message": message})
        parent = entry["id"]
    return lines


def _message(turn: Turn, model: str, at: int) -> dict[str, Any]:
    content = [{"type": "text", "text": turn.text}]
    if turn.role == "user":
        return {"role": "user", "content": content, "timestamp": at}
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    by = {"api": "openai-completions", "provider": "mediamill", "model": model, "stopReason": "stop"}
    return {
        "role": "assistant",
        "content": content,
        **by,
        "usage": {**NOTHING_SPENT, "cost": cost},
        "timestamp": at,
    }
