"""Names of files as text that a database can keep, and back: they need not be UTF-8, and hold all but / and NUL.

A byte that is no UTF-8 becomes a character of the last private plane. A real name that holds such characters is
written byte by byte in the same way, so that every name has one text and every such text one name.
"""

from __future__ import annotations

import codecs
import os
import re

FIRST = 0x10FF00  # and the 256 from there on, one for each byte
_ESCAPED = re.compile(f"[{chr(FIRST)}-{chr(FIRST + 0xFF)}]")
_SURROGATE = re.compile("[\udc80-\udcff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def to_text(name: str | bytes) -> str:
    """A name, as the system gives it (text with surrogates, or bytes)."""
    text = os.fsdecode(name)
    if text.isascii():
        return text
    text = _ESCAPED.sub(lambda found: _escape(found[0].encode()), text)
    return _SURROGATE.sub(lambda found: chr(FIRST + ord(found[0]) - 0xDC00), text)


def to_bytes(text: str) -> bytes:
    """The name that `to_text` was given."""
    if _ESCAPED.search(text) is None:
        return text.encode()
    return b"".join(
        bytes([ord(part) - FIRST]) if _ESCAPED.fullmatch(part) else part.encode()
        for part in re.split(f"({_ESCAPED.pattern})", text)
        if part
    )


def shown(text: str) -> str:
    """For people: one line, without characters that would move the cursor or turn the direction of writing."""
    plain = _ESCAPED.sub("\N{REPLACEMENT CHARACTER}", text)
    return _CONTROL.sub(lambda found: codecs.encode(found[0], "unicode_escape").decode(), plain)


def _escape(raw: bytes) -> str:
    return "".join(chr(FIRST + byte) for byte in raw)
