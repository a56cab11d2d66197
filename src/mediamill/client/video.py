"""What a client gets to know of a video."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar

VideoState: TypeAlias = Literal["pending", "processing", "ready", "failed"]
CaptionsState: TypeAlias = Literal["none", "pending", "ready", "silent", "failed"]
QualityState: TypeAlias = Literal["pending", "in_progress", "completed", "failed", "skipped"]
TIMES = ("created_at", "updated_at", "started_at", "ended_at", "ready_at", "deleted_at")


@dataclass(frozen=True, slots=True)
class Quality:
    """One quality, and how far it is."""

    quality: str
    state: QualityState
    width: int | None
    height: int | None
    segments_total: int | None
    segments_done: int
    percent: float
    bytes: int | None
    bitrate: int | None  # bits per second
    codecs: str | None
    started_at: datetime | None
    ended_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Retranscode:
    """What is to be made anew once a worker has time. No qualities: all."""

    qualities: tuple[str, ...] | None
    transcript: bool


@dataclass(frozen=True, slots=True)
class Video:
    """A video as the server reported it last. Lists leave out the facts below `qualities`."""

    video_id: str
    slug: str
    title: str
    category: str
    state: VideoState
    error: str | None
    source_bytes: int
    duration_seconds: float | None
    width: int | None
    height: int | None
    output: int | None  # the number of the stream that plays: part of its address
    output_bytes: int | None
    captions_state: CaptionsState
    created_at: datetime
    ready_at: datetime | None
    deleted_at: datetime | None  # since when it is in the trash
    job_id: int | None  # the job that makes its stream, until it ends
    job_state: str | None
    step: str | None
    percent: float | None
    worker_name: str | None
    qualities: tuple[Quality, ...]
    priority: str | None = None  # how soon that job is claimed: high, normal or low
    next_qualities: tuple[Quality, ...] = ()  # of a stream that is being made while another plays
    description: str | None = None
    source_name: str | None = None
    mime_type: str | None = None
    frame_rate: float | None = None
    hdr: bool | None = None
    has_audio: bool | None = None
    warnings: tuple[str, ...] = ()
    captions_error: str | None = None
    updated_at: datetime | None = None
    attempts: int | None = None
    max_attempts: int | None = None
    started_at: datetime | None = None
    job_error: str | None = None
    dead_job_id: int | None = None  # the job that failed for good, if one did
    retranscode: Retranscode | None = None
    retried: tuple[str, ...] = ()  # which of its jobs run again, after `retry_video`

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes, unless somebody asks for it."""
        return self.deleted_at is not None or (self.state in ("ready", "failed") and self.job_id is None)


def read_video(told: Mapping[str, Any]) -> Video:
    """From the server's JSON; what a newer server reports besides is left out."""
    anew = told.get("retranscode")
    lists = {name: tuple(told[name]) for name in ("warnings", "retried") if name in told}
    return _read(
        Video,
        {
            **told,
            **lists,
            "video_id": str(told["id"]),
            "qualities": tuple(_read(Quality, quality) for quality in told["qualities"]),
            "retranscode": None if anew is None else _read_retranscode(anew),
        },
    )


def _read_retranscode(told: Mapping[str, Any]) -> Retranscode:
    named = told["qualities"]
    return Retranscode(None if named is None else tuple(named), told["transcript"])


T = TypeVar("T", Video, Quality)


def _read(sort: type[T], told: Mapping[str, Any]) -> T:
    known = {name: told[name] for name in sort.__dataclass_fields__ if name in told}
    times = {name: datetime.fromisoformat(known[name]) for name in TIMES if known.get(name)}
    return sort(**{**known, **times})
