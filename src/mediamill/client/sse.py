"""Server-Sent Events from the bytes as they come, however they are cut."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event; `id` is the last that was told, also by an earlier event."""

    name: str
    data: str
    id: str | None


class EventParser:
    """Feed it bytes; it gives the events that are whole. As the HTML standard has it, with any sort of line end."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._rest = ""
        self._name, self._data = "", list[str]()
        self._id: str | None = None

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """The events that this chunk makes whole."""
        lines = (self._rest + self._decoder.decode(chunk)).replace("\r\n", "\n")
        # A carriage return at the very end may be the first half of a line end.
        held = "\r" if lines.endswith("\r") else ""
        *whole, last = lines.removesuffix(held).replace("\r", "\n").split("\n")
        self._rest = last + held
        for line in whole:
            if event := self._take(line):
                yield event

    def _take(self, line: str) -> ServerEvent | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        elif field == "id" and "\0" not in value:
            self._id = value or None
        return None

    def _dispatch(self) -> ServerEvent | None:
        name, data = self._name, self._data
        self._name, self._data = "", []
        return ServerEvent(name or "message", "\n".join(data), self._id) if data else None
