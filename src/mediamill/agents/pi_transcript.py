"""pi's session file, an object a line (its format, version 3): a history written into it, answers read out of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

from mediamill.agents.contract import Turn
from mediamill.agents.thinking import WithoutThinking

NOTHING_SPENT = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}
UNFINISHED = ("error", "aborted", "toolUse")

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answered:
    """An input that was answered whole: pi's name for it, where it lies, where the run's answers end, its answer."""

    entry_id: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class _Said:
    start: int
    entry_id: str
    text: str | None  # None: an input


def read_answered(path: Path, start: int, end: int | None = None) -> tuple[list[Answered], int]:
    """The inputs from there on that were answered whole, and where the last such answer ends.

    An answer is whole when the model stopped by itself and no tool call of it is open. What is said into a run while a
    tool works is answered together with what was said before.
    """
    said: list[_Said] = []
    whole, kept = 0, start
    for at, after, entry in _entries(path, start, end):
        message = entry.get("message") if entry.get("type") == "message" else None
        if not isinstance(message, dict):
            kept = after if whole == len(said) else kept  # such as a summary, made after the answer
        elif message.get("role") == "user":
            said.append(_Said(at, str(entry.get("id")), None))
        elif message.get("role") == "assistant":
            said.append(_Said(at, str(entry.get("id")), _text(message)))
            if _is_whole(message):
                whole, kept = len(said), after
    return _inputs(said[:whole], kept), kept


def _entries(path: Path, start: int, end: int | None) -> Iterator[tuple[int, int, Entry]]:
    """Each entry with the places where it begins and ends. A line that was torn off is where it stops."""
    with path.open("rb") as file:
        at = file.seek(start)
        for line in file:
            after = at + len(line)
            if not line.endswith(b"\n") or (end is not None and after > end):
                return
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                return
            if not isinstance(entry, dict):
                return
            yield at, after, entry
            at = after


def _is_whole(message: Entry) -> bool:
    calls = any(part.get("type") == "toolCall" for part in message.get("content") or [])
    return not calls and message.get("stopReason") not in UNFINISHED


def _inputs(said: list[_Said], end: int) -> list[Answered]:
    """Each input with what was written until the next one; if that is nothing, they are answered together."""
    firsts = [number for number, each in enumerate(said) if each.text is None]
    found: list[Answered] = []
    for first, until in reversed(list(pairwise([*firsts, len(said)]))):
        own = "\n\n".join(each.text for each in said[first + 1 : until] if each.text)
        text = own or (found[-1].text if found else "")
        found.append(Answered(said[first].entry_id, said[first].start, end, text))
    return found[::-1]


def _text(message: Entry) -> str:
    """What of it is part of the answer."""
    if message.get("stopReason") in ("error", "aborted"):
        return ""
    visible = WithoutThinking()
    texts = (part for part in message.get("content") or [] if part.get("type") == "text")
    shown = "".join(visible.take(str(part.get("text", ""))) for part in texts)
    return shown + visible.rest()


def history_lines(history: Sequence[Turn], model: str, folder: str) -> list[Entry]:
    """The history as pi writes a session down."""
    now = datetime.now(UTC)
    at = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    lines: list[Entry] = [
        {"type": "session", "version": 3, "id": str(uuid4()), "timestamp": at, "cwd": folder}
    ]
    parent = None
    for number, turn in enumerate(history, 1):
        message = _message(turn, model, int(now.timestamp() * 1000))
        entry = {"type": "message", "id": f"{number:08x}", "parentId": parent, "timestamp": at}
        lines.append({**entry, "message": message})
        parent = entry["id"]
    return lines


def _message(turn: Turn, model: str, at: int) -> Entry:
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
