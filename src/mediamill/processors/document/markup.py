"""XML of strangers as a stream of events: no document type, no entities, nothing external, bounded.

Names come without their namespace: the transitional and the strict dialect of Office differ only there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from xml.parsers import expat

from mediamill.media.errors import DamagedMediaError, MediaTooLargeError
from mediamill.processors.document.document_text import Limits


class StopReadingError(Exception):
    """A handler has all that it wants. Only for handlers: `read_xml` ends quietly."""


class Events:
    """What a reader of XML overrides. `path` holds the names of the open elements, outermost first."""

    path: list[str]

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element opens."""

    def end(self, name: str) -> None:
        """An element closes; it is still the last of `path`."""

    def text(self, data: str) -> None:
        """Text inside the last of `path`."""


def read_xml(chunks: Iterable[bytes], events: Events, limits: Limits, what: str) -> None:
    """Send the events of one XML part."""
    parser = _Parser(events, limits, what)
    try:
        for chunk in chunks:
            parser.feed(chunk)
        parser.feed(b"", last=True)
    except StopReadingError:
        return
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise DamagedMediaError(f"the {what} file is damaged: its XML cannot be read ({error})") from error


class _Parser:
    def __init__(self, events: Events, limits: Limits, what: str) -> None:
        self._events, self._limits, self._what = events, limits, what
        self._elements = 0
        self._fed = False
        events.path = []
        parser: Any = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = events.text
        parser.StartDoctypeDeclHandler = self._refuse
        parser.EntityDeclHandler = self._refuse
        parser.ExternalEntityRefHandler = self._refuse
        self._expat = parser

    def feed(self, chunk: bytes, last: bool = False) -> None:
        self._fed = self._fed or bool(chunk)
        if self._fed:  # a member that is not there has no events
            self._expat.Parse(chunk, last)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if self._elements > self._limits.elements:
            raise MediaTooLargeError(f"document too large: more than {self._limits.elements:,} XML elements")
        path = self._events.path
        if len(path) >= self._limits.depth:
            raise DamagedMediaError(f"the {self._what} file is damaged: its XML is nested too deeply")
        local = name.rpartition(" ")[2]
        path.append(local)
        self._events.start(local, _local_names(attributes))

    def _end(self, name: str) -> None:
        self._events.end(name.rpartition(" ")[2])
        self._events.path.pop()

    def _refuse(self, *_: object) -> None:
        raise DamagedMediaError(
            f"the {self._what} file declares a document type or entities, which no office program writes"
        )


def _local_names(attributes: dict[str, str]) -> dict[str, str]:
    """Of `id` and `r:id`, the one with a namespace stays: it is the link."""
    plain = {key: value for key, value in attributes.items() if " " not in key}
    plain |= {key.rpartition(" ")[2]: value for key, value in attributes.items() if " " in key}
    return plain


def whole_number(text: str | None, default: int = 0) -> int:
    """A number that a stranger wrote, kept small enough to count with."""
    text = (text or "").strip()
    if not text.removeprefix("-").isdecimal() or len(text) > 18:
        return default
    return int(text)
