"""What projects, their files and proposals look like over HTTP, for the OpenAPI document and its readers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mediamill.api.library_shapes import PATH_CHARACTERS
from mediamill.api.video_shapes import PriorityName
from mediamill.intake.categories import PATTERN_CHARACTERS
from mediamill.intake.model import (
    CATEGORY_CHARACTERS,
    DESCRIPTION_CHARACTERS,
    LABEL_CHARACTERS,
    MOST_FIELDS,
    NAME_CHARACTERS,
    SLUG_CHARACTERS,
    UNIT_CHARACTERS,
)
from mediamill.intake.values import VALUE_CHARACTERS

FileState = Literal["queued", "processing", "completed", "failed"]
FieldType = Literal["text", "number", "amount", "date", "boolean"]
ProposalState = Literal["pending", "accepted", "rejected"]

Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARACTERS, examples=["Invoices"])]
Category = Annotated[str, Field(min_length=1, max_length=CATEGORY_CHARACTERS, examples=["Invoice"])]
Text = Annotated[str, Field(max_length=DESCRIPTION_CHARACTERS)]


class FieldIn(BaseModel):
    """Something that every file of a project is asked for."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=60, description="Its key.", examples=["invoice_number"])
    type: FieldType = "text"
    label: Annotated[str, Field(max_length=LABEL_CHARACTERS)] = Field(
        default="",
        description="How documents write it. Empty: made from the name.",
        examples=["Invoice number"],
    )
    description: Text = Field(default="", description="What is meant, for people and for a model.")
    unit: Annotated[str, Field(max_length=UNIT_CHARACTERS)] = Field(default="", examples=["kWh"])
    categories: list[Category] = Field(
        default=[], description="Of which files only; empty: of all.", examples=[["Invoice"]]
    )


class CategoryRule(BaseModel):
    """What files of such a name are; the first rule that fits counts."""

    model_config = ConfigDict(extra="forbid")

    pattern: str = Field(min_length=1, max_length=PATTERN_CHARACTERS, examples=["*receipt*"])
    category: Category


class CategoryIn(BaseModel):
    """What a person says that a file is."""

    model_config = ConfigDict(extra="forbid")

    category: Category | None = Field(description="null: its project's rules say it, or its words.")


FieldList = Annotated[list[FieldIn], Field(max_length=MOST_FIELDS)]


class ProjectIn(BaseModel):
    """A project to be made."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    slug: Annotated[str, Field(min_length=1, max_length=SLUG_CHARACTERS)] | None = Field(
        default=None, description="Its short name. Unset: made from the name.", examples=["invoices"]
    )
    description: Text = ""
    fields: FieldList = []
    watch_path: Annotated[str, Field(min_length=1, max_length=PATH_CHARACTERS)] | None = Field(
        default=None,
        description="A folder of the server's machine; what appears in it is taken in. Only read, ever.",
    )


class ProjectEdit(BaseModel):
    """What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    name: Name | None = None
    description: Text | None = None
    watch_path: Annotated[str, Field(max_length=PATH_CHARACTERS)] | None = Field(
        default=None, description="Empty: no folder is watched any more."
    )
    category_rules: list[CategoryRule] | None = Field(
        default=None, description="By which names of files their category is known; replaces all rules."
    )


class FieldsIn(BaseModel):
    """The whole catalog, in its order."""

    model_config = ConfigDict(extra="forbid")

    fields: FieldList


class FieldOut(BaseModel):
    """A field of the catalog."""

    name: str
    type: FieldType
    label: str
    description: str
    unit: str
    categories: list[str]


class ListedProject(BaseModel):
    """A project as the list shows it."""

    slug: str
    name: str
    description: str
    watch_path: str | None
    watched_at: datetime | None = Field(description="When its folder was last looked at.")
    watch_error: str | None = Field(description="Why the folder could not be looked at.")
    created_at: datetime
    counts: dict[FileState, int] = Field(description="Its files by state.")
    category_rules: list[CategoryRule]
    pending_proposals: int = Field(description="Values that wait for a person.")


class ProjectOut(ListedProject):
    """A project with its field catalog."""

    fields: list[FieldOut]


class ProjectsOut(BaseModel):
    """All of them, by name."""

    projects: list[ListedProject]


