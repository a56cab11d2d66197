"""The lines of calendars and contacts: folded, with parameters, in components (RFC 5545, RFC 6350)."""

from __future__ import annotations

import quopri
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

NAME = re.compile(r"(?:[A-Za-z0-9-]{1,60}\.)?([A-Za-z0-9-]{1,60})(?=[;:])")
PARAMETER = re.compile(r";([A-Za-z0-9-]{1,60})(?:=((?:\"[^\"]*\"|[^\";:])*))?")
LINE_CHARACTERS = 100_000
MAX_PARAMETERS = 50
ESCAPES = re.compile(r"\\([nN,;:\\])")


@dataclass(frozen=True, slots=True)
class ContentLine:
    """`NAME;PARAMETER=x:value`; names in upper case."""

    name: str
    value: str
    parameters: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The value without its escapes."""
        return ESCAPES.sub(lambda found: "\n" if found[1] in "nN" else found[1], self.value).strip()

    @property
    def items(self) -> list[str]:
        """A value with semicolons, in its parts."""
        return [ContentLine("", part).text for part in re.split(r"(?<!\\);", self.value)[:20]]


def content_lines(text: str) -> Iterator[ContentLine]:
    """The lines, unfolded; what is none is passed over."""
    for line in _unfolded(text):
        if parsed := _parse(line[:LINE_CHARACTERS]):
            yield parsed


def _unfolded(text: str) -> Iterator[str]:
    pieces: list[str] = []
    for line in text.split("\n"):
        soft = bool(pieces) and pieces[-1].endswith("=") and "QUOTED-PRINTABLE" in pieces[0][:500].upper()
        if pieces and (line.startswith((" ", "\t")) or soft):
            pieces.append("\n" + line if soft else line[1:])
        else:
            if pieces:
                yield "".join(pieces)
            pieces = [line]
    if pieces:
        yield "".join(pieces)


def _parse(line: str) -> ContentLine | None:
    named = NAME.match(line)
    if not named:
        return None
    at = named.end()
    parameters: dict[str, str] = {}
    while (found := PARAMETER.match(line, at)) and len(parameters) < MAX_PARAMETERS:
        name, value = found[1].upper(), found[2]
        if value is None:  # vCard 2.1: `TEL;CELL:`
            name, value = ("ENCODING" if name in ("QUOTED-PRINTABLE", "BASE64") else "TYPE"), name
        value = value.strip('"')
        parameters[name] = f"{parameters[name]},{value}" if name in parameters else value
        at = found.end()
    if line[at : at + 1] != ":":
        return None
    value = line[at + 1 :]
    if parameters.get("ENCODING", "").upper() == "QUOTED-PRINTABLE":
        value = _decode_quoted(value, parameters.get("CHARSET", "utf-8"))
    return ContentLine(named[1].upper(), value, parameters)


def _decode_quoted(value: str, charset: str) -> str:
    data = quopri.decodestring(value.encode("utf-8", "replace"))
    try:
        return data.decode(charset, "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")
