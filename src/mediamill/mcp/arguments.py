"""What each tool can be asked for. Types, limits and descriptions are the JSON schemas that clients see."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from mediamill.search.model import MOST_AFTER, MOST_CHARACTERS

MOST_HITS = 50
MOST_OFFSET = 100_000_000

Thing = Annotated[
    str,
    Meta(
        max_length=250,
        description="The `reference` of a hit of `search`.",
        examples=["asset:12", "video:my-film", "file:34"],
    ),
]
STRING = Meta(extra_json_schema={"type": "string"})  # many clients refuse an enumeration without a type
Type = Annotated[Literal["image", "video", "audio", "document", "text"], STRING]
Source = Annotated[Literal["library", "video", "message", "file"], STRING]
Short = Annotated[str, Meta(max_length=100)]
Page = Annotated[int, Meta(ge=1, le=100_000)]
Seconds = Annotated[float, Meta(ge=0, le=1e7)]
Offset = Annotated[
    int,
    Meta(ge=0, le=MOST_OFFSET, description="Where its text goes on: `next_offset` of the answer before."),
]
Day = Annotated[str, Meta(max_length=40, examples=["2024-05-31", "2024-05-31T12:00:00Z"])]


class Search(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `search`."""

    query: Annotated[
        str,
        Meta(
            max_length=MOST_CHARACTERS,
            description='Words, "phrases", or, -without. Without a query, the newest.',
            examples=["dog on a beach", '"total amount" -draft'],
        ),
    ] = ""
    types: Annotated[
        list[Type],
        Meta(max_length=5, description="Only these."),
    ] = []
    sources: Annotated[
        list[Source],
        Meta(max_length=4, description="Only of libraries, uploaded videos, chats, files of projects."),
    ] = []
    library: Annotated[
        Short | None, Meta(description="Only in this library, by its slug; list_libraries has them.")
    ] = None
    since: Annotated[Day | None, Meta(description="From this day or time on.")] = None
    until: Annotated[Day | None, Meta(description="Up to this day, or before a time.")] = None
    mode: Annotated[
        Literal["all", "words", "meaning", "look"],
        STRING,
        Meta(description="How it is searched; `look`: by what is to be seen."),
    ] = "all"
    like: Annotated[Short | None, Meta(description="More like this asset.", examples=["asset:12"])] = None
    amount: Annotated[int, Meta(ge=1, le=MOST_HITS, description="At most so many hits.")] = 10
    after: Annotated[int, Meta(ge=0, le=MOST_AFTER, description="The `next` of the page before.")] = 0


class Describe(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `describe`."""

    reference: Thing
    offset: Offset = 0


class Fetch(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `fetch`."""

    reference: Thing
    what: Annotated[
        Literal["image", "thumbnail", "text"],
        STRING,
        Meta(description="The picture, the small one, or all of the text as a resource."),
    ] = "image"
    page: Annotated[Page | None, Meta(description="Of a file of a project: the picture of this page.")] = None
    at_seconds: Annotated[
        Seconds | None, Meta(description="Of a video of a library: its scene at this moment.")
    ] = None


class Process(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `process`."""

    path: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4096,
            description="A file in the folder that was allowed: its path in there, or the whole path.",
            examples=["invoices/4711.pdf"],
        ),
    ]
    offset: Offset = 0


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """No arguments."""
