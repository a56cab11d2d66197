"""What videos look like over HTTP, for the OpenAPI document and its readers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from mediamill.videos.model import (
    CATEGORY_CHARACTERS,
    DESCRIPTION_CHARACTERS,
    SLUG_CHARACTERS,
    TITLE_CHARACTERS,
)

VideoState = Literal["pending", "processing", "ready", "failed"]
CaptionsState = Literal["none", "pending", "ready", "silent", "failed"]
PriorityName = Literal["high", "normal", "low"]
Quality = Literal["2160p", "1440p", "1080p", "720p", "480p", "360p"]


class QualityOut(BaseModel):
    """One quality, and how far it is."""

    quality: str
    state: Literal["pending", "in_progress", "completed", "failed", "skipped"]
    width: int | None
    height: int | None
    segments_total: int | None
    segments_done: int
    percent: float
    bytes: int | None
    bitrate: int | None = Field(description="Bits per second.")
    codecs: str | None
    started_at: datetime | None
    ended_at: datetime | None
    error: str | None
    worker_id: int | None = Field(description="Which worker made it. Kept for good.")
    worker_name: str | None


class ListedVideo(BaseModel):
    """A video as the list shows it."""

    id: UUID
    slug: str
    title: str
    category: str
    state: VideoState
    error: str | None
    source_bytes: int
    duration_seconds: float | None
    width: int | None
    height: int | None
    output: int | None = Field(description="The number of the stream that plays: part of its address.")
    output_bytes: int | None
    captions_state: CaptionsState
    created_at: datetime
    ready_at: datetime | None
    deleted_at: datetime | None = Field(description="Since when it is in the trash.")
    job_id: int | None = Field(description="The job that makes its stream, as long as it is not at its end.")
    job_state: str | None
    priority: PriorityName | None = Field(description="How soon that job is claimed.")
    step: str | None
    percent: float | None
    worker_name: str | None
    qualities: list[QualityOut]
    next_qualities: list[QualityOut] = Field(
        description="How far a retranscode is; `qualities` are those of the stream that plays meanwhile."
    )


class Retranscode(BaseModel):
    """What is to be made anew once a worker has time."""

    qualities: list[str] | None = Field(description="None: all.")
    transcript: bool


class VideoOut(ListedVideo):
    """A video with all there is to know of it."""

    description: str
    source_name: str
    mime_type: str
    frame_rate: float | None
    hdr: bool | None
    has_audio: bool | None
    warnings: list[str]
    captions_error: str | None
    updated_at: datetime
    attempts: int | None
    max_attempts: int | None
    started_at: datetime | None
    job_error: str | None
    dead_job_id: int | None = Field(description="The job that failed for good, if one did.")
    retranscode: Retranscode | None


class VideosOut(BaseModel):
    """A page of the list."""

    videos: list[ListedVideo]
    next: UUID | None = Field(description="The `before` of the next page; None: there is none.")


class Category(BaseModel):
    """A category that is used."""

    category: str
    videos: int


class CategoriesOut(BaseModel):
    """All of them."""

    categories: list[Category]


class Sentence(BaseModel):
    """Something that is said, and when: in seconds from the beginning."""

    start: float
    end: float
    text: str


class TranscriptOut(BaseModel):
    """What is said in a video."""

    state: CaptionsState
    error: str | None
    language: str | None
    text: str | None
    segments: list[Sentence]


class FactsIn(BaseModel):
    """What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    title: Annotated[str, Field(max_length=TITLE_CHARACTERS)] | None = None
    description: Annotated[str, Field(max_length=DESCRIPTION_CHARACTERS)] | None = None
    category: Annotated[str, Field(max_length=CATEGORY_CHARACTERS)] | None = None
    slug: Annotated[str, Field(max_length=SLUG_CHARACTERS)] | None = None


class RetranscodeIn(BaseModel):
    """What to make anew."""

    model_config = ConfigDict(extra="forbid")

    qualities: Annotated[list[Quality], Field(max_length=20)] | None = Field(
        default=None, description="Unset or empty: all that the source allows."
    )
    transcript: bool = Field(default=False, description="The captions, too.")
    priority: PriorityName = Field(
        default="low", description="`low` leaves the workers to videos that cannot be played yet."
    )


class PriorityIn(BaseModel):
    """How soon the jobs that wait are claimed."""

    model_config = ConfigDict(extra="forbid")

    priority: PriorityName


class RetriedVideoOut(VideoOut):
    """The video, and which of its jobs run again."""

    retried: list[str]
