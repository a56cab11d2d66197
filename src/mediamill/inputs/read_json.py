"""JSON read as it arrives, in pieces cut anywhere, and never held as a whole.

A visitor is told what comes. It says of every string how long it may be, or where its text goes piece by piece.
Strings are searched and decoded in C; only the few bytes between them are looked at one by one.
"""

from __future__ import annotations

import json
import re
from typing import Final, Literal, Protocol

from mediamill.errors import InvalidError

SPACE = re.compile(rb"[ \t\r\n]*+")
WORD = re.compile(rb"[-+.0-9A-Za-z]++")
NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
WORDS: Final = {b"true": True, b"false": False, b"null": None}
# What can be in a string, up to its end or to an escape that is not complete.
IN_STRING = re.compile(rb'(?:[^"\\]++|\\u[^"\\]{4}|\\[^u])*+')
LONGEST_ESCAPE: Final = 6
BYTES_OF_CHARACTER: Final = 12  # of one beyond the first plane, written as two escapes
KEY_CHARACTERS: Final = 64
WORD_BYTES: Final = 64
DEPTH: Final = 32

Kind = Literal["object", "list"]
Scalar = str | int | float | bool | None
Then = Literal["the end", "more", "broken"]
Expected = Literal[
    "a value", "a value or ]", "a key", "a key or }", ":", ", or the end", "the end of the body"
]


class JsonError(InvalidError):
    """The body is not JSON."""

    code = "json_invalid"
    fix = "send one JSON object in UTF-8"


class StringTooLongError(InvalidError):
    """A string is too long."""


class Sink(Protocol):
    """Takes the text of a string in pieces, without escapes."""

    def write(self, piece: bytes) -> None:
        """The next piece."""

    def end(self) -> None:
        """That was all."""


class Visitor(Protocol):
    """Is told what comes, and may raise to end it."""

    def begin(self, kind: Kind) -> None:
        """An object or a list opens."""

    def end(self) -> None:
        """The one that was opened last closes."""

    def key(self, name: str) -> None:
        """The key of what comes next."""

    def begin_string(self) -> int | Sink:
        """A string begins that is no key: how many characters it may have, or where it goes."""

    def value(self, value: Scalar) -> None:
        """A number, a word, or a string that was held."""


