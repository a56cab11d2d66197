"""`mediamill search`: everything that became text or a vector, by words, meaning and look."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import clean, one_line, print_json, print_table, warn
from mediamill.cli.video_screen import length
from mediamill.errors import InvalidError

if TYPE_CHECKING:
    from rich.text import Text

    from mediamill.api.search import Seen
    from mediamill.app import App
    from mediamill.search.model import Found, Hit

EXAMPLES = examples(
    'mediamill search "dog on a beach"',
    'mediamill search "lighthouse -night" --library photos --type image --since 2023-01-01',
    "mediamill search --like asset:12",
    'mediamill search "a red car" --mode look --json',
)
COLUMNS = ("what", "where", "~name", "when", "at", "why", "~about")


class Mode(StrEnum):
    """How it is searched."""

    ALL = "all"
    WORDS = "words"
    MEANING = "meaning"
    LOOK = "look"


class Type(StrEnum):
    """What can be found."""

    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"
    DOCUMENT = "document"
    TEXT = "text"


def search(
    words: Annotated[
        str, typer.Argument(metavar="WORDS", help='Words, "phrases", or, -without.', show_default=False)
    ] = "",
    library: Annotated[str | None, typer.Option(metavar="SLUG", help="Only in this library.")] = None,
    type_: Annotated[list[Type] | None, typer.Option("--type", help="Only these; can be repeated.")] = None,
    since: Annotated[str | None, typer.Option(metavar="DATE", help="From this day or time on.")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="Up to this day, or before a time.")
    ] = None,
    mode: Annotated[Mode, typer.Option(help="By words, by meaning, by look, or by all of them.")] = Mode.ALL,
    like: Annotated[str | None, typer.Option(metavar="asset:ID", help="More like this.")] = None,
    model: Annotated[str | None, typer.Option(help="Only what this tagger tagged.")] = None,
    amount: Annotated[int, typer.Option(min=1, max=200, help="Show at most so many.")] = 20,
    after: Annotated[int, typer.Option(min=0, max=1000, help="Leave out so many: to page on.")] = 0,
    json: Json = False,
) -> None:
    """Find images, scenes of videos, what is said in them, chats and files: the best first."""
    wanted = {
        "library": library,
        "types": tuple(each.value for each in type_ or ()),
        "since": read_day(since),
        "until": read_day(until, end=True),
        "model": model,
        "amount": amount,
        "after": after,
    }

    async def story(app: App) -> tuple[Found, Seen]:
        return await _search(app, words, mode.value, like, wanted)

    found, seen = run(story)
    if json:
        print_json({**found.to_json(), "meaning": seen.meaning_word, "look": seen.look_word})
        return
    print_table(COLUMNS, [hit_row(hit) for hit in found.hits], "nothing is found; try fewer or other words")
    for way, word in (("meaning", seen.meaning_word), ("look", seen.look_word)):
        if word.startswith("not available"):
            warn(f"by {way}: {word}", style="dim")
    if found.next is not None:
        warn(f"there may be more: add --after {found.next}", style="dim")


async def _search(
    app: App, words: str, mode: str, like: str | None, wanted: dict[str, Any]
) -> tuple[Found, Seen]:
    from mediamill.api.search import words_of
    from mediamill.search.find import search
    from mediamill.search.model import Wanted, read_like

    likeness = read_like(like) if like else None
    seen = await _see(app, words, mode)
    asked = Wanted(
        words=words_of(words, mode, seen), meaning=seen.meaning, look=seen.look, like=likeness, **wanted
    )
    async with app.database.connection() as connection:
        return await search(connection, asked), seen


async def _see(app: App, words: str, mode: str) -> Seen:
    """By meaning and by look takes models, which take a moment to begin with."""
    from mediamill.api.search import Seen, see_query

    if mode == "words" or not words.strip():
        return Seen()
    from mediamill.worker.query_vectors import QueryVectors

    vectors = QueryVectors(app.settings.data_folder)
    await vectors.start()
    try:
        return await see_query(vectors, app.settings, words.strip(), mode)
    finally:
        await vectors.close()


def read_day(text: str | None, *, end: bool = False) -> datetime | None:
    """A day or a time, of this machine's zone if it names none; as an end, a day is over when the next begins."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidError(f"{text!r} is no day or time", fix="write it like 2024-05-31") from None
    if end and len(text) <= len("2024-05-31"):
        moment += timedelta(days=1)
    return moment.astimezone() if moment.tzinfo is None else moment


def hit_row(hit: Hit) -> list[Any]:
    """One thing that was found, as a row."""
    from mediamill.staging.file_names import shown

    best = hit.moments[0] if hit.moments else None
    return [
        f"{hit.of}:{hit.id}" if hit.of == "asset" else hit.type,
        one_line(hit.place if hit.source == "library" else hit.source, 30),
        one_line(shown(hit.path) or hit.title, 50),
        f"{hit.happened_at.astimezone():%Y-%m-%d}",
        "" if best is None else length(best.at_seconds),
        ", ".join(hit.why),
        snippet_text((best and best.snippet) or hit.snippet),
    ]


def snippet_text(pieces: Any) -> Text:
    """What was searched for stands out."""
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ellipsis")
    for piece in pieces:
        text.append(" ".join(clean(piece.text).splitlines()), style="bold" if piece.marked else "")
    return text
