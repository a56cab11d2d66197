"""What a video is: its states, qualities, names, and where its files lie. Pure."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec

from mediamill.engine.model import Priority
from mediamill.errors import ConflictError, InvalidError, NotFoundError

TRANSCODE = "video.transcode"
TRANSCRIBE = "video.transcribe"
QUALITIES = ("2160p", "1440p", "1080p", "720p", "480p", "360p")
FOLDER = "videos"
TITLE_CHARACTERS = 200
DESCRIPTION_CHARACTERS = 10_000
CATEGORY_CHARACTERS = 100
SLUG_CHARACTERS = 80
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class UnknownVideoError(NotFoundError):
    """There is no such video."""

    code = "unknown_video"


class VideoBusyError(ConflictError):
    """The video's job is not at an end."""

    code = "video_busy"


class UnknownQualityError(InvalidError):
    """There is no such quality."""

    code = "unknown_quality"


class BadVideoFactsError(InvalidError):
    """Title, description, category or slug cannot be that."""

    code = "bad_video_facts"


@dataclass(frozen=True, slots=True)
class NewVideo:
    """A file that has arrived, and what its sender says of it."""

    id: UUID
    title: str
    source_name: str
    source_bytes: int
    mime_type: str
    description: str = ""
    category: str = ""
    priority: Priority = Priority.NORMAL


class MadeQuality(msgspec.Struct, frozen=True):
    """What a worker says of one quality."""

    name: str
    state: str
    width: int | None = None
    height: int | None = None
    codecs: str | None = None
    segments: int | None = None
    error: str | None = None


class Made(msgspec.Struct, frozen=True):
    """The result of a ladder, as far as it is believed: sizes are taken from the files."""

    duration_seconds: float
    qualities: list[MadeQuality]
    width: int | None = None
    height: int | None = None
    frame_rate: float | None = None
    hdr: bool = False
    has_audio: bool = False
    warnings: list[str] = []


def owner_of(video_id: UUID) -> str:
    """Whose work the jobs of a video are: its own, so that they can be held with it."""
    return f"video:{video_id}"


def video_folder(video_id: UUID) -> str:
    """Everything of one video."""
    return f"{FOLDER}/{video_id}"


def source_name(video_id: UUID) -> str:
    """The uploaded file, as a payload names it."""
    return f"{video_folder(video_id)}/source"


def output_folder(video_id: UUID, output: int) -> str:
    """The stream that one job made."""
    return f"{video_folder(video_id)}/{output}"


def quality_of(name: str) -> str:
    """Which quality a file of a stream belongs to: `720p-00003.m4s`, `720p.m3u8`; others name none."""
    return name.partition(".")[0].partition("-")[0]


def check_qualities(names: list[str]) -> list[str]:
    """In the order of the ladder, each once."""
    for name in names:
        if name not in QUALITIES:
            raise UnknownQualityError(
                f"there is no quality {name!r}", fix=f"there are {', '.join(QUALITIES)}"
            )
    return [name for name in QUALITIES if name in names]


def clean_fact(what: str, text: str, limit: int, *, needed: bool = False) -> str:
    """Text from a stranger that can be kept."""
    text = _CONTROLS.sub("", text).strip()
    if needed and not text:
        raise BadVideoFactsError(f"the {what} is empty")
    if len(text) > limit:
        raise BadVideoFactsError(f"the {what} has {len(text)} characters, the limit is {limit}")
    return text


def make_slug(title: str) -> str:
    """A name for the address, from a title; `video` if there is nothing to make it from."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    slug = "-".join(re.findall(r"[a-z0-9]+", plain))[:SLUG_CHARACTERS].strip("-")
    # What looks like an id would be looked up as one.
    return slug if slug and not is_id(slug) else "video"


def check_slug(slug: str) -> str:
    """A slug as somebody wants it."""
    if len(slug) > SLUG_CHARACTERS or not _SLUG.fullmatch(slug) or is_id(slug):
        raise BadVideoFactsError(
            "a slug has small letters and digits, with single dashes between",
            fix="for example my-first-video",
        )
    return slug


def is_id(text: str) -> bool:
    """Can it only be an id?"""
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def title_of_file(name: str) -> str:
    """A title for a file that came without one."""
    stem = name.rsplit(".", 1)[0] if "." in name[1:] else name
    return _CONTROLS.sub("", stem).replace("_", " ").strip()[:TITLE_CHARACTERS] or "Untitled"


def read_made(result: Any) -> Made:
    """The result of a worker, which may be anybody's."""
    try:
        return msgspec.convert(result, Made)
    except msgspec.ValidationError as error:
        raise BadVideoFactsError(f"the result of the ladder cannot be read: {error}") from error
