"""The real type of a file, from its bytes. What its name or its sender says is not asked.

Each family of formats has a file of its own; here they are asked one after the other, the surest first.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from mediamill.media.peek import Peek
from mediamill.media.sniff_boxes import look_at_boxes
from mediamill.media.sniff_ebml import look_at_ebml
from mediamill.media.sniff_office import look_at_ole, look_at_zip
from mediamill.media.sniff_raw import look_at_tiff
from mediamill.media.sniff_signatures import look_at_signatures
from mediamill.media.sniff_streams import look_at_asf, look_at_ogg, look_at_streams
from mediamill.media.sniff_text import look_at_text
from mediamill.media.source_file import Source, opened

UNKNOWN = "application/octet-stream"

Look = Callable[[Peek], tuple[str, str] | None]  # mime type and evidence, or "not one of mine"
LOOKS: tuple[Look, ...] = (
    look_at_zip,
    look_at_ole,
    look_at_boxes,
    look_at_ebml,
    look_at_ogg,
    look_at_asf,
    look_at_tiff,
    look_at_signatures,
    look_at_streams,
    look_at_text,
)


@dataclass(frozen=True, slots=True)
class Sniffed:
    """A mime type, and what in the bytes gave it away."""

    mime_type: str
    evidence: str


def sniff(source: Source) -> Sniffed:
    """Look at a bounded part of the file. Raises OSError only: any bytes have a type, if only UNKNOWN."""
    with opened(source) as descriptor, os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
        return sniff_file(file)


def sniff_file(file: BinaryIO) -> Sniffed:
    """The same for a file that is open already, or bytes in memory."""
    peek = Peek(file)
    if not peek.head:
        return Sniffed(UNKNOWN, "the file is empty")
    for look in LOOKS:
        if (found := look(peek)) is not None:
            return Sniffed(*found)
    return Sniffed(UNKNOWN, f"no known signature in the first {len(peek.head)} bytes")
