"""What is searched for, and what is found. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from mediamill.errors import InvalidError, NotFoundError

SOURCES = ("library", "video", "message", "file")
TYPES = ("image", "video", "audio", "document", "text")
MOST_CHARACTERS = 500
MOST_TERMS = 32
MOST_AMOUNT = 200
MOST_AFTER = 1000
_UNREADABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")

Way = Literal["words", "meaning", "look", "like", "newest"]


class BadSearchError(InvalidError):
    """That cannot be searched for."""

    code = "bad_search"


class UnknownPlaceError(NotFoundError):
    """There is no such library."""

    code = "unknown_library"


@dataclass(frozen=True, slots=True)
class QueryVector:
    """What is searched for, as a model sees it; `model` is its name."""

    model: str
    vector: Sequence[float]


@dataclass(frozen=True, slots=True)
class Like:
    """More like this one."""

    of: str
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A search. Everything that is given must hold; without words, vectors or a likeness, the newest are listed.

    `older`: by models that were used before, while some of what can be found has no vectors but theirs.
    """

    words: str = ""
    meaning: QueryVector | None = None
    look: QueryVector | None = None
    older: tuple[tuple[Way, QueryVector], ...] = ()
    like: Like | None = None
    library: str | None = None
    types: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    model: str | None = None
    amount: int = 30
    after: int = 0

    def __post_init__(self) -> None:
        """Strangers ask: what cannot be asked is refused here, and nowhere later."""
        object.__setattr__(self, "words", clean_words(self.words))
        for name, given, known in (("type", self.types, TYPES), ("source", self.sources, SOURCES)):
            for one in given:
                if one not in known:
                    raise BadSearchError(
                        f"there is no {name} {one[:50]!r}", fix=f"there are {', '.join(known)}"
                    )
        if not 1 <= self.amount <= MOST_AMOUNT:
            raise BadSearchError(f"between 1 and {MOST_AMOUNT} results can be asked for at once")
        if not 0 <= self.after <= MOST_AFTER:
            raise BadSearchError(
                f"the first {MOST_AFTER} results can be looked at", fix="ask for something narrower"
            )
        for moment in (self.since, self.until):
            if moment is not None and moment.tzinfo is None:
                raise BadSearchError("a time needs a time zone")

    @property
    def is_open(self) -> bool:
        """Nothing to look for: only filters."""
        return not self.words and self.meaning is None and self.look is None and self.like is None


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of a text; `marked`: it is what was searched for. A stranger's text: whoever shows it escapes it."""

    text: str
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """A place in a video: a scene, a frame, or a passage of what is said. `file`: its picture."""

    of: str
    id: int
    at_seconds: float
    end_seconds: float | None = None
    file: str | None = None
    why: tuple[str, ...] = ()
    snippet: tuple[Piece, ...] = ()
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing that was found, with its best moments first. `place`: the library, or whatever an entry is about.

    `happened_at`: of an asset the local time where it was taken, without an offset.
    """

    of: str
    id: int
    source: str
    type: str
    title: str
    place: str
    path: str
    url: str
    happened_at: datetime
    score: float
    why: tuple[str, ...]
    snippet: tuple[Piece, ...]
    width: int | None = None
    height: int | None = None
    duration_seconds: float | None = None
    output: str | None = None
    tags: list[dict[str, Any]] = field(default_factory=list)
    facts: Mapping[str, Any] = field(default_factory=dict)
    moments: tuple[Moment, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """`next`: where the next page begins, if there is one. `ways`: the lists that took part."""

    hits: list[Hit]
    next: int | None
    ways: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        told = asdict(self)
        for hit in told["hits"]:
            hit["happened_at"] = hit["happened_at"].isoformat()
        return told


def read_like(text: str) -> Like:
    """`asset:12`, `scene:34`, `frame:5`, `entry:6`."""
    found = re.fullmatch(r"(asset|scene|frame|entry):([0-9]{1,18})", text, re.ASCII)
    if found is None:
        raise BadSearchError(
            f"{text[:50]!r} is nothing that could be alike", fix="for example asset:12 or scene:34"
        )
    return Like(found[1], int(found[2]))


def clean_words(words: str) -> str:
    """What the database can read; too much is refused."""
    plain = _UNREADABLE.sub(" ", words).strip()
    if len(plain) > MOST_CHARACTERS:
        raise BadSearchError(f"a search has at most {MOST_CHARACTERS} characters, not {len(plain)}")
    if len(plain.split()) > MOST_TERMS:
        raise BadSearchError(f"a search has at most {MOST_TERMS} words, not {len(plain.split())}")
    return plain


def split_marks(text: str, begin: str, end: str) -> tuple[Piece, ...]:
    """From a text with marks to its pieces; a mark that is not closed goes to the end."""
    pieces = []
    for number, part in enumerate(text.split(begin)):
        marked, closed, rest = part.partition(end) if number else ("", "", part)
        if number and not closed:
            marked, rest = part, ""
        pieces += [Piece(marked, True)] if marked else []
        pieces += [Piece(rest)] if rest else []
    return tuple(pieces)
