"""Search over everything that became text or a vector: libraries, videos and what is said in them, chats, files."""

from __future__ import annotations

import base64
import binascii
import logging
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal, Protocol

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from mediamill.api.deps import Wired
from mediamill.db.pgvector import VectorSupport, vector_support
from mediamill.errors import MediamillError
from mediamill.libraries.model import SLUG_CHARACTERS
from mediamill.processors.models.names import look_name, text_name
from mediamill.search.embedders import older_models
from mediamill.search.find import search
from mediamill.search.model import (
    MOST_AFTER,
    MOST_AMOUNT,
    MOST_CHARACTERS,
    QueryVector,
    Wanted,
    Way,
    read_like,
)
from mediamill.settings import Settings

log = logging.getLogger(__name__)

router = APIRouter(prefix="/api/search", tags=["search"])

Type = Literal["image", "video", "audio", "document", "text"]
Source = Literal["library", "video", "message", "file"]
Mode = Literal["all", "words", "meaning", "look"]
USED, NOT_ASKED = "used", "not asked for"
NO_MODELS = "this server has no models"


class QueryVectors(Protocol):
    """Whoever turns what is searched for into vectors: base64 of 16 bit floats."""

    async def text(self, query: str, model: str | None = None) -> str:
        """By the model of texts, or by one that was used before."""

    async def look(self, query: str, model: str | None = None) -> str:
        """By the model of images, likewise."""


class Piece(BaseModel):
    """Some of a text; `marked`: it is what was searched for."""

    text: str
    marked: bool


class Moment(BaseModel):
    """A place in a video."""

    of: Literal["scene", "frame", "entry"]
    id: int
    at_seconds: float
    end_seconds: float | None
    file: str | None = Field(description="Its picture, among the files of the asset's `output`.")
    why: list[str]
    snippet: list[Piece]
    score: float


class Hit(BaseModel):
    """One thing that was found, with its best moments first."""

    of: Literal["asset", "entry"]
    id: int
    source: Source
    type: str
    title: str
    place: str = Field(description="The library, or what an entry is about.")
    path: str
    url: str = Field(description="The page to open, at its best moment.")
    happened_at: datetime
    score: float
    why: list[str] = Field(description="words, meaning, look, like.")
    snippet: list[Piece]
    width: int | None
    height: int | None
    duration_seconds: float | None
    output: str | None
    tags: list[dict[str, Any]]
    facts: dict[str, Any]
    moments: list[Moment]


class FoundOut(BaseModel):
    """What was found, the best first."""

    hits: list[Hit]
    next: int | None = Field(description="The `after` of the next page; None: there is none.")
    ways: list[str] = Field(description="The ways of searching that took part.")
    meaning: str = Field(description="`used`, `not asked for`, or why it could not be searched by meaning.")
    look: str = Field(description="The same, by look.")


@dataclass(frozen=True, slots=True)
class Seen:
    """What is searched for as vectors, and what became of each."""

    meaning: QueryVector | None = None
    look: QueryVector | None = None
    meaning_word: str = NOT_ASKED
    look_word: str = NOT_ASKED
    older: tuple[tuple[Way, QueryVector], ...] = ()


@router.get("", response_model=FoundOut)
async def find(
    request: Request,
    deps: Wired,
    q: Annotated[str, Query(max_length=MOST_CHARACTERS, description='Words, "phrases", or, -without.')] = "",
    library: Annotated[str | None, Query(max_length=SLUG_CHARACTERS)] = None,
    type: Annotated[list[Type] | None, Query(max_length=5)] = None,
    source: Annotated[list[Source] | None, Query(max_length=4)] = None,
    since: datetime | None = None,
    until: Annotated[datetime | None, Query(description="Not itself.")] = None,
    model: Annotated[str | None, Query(max_length=500, description="Only what this tagger tagged.")] = None,
    like: Annotated[str | None, Query(max_length=50, examples=["asset:12"])] = None,
    mode: Annotated[Mode, Query(description="How it is searched.")] = "all",
    amount: Annotated[int, Query(ge=1, le=MOST_AMOUNT)] = 30,
    after: Annotated[int, Query(ge=0, le=MOST_AFTER)] = 0,
) -> dict[str, Any]:
    """Words, meaning and look in one ranking; without anything to look for, the newest."""
    likeness = read_like(like) if like else None
    async with deps.database.connection() as connection:
        older = await older_models(connection) if q.strip() and mode != "words" else ()
        support = await vector_support(connection)
    vectors = request.app.state.query_vectors
    seen = await see_query(vectors, support, deps.settings, q.strip(), mode, older)
    wanted = Wanted(
        words=words_of(q, mode, seen),
        meaning=seen.meaning,
        look=seen.look,
        older=seen.older,
        like=likeness,
        library=library or None,
        types=tuple(type or ()),
        sources=tuple(source or ()),
        since=_aware(since),
        until=_aware(until),
        model=model or None,
        amount=amount,
        after=after,
    )
    async with deps.database.connection() as connection:
        found = await search(connection, wanted)
    return {**found.to_json(), "meaning": seen.meaning_word, "look": seen.look_word}


async def see_query(
    vectors: QueryVectors | None,
    support: VectorSupport,
    settings: Settings,
    words: str,
    mode: str,
    older: Sequence[tuple[Way, str]] = (),
) -> Seen:
    """As far as it can be: words alone will do. `older`: models that were used before, as far as they still can be."""
    if not words or mode == "words":
        return Seen()
    if not support.is_ready:
        vectors = None
    lack = NO_MODELS if support.is_ready else support.message
    meaning, look = None, None
    meaning_word, look_word = NOT_ASKED, NOT_ASKED
    if mode in ("all", "meaning"):
        meaning, meaning_word = await _vector(
            vectors.text if vectors else None, text_name(settings).name, words, lack
        )
    if mode in ("all", "look"):
        look, look_word = await _vector(
            vectors.look if vectors else None, look_name(settings).name, words, lack
        )
    before = []
    for way, model in older:
        if vectors is not None and mode in ("all", way):
            see = partial(vectors.text if way == "meaning" else vectors.look, model=model)
            vector, _ = await _vector(see, model, words)
            before += [(way, vector)] if vector is not None else []
    return Seen(meaning, look, meaning_word, look_word, tuple(before))


def words_of(words: str, mode: str, seen: Seen) -> str:
    """By words, too: if asked for, or if there is no other way."""
    return words if mode in ("all", "words") or (seen.meaning is None and seen.look is None) else ""


async def _vector(
    see: Callable[[str], Awaitable[str]] | None, model: str, words: str, lack: str = NO_MODELS
) -> tuple[QueryVector | None, str]:
    if see is None:
        return None, f"not available: {lack}"
    try:
        return QueryVector(model, read_vector(await see(words))), USED
    except MediamillError as error:
        return None, f"not available: {error.message}"
    except Exception as error:
        log.warning("a search could not be turned into a vector: %s", error)
        return None, "not available: the model failed"


def read_vector(packed: str) -> list[float]:
    """16 bit floats in base64."""
    try:
        raw = base64.b64decode(packed, validate=True)
        return list(struct.unpack(f"<{len(raw) // 2}e", raw))
    except (binascii.Error, struct.error) as error:
        raise ValueError("that is no vector") from error


def _aware(moment: datetime | None) -> datetime | None:
    """A time without a zone is one of UTC."""
    return moment if moment is None or moment.tzinfo is not None else moment.replace(tzinfo=UTC)