class ProposalOut(BaseModel):
    """A value that was found in a file, and what a person said to it."""

    id: int
    project: str
    file_id: int
    file: str = Field(description="The file's name.")
    field: str
    value: str = Field(description="A date as 2024-05-01, a number as 1234.5, a truth as true or false.")
    raw: str = Field(description="As it stands in the file.")
    quote: str = Field(description="The line that it stands in.")
    unit: str = Field(description="A currency as EUR, or what the field says.")
    confidence: float = Field(description="From 0 to 1.")
    page: int | None
    box: list[float] | None = Field(
        description="Where on the page: left, top, right, bottom, as shares of its width and height."
    )
    origin: str = Field(description="Who found it: rules, or a model; `person`: somebody entered it.")
    state: ProposalState
    edited_value: str | None = Field(description="What a person wrote instead.")
    decided_at: datetime | None
    created_at: datetime


class ProposalsOut(BaseModel):
    """A page of the list, oldest first."""

    proposals: list[ProposalOut]
    next: str | None = Field(description="The `after` of the next page; None: there is none.")


class ListedFile(BaseModel):
    """A file as the list shows it."""

    id: int
    project: str
    name: str
    category: str | None = Field(description="What it is, as far as that is known.", examples=["Invoice"])
    category_by: Literal["person", "rule", "guess"] | None
    source: Literal["upload", "watch"]
    state: FileState
    attempts: int
    started_at: datetime | None
    processed_at: datetime | None
    error: str | None
    sha256: str
    bytes: int
    mime_type: str | None
    kind: Literal["document", "image", "unsupported"] | None
    unsupported: str | None = Field(description="Why there was nothing to analyse.")
    unread: str | None = Field(
        description="Which pages were left out, if any.", examples=["Pages 501 to 640 were not read"]
    )
    summary: str | None
    twin_of: int | None = Field(description="The file with the same content that was there before.")
    outdated: bool = Field(
        description="It was analysed with another catalog, or by another extractor, than are set now."
    )
    extractor: str = Field(description="Who looked for the fields: rules, or a model.")
    thumbnail: bool = Field(description="Whether there is a small picture of it.")
    duration_ms: int | None
    job_id: int | None
    created_at: datetime
    counts: dict[ProposalState, int] = Field(description="Its proposals by state.")


class FilesOut(BaseModel):
    """A page of the list, newest first."""

    files: list[ListedFile]
    next: str | None = Field(description="The `after` of the next page; None: there is none.")


class PageOut(BaseModel):
    """A page of a file; `image` is there if it was rendered."""

    number: int
    label: str
    width: int | None = None
    height: int | None = None
    image: str | None = None


class FindingOut(BaseModel):
    """A label with its value that fits no field."""

    id: int
    label: str = Field(examples=["Customer number"])
    type: FieldType
    value: str
    raw: str
    unit: str
    confidence: float
    page: int | None
    box: list[float] | None
    quote: str


class FindingIn(BaseModel):
    """Which field it is."""

    model_config = ConfigDict(extra="forbid")

    field: str | None = Field(
        default=None, description="A field of the project. Unset: a new one of its label."
    )


class FileOut(ListedFile):
    """A file with all there is to know of it."""

    priority: PriorityName | None = Field(description="How soon its job is claimed.")
    text: str | None
    pages: list[PageOut]
    models: list[str]
    tags: list[Any]
    facts: dict[str, Any]
    proposals: list[ProposalOut]
    unmapped: list[FindingOut] = Field(description="What was found and fits no field.")


class ReprocessIn(BaseModel):
    """Whether what is finished and up to date is analysed again, too."""

    model_config = ConfigDict(extra="forbid")

    force: bool = False


class ReprocessOut(BaseModel):
    """What became of it."""

    file: FileOut
    done: bool = Field(description="False: nothing had to be done.")
    why: str


class ReprocessedOut(BaseModel):
    """How many files there are, and how many of them are analysed again."""

    files: int
    started: int


class AcceptIn(BaseModel):
    """A value to take instead of the proposed one."""

    model_config = ConfigDict(extra="forbid")

    value: Annotated[str, Field(max_length=VALUE_CHARACTERS)] | None = None


class FieldValueIn(BaseModel):
    """What a person knows of a file."""

    model_config = ConfigDict(extra="forbid")

    field: str = Field(min_length=1, max_length=60, description="Its key.", examples=["invoice_number"])
    value: Annotated[str, Field(min_length=1, max_length=VALUE_CHARACTERS, examples=["2024-0815"])]


class AcceptAllIn(BaseModel):
    """Which of those that wait are accepted."""

    model_config = ConfigDict(extra="forbid")

    minimum_confidence: float = Field(ge=0, le=1, examples=[0.9])
    file_id: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = Field(
        default=None, description="Only those of this file."
    )


class AcceptedProposalsOut(BaseModel):
    """How many were accepted."""

    accepted: int