class JsonReader:
    """Feed it the pieces, then close it."""

    def __init__(self, visitor: Visitor) -> None:
        self._visitor = visitor
        self._expected: Expected = "a value"
        self._open: list[Kind] = []
        self._carry = b""  # what can only be understood with the bytes that follow
        self._before = 0  # bytes that came before those at hand
        self._held: bytearray | None = None
        self._limit = 0
        self._sink: Sink | None = None

    def feed(self, piece: bytes) -> None:
        """The next bytes."""
        data, self._carry = self._carry + piece, b""
        at = 0
        while at < len(data):
            if self._sink is not None:
                at = self._stream(self._sink, data, at)
            elif self._held is not None:
                at = self._hold(self._held, data, at)
            else:
                at = self._token(data, at)
        self._before += len(data) - len(self._carry)

    def close(self) -> None:
        """That was all of it."""
        in_string = self._sink is not None or self._held is not None
        if not in_string:
            self.feed(b" ")  # ends a number or a word
        if in_string or self._expected != "the end of the body":
            raise JsonError("the body ends too early")

    def _token(self, data: bytes, at: int) -> int:
        """One thing outside strings; where the next begins."""
        at = _end_of(SPACE, data, at)
        match data[at : at + 1]:
            case b"":
                return at
            case b'"':
                self._open_string(at)
            case b"{":
                self._open_kind("object", at)
            case b"[":
                self._open_kind("list", at)
            case b"}" | b"]" as closing:
                self._close_kind("object" if closing == b"}" else "list", at)
            case b":" if self._expected == ":":
                self._expected = "a value"
            case b"," if self._expected == ", or the end":
                self._expected = "a key" if self._open[-1] == "object" else "a value"
            case _:
                return self._word(data, at)
        return at + 1

    def _open_kind(self, kind: Kind, at: int) -> None:
        self._expect_value(at)
        if len(self._open) == DEPTH:
            raise JsonError(f"nested too deeply at byte {self._before + at}")
        self._visitor.begin(kind)
        self._open.append(kind)
        self._expected = "a key or }" if kind == "object" else "a value or ]"

    def _close_kind(self, kind: Kind, at: int) -> None:
        first: Expected = "a key or }" if kind == "object" else "a value or ]"
        if self._expected not in (first, ", or the end") or self._open[-1:] != [kind]:
            raise self._fault(at)
        self._open.pop()
        self._visitor.end()
        self._value_done()

    def _word(self, data: bytes, at: int) -> int:
        end = _end_of(WORD, data, at)
        if end == at or end - at > WORD_BYTES:
            raise self._fault(at)
        if end == len(data):
            self._carry = data[at:]
            return end
        word = data[at:end]
        if word not in WORDS and not NUMBER.fullmatch(word):
            raise self._fault(at)
        self._expect_value(at)
        self._visitor.value(WORDS[word] if word in WORDS else json.loads(word))
        self._value_done()
        return end

    def _open_string(self, at: int) -> None:
        if self._expected in ("a key", "a key or }"):
            self._held, self._limit = bytearray(), KEY_CHARACTERS
            return
        self._expect_value(at)
        wanted = self._visitor.begin_string()
        if isinstance(wanted, int):
            self._held, self._limit = bytearray(), wanted
        else:
            self._sink = wanted

    def _hold(self, held: bytearray, data: bytes, at: int) -> int:
        """A string that is kept until its end."""
        end, then = _look(data, at)
        held += data[at:end]
        if len(held) > self._limit * BYTES_OF_CHARACTER:
            raise self._too_long()
        if then != "the end":
            return self._wait(then, data, end)
        text = self._decode(bytes(held), end)
        if len(text) > self._limit:
            raise self._too_long()
        self._held = None
        if self._expected in ("a key", "a key or }"):
            self._visitor.key(text)
            self._expected = ":"
        else:
            self._visitor.value(text)
            self._value_done()
        return end + 1

    def _stream(self, sink: Sink, data: bytes, at: int) -> int:
        """A string that goes on as it comes."""
        end, then = _look(data, at)
        piece = data[at:end]
        sink.write(_unescape(piece) if b"\\" in piece else piece)
        if then != "the end":
            return self._wait(then, data, end)
        sink.end()
        self._sink = None
        self._value_done()
        return end + 1

    def _wait(self, then: Then, data: bytes, at: int) -> int:
        """For the rest of a string."""
        if then == "broken":
            raise JsonError(f"a broken escape at byte {self._before + at}")
        self._carry = data[at:]
        return len(data)

    def _decode(self, raw: bytes, at: int) -> str:
        try:
            text = json.loads(f'"{raw.decode()}"')
        except ValueError as error:
            raise JsonError(f"the string that ends at byte {self._before + at} is not valid") from error
        assert isinstance(text, str)
        return text

    def _expect_value(self, at: int) -> None:
        if self._expected not in ("a value", "a value or ]"):
            raise self._fault(at)

    def _value_done(self) -> None:
        self._expected = ", or the end" if self._open else "the end of the body"

    def _too_long(self) -> StringTooLongError:
        what = "a key" if self._expected in ("a key", "a key or }") else "a text"
        return StringTooLongError(f"{what} may have {self._limit} characters here")

    def _fault(self, at: int) -> JsonError:
        return JsonError(f"not JSON: {self._expected} is expected at byte {self._before + at}")


def _end_of(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    found = pattern.match(data, at)
    return found.end() if found else at


def _look(data: bytes, at: int) -> tuple[int, Then]:
    """How far the string, or what is complete of it, goes, and what comes there."""
    quote = data.find(b'"', at)
    end = quote if quote >= 0 else len(data)
    if data.find(b"\\", at, end) < 0:
        return end, "the end" if quote >= 0 else "more"
    end = _end_of(IN_STRING, data, at)
    rest = data[end : end + LONGEST_ESCAPE]
    if rest.startswith(b'"'):
        return end, "the end"
    return end, "broken" if len(rest) == LONGEST_ESCAPE or b'"' in rest else "more"


def _unescape(piece: bytes) -> bytes:
    """For a sink. What is no JSON stays as it is: that is for the sink to refuse, wherever the pieces were cut."""
    try:
        text: str = json.loads(f'"{piece.decode("latin-1")}"', strict=False)
        return text.encode("latin-1")
    except ValueError:
        return piece
