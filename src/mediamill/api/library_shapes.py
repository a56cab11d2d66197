"""What libraries and their assets look like over HTTP, for the OpenAPI document and its readers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mediamill.libraries.model import NAME_CHARACTERS

AssetType = Literal["image", "video"]
AssetStatus = Literal["pending", "extracting", "proxied", "analyzing", "completed", "failed", "poisoned"]
Mode = Literal["scenes", "windows"]
Engine = Literal["local", "openai", "moondream"]
PATH_CHARACTERS = 4096
MOST_RESCAN_SECONDS = 366 * 86_400

Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARACTERS, examples=["Photos"])]
FolderPath = Annotated[str, Field(min_length=1, max_length=PATH_CHARACTERS, examples=["/mnt/photos"])]
SamplingLimit = Annotated[int, Field(ge=1, le=10_000, description="The most scenes or frames of a video.")]


class LibraryIn(BaseModel):
    """A library to be added."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    path: FolderPath = Field(
        description="The absolute path of a folder of the server's machine. Only read, ever."
    )
    rescan_seconds: Annotated[int, Field(ge=1, le=MOST_RESCAN_SECONDS)] | None = Field(
        default=None, description="Unset: it is scanned only when somebody asks for it."
    )
    ignore_previews: bool = Field(
        default=False, description="Develop raw images; their own previews are not used."
    )
    sampling_limit: SamplingLimit = 100
    mode: Mode = Field(default="scenes", description="How moments of videos are found.")
    scan: bool = Field(default=True, description="Scan it at once.")


class LibraryEdit(BaseModel):
    """What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    name: Name | None = None
    path: FolderPath | None = None
    rescan_seconds: Annotated[int, Field(ge=0, le=MOST_RESCAN_SECONDS)] | None = Field(
        default=None, description="0: only when somebody asks for it."
    )
    ignore_previews: bool | None = None
    sampling_limit: SamplingLimit | None = None
    mode: Mode | None = None


class TaggerIn(BaseModel):
    """Who looks at the images of a library."""

    model_config = ConfigDict(extra="forbid")

    engine: Engine | None = Field(default=None, description="Unset: whoever the settings name.")
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="A model of that engine. Unset: its default."
    )


class LibraryOut(BaseModel):
    """A library, with how much is in it and how its scan goes."""

    slug: str
    name: str
    absolute_path: str
    is_active: bool = Field(description="False: paused.")
    deleted_at: datetime | None = Field(description="Since when it is in the trash.")
    scan_status: Literal["idle", "scan_req", "scanning"]
    scan_counts: dict[str, Any]
    scan_started_at: datetime | None
    scanned_at: datetime | None = Field(description="When the last scan ended.")
    scan_error: str | None
    warning: str | None = Field(description="Why jobs of it are put off: a share that is away, say.")
    rescan_seconds: int | None
    target_tagger_id: int | None = Field(description="None: the tagger of the settings.")
    tagger: str | None = None
    sampling_limit: int
    sampling_policy: dict[str, Any]
    ignore_previews: bool
    created_at: datetime
    assets: int
    bytes: int
    vanished: int = Field(description="Assets that the last scan did not find.")
    statuses: dict[AssetStatus, int]
    types: dict[AssetType, int]


class LibrariesOut(BaseModel):
    """All of them, by name."""

    libraries: list[LibraryOut]


class ListedAsset(BaseModel):
    """An asset as a list shows it. The addresses of its files never change what they give, and are None until then."""

    id: int
    rel_path: str = Field(description="Within the library; bytes that are no UTF-8 stand as U+10FF00 and up.")
    path: str = Field(description="The same, for people to read.")
    name: str
    type: AssetType
    status: AssetStatus
    shown_at: datetime = Field(
        description="When it was taken, by the clocks of the place, so without an offset (in one asset's `facts`: "
        "`taken_at` with the offset where it is known, `taken_from` where it comes from); else, when the file was "
        "changed, in UTC."
    )
    size: int
    width: int | None
    height: int | None
    duration_seconds: float | None
    description: str | None
    output: str | None
    thumbnail_url: str | None
    preview_url: str | None
    clip_url: str | None
    retry_count: int
    error: str | None
    tags_model_id: int | None
    vanished_at: datetime | None


class AssetsOut(BaseModel):
    """A page of the list."""

    assets: list[ListedAsset]
    next: str | None = Field(description="The `after` of the next page; None: there is none.")
    previous: str | None = Field(description="The `before` of the page before.")


class Tag(BaseModel):
    """A word for what is to be seen, and how sure the tagger is."""

    label: str
    score: float | None = None


class Scene(BaseModel):
    """A scene of a video, with the frame that stands for it."""

    id: int
    number: int
    start_ts: float
    end_ts: float
    sharpness_score: float
    keep_reason: Literal["phash", "temporal", "forced"]
    description: str | None
    text: str | None = Field(description="Words that can be read in it.")
    tags: list[Tag]
    tags_model_id: int | None
    tagger: str | None
    frame_url: str | None


class Frame(BaseModel):
    """A sampled frame of a video."""

    id: int
    timestamp_ms: int
    seconds: float
    is_keyframe: bool
    description: str | None
    tags: list[Tag]
    tags_model_id: int | None
    tagger: str | None
    frame_url: str | None


class AssetJob(BaseModel):
    """The job that is at hand for an asset."""

    id: int
    kind: str
    state: str
    step: str | None
    percent: float | None
    attempts: int
    max_attempts: int
    worker_name: str | None
    error: str | None


class AssetOut(ListedAsset):
    """An asset with all there is to know of it."""

    library_slug: str
    library_name: str
    mtime_ns: int
    segmentation_version: str | None
    error_code: Literal["proxy_failed", "file_gone", "tag_failed"] | None
    tagger: str | None = Field(description="Whose words and tags these are.")
    tags: list[Tag]
    facts: dict[str, Any]
    job: AssetJob | None
    scenes: list[Scene]
    frames: list[Frame]
    newer: int | None = Field(description="The asset before it, newest first.")
    older: int | None = Field(description="The one after it.")


class Month(BaseModel):
    """How many assets are of a month (UTC)."""

    month: str = Field(examples=["2024-05"])
    count: int


class TimelineOut(BaseModel):
    """Months with something in them, newest first."""

    months: list[Month]


class RetriedAssetsOut(BaseModel):
    """How many wait again, and whether there may be more of them."""

    retried: int
    more: bool


class RemadeOut(BaseModel):
    """How many are made again, and the `after` to go on with."""

    remade: int
    after: int | None


class ErasingOut(BaseModel):
    """The libraries that are being erased now."""

    erasing: list[str]
