"""Opening sound and video of strangers: the bytes choose the reader, and a file can never make it open another.

Playlists and scripts (HLS, DASH, concat) name other files and addresses. Readers for them are never chosen, and
whatever a reader asks for, it has no name and no protocol by which it could open another file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mediamill.media.errors import DamagedMediaError, MissingMediaError, UnsupportedMediaError
from mediamill.media.sniff import sniff
from mediamill.media.source_file import DescriptorReader, Source, opened

if TYPE_CHECKING:
    from av.container import InputContainer

READERS = {
    **dict.fromkeys(("video/mp4", "audio/mp4", "video/quicktime", "audio/quicktime"), "mov"),
    **dict.fromkeys(("video/3gpp", "audio/3gpp"), "mov"),
    **dict.fromkeys(("video/webm", "audio/webm", "video/x-matroska", "audio/x-matroska"), "matroska"),
    **dict.fromkeys(("audio/ogg", "video/ogg", "application/ogg"), "ogg"),
    **dict.fromkeys(("video/x-ms-wmv", "audio/x-ms-wma"), "asf"),
    **dict.fromkeys(("audio/amr", "audio/amr-wb"), "amr"),
    "audio/mpeg": "mp3",
    "audio/aac": "aac",
    "audio/flac": "flac",
    "audio/wav": "wav",
    "audio/aiff": "aiff",
    "audio/x-caf": "caf",
    "audio/x-wavpack": "wv",
    "audio/basic": "au",
    "video/x-msvideo": "avi",
    "video/x-flv": "flv",
    "video/mpeg": "mpeg",
    "video/mpv": "mpegvideo",
    "video/mp2t": "mpegts",
    "image/gif": "gif",
}
OPTIONS = {"protocol_whitelist": "none", "max_streams": "100"}  # there is no protocol of that name


class _Bytes(DescriptorReader):
    """What cannot be read is the end of the file, as far as the library is concerned."""

    def read(self, size: int = -1, /) -> bytes:
        try:
            return super().read(size)
        except OSError:
            return b""


def open_media(source: Source, mime_type: str | None = None) -> InputContainer:
    """The opened file, to be used in a `with`. `mime_type`: what `sniff` said, if that is known already."""
    import av

    mime_type = mime_type or type_of(source)
    reader = READERS.get(mime_type)
    if reader is None:
        raise UnsupportedMediaError(f"a file of type {mime_type} has no sound or video that can be read")
    with as_damage(mime_type), opened(source) as descriptor:
        file = _Bytes(descriptor)
        container = av.open(file, "r", format=reader, options=OPTIONS, metadata_errors="replace")
    if not container.streams:
        container.close()
        raise DamagedMediaError(f"the {mime_type} file is damaged: there is nothing in it")
    return container


def type_of(source: Source) -> str:
    """The real type of a file that must be there."""
    try:
        return sniff(source).mime_type
    except OSError as error:
        name = repr(source.name) if isinstance(source, Path) else "of the job"
        raise MissingMediaError(f"the file {name} cannot be read: {error.strerror or error}") from error


@contextmanager
def as_damage(mime_type: str) -> Iterator[None]:
    """What the library says about bad bytes, as our error. Memory that ran out stays what it is."""
    import av

    try:
        yield
    except FileNotFoundError as error:
        raise MissingMediaError(f"the {mime_type} file is not there (any more)") from error
    except MemoryError:
        raise
    except (av.FFmpegError, ValueError) as error:
        raise DamagedMediaError(f"the {mime_type} file is damaged: {reason_of(error)}") from error


def reason_of(error: Exception) -> str:
    """The library's reason without its numbers and our paths."""
    text = str(getattr(error, "strerror", None) or error)
    known = {
        "Invalid data found when processing input": "its data makes no sense",
        "End of file": "it ends too early",
    }
    return known.get(text, text[:200])
