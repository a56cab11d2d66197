"""`mediamill search`: everything that became text or a vector, by words, meaning and look."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.session import opened
from mediamill.cli.terminal import clean, one_line, print_json, print_table, warn
from mediamill.cli.video_screen import length
from mediamill.errors import InvalidError

if TYPE_CHECKING:
    from rich.text import Text

    from mediamill.api.search import Seen
    from mediamill.app import App
    from mediamill.settings import Settings

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
    asked = {
        "q": words,
        "mode": mode.value,
        "like": like,
        "library": library,
        "type": [each.value for each in type_ or ()],
        "since": read_day(since),
        "until": read_day(until, end=True),
        "model": model,
        "amount": amount,
        "after": after,
    }
    told = asyncio.run(_find(asked))
    if json:
        print_json(told)
        return
    print_table(COLUMNS, [hit_row(hit) for hit in told["hits"]], "nothing is found; try fewer or other words")
    for way in ("meaning", "look"):
        if told[way].startswith("not available"):
            warn(f"by {way}: {told[way]}", style="dim")
    if told["next"] is not None:
        warn(f"there may be more: add --after {told['next']}", style="dim")


async def _find(asked: dict[str, Any]) -> dict[str, Any]:
    """By the server, which has its models at hand; here if none runs."""
    from mediamill.settings import Settings

    settings = Settings()
    told = await _ask_server(settings, asked)
    if told is not None:
        return told
    async with opened(settings) as app:
        return await _search_here(app, asked)


async def find_with(app: App, asked: dict[str, Any]) -> dict[str, Any]:
    """The same for whoever has the app open already."""
    told = await _ask_server(app.settings, asked)
    return told if told is not None else await _search_here(app, asked)


async def _ask_server(settings: Settings, asked: dict[str, Any]) -> dict[str, Any] | None:
    """None: no server runs there, it does not let us in, or it is one of another data folder."""
    from mediamill.cli.server_client import NoServerError, ServerSaidError, connected

    if settings.port == 0:
        return None
    async with connected(settings) as server:
        try:
            health = await server.ask("GET", "/api/health")
        except (NoServerError, ServerSaidError):
            return None
        if not _is_of(health, settings):
            return None
        given = {name: value for name, value in asked.items() if value not in (None, "", [])}
        for name in ("since", "until"):
            if name in given:
                given[name] = given[name].isoformat()
        try:
            found: dict[str, Any] = await server.ask("GET", "/api/search", params=given)
        except NoServerError:  # it has gone meanwhile
            return None
        return found


def _is_of(health: Any, settings: Settings) -> bool:
    """Whether a server that tells this has the same data folder."""
    match health:
        case {"storage": {"folder": str(folder)}}:
            return folder == str(settings.data_folder)
    return False


async def _search_here(app: App, asked: dict[str, Any]) -> dict[str, Any]:
    from mediamill.api.search import words_of
    from mediamill.search.find import search
    from mediamill.search.model import Wanted, read_like

    likeness = read_like(asked["like"]) if asked["like"] else None
    seen = await _see(app, asked["q"], asked["mode"])
    wanted = Wanted(
        words=words_of(asked["q"], asked["mode"], seen),
        meaning=seen.meaning,
        look=seen.look,
        like=likeness,
        types=tuple(asked["type"]),
        sources=tuple(asked.get("source", ())),
        **{name: asked[name] for name in ("library", "since", "until", "model", "amount", "after")},
    )
    async with app.database.connection() as connection:
        found = await search(connection, wanted)
    return {**found.to_json(), "meaning": seen.meaning_word, "look": seen.look_word}


async def _see(app: App, words: str, mode: str) -> Seen:
    """By meaning and by look takes models, which take a moment to begin with."""
    from mediamill.api.search import Seen, see_query
    from mediamill.db.pgvector import vector_support

    if mode == "words" or not words.strip():
        return Seen()
    from mediamill.worker.query_vectors import QueryVectors

    async with app.database.connection() as connection:
        support = await vector_support(connection)
    vectors = QueryVectors(app.settings.data_folder)
    await vectors.start()
    try:
        return await see_query(vectors, support, app.settings, words.strip(), mode)
    finally:
        await vectors.close()


def read_day(text: str | None, *, end: bool = False) -> datetime | None:
    """A day or a time, of this machine's zone if it names none; as an end, a day is over when the next begins."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if end and len(text) <= len("2024-05-31"):
            moment += timedelta(days=1)
        return moment.astimezone() if moment.tzinfo is None else moment
    except (ValueError, OverflowError):
        raise InvalidError(f"{text!r} is no day or time", fix="write it like 2024-05-31") from None


def _day_of(moment: str) -> datetime:
    """Of an asset it is the local time already, which has no zone."""
    happened = datetime.fromisoformat(moment)
    return happened.astimezone() if happened.tzinfo else happened


def hit_row(hit: dict[str, Any]) -> list[Any]:
    """One thing that was found, as a row."""
    from mediamill.staging.file_names import shown

    best = hit["moments"][0] if hit["moments"] else None
    return [
        f"{hit['of']}:{hit['id']}" if hit["of"] == "asset" else hit["type"],
        one_line(hit["place"] if hit["source"] == "library" else hit["source"], 30),
        one_line(shown(hit["path"]) or hit["title"], 50),
        f"{_day_of(hit['happened_at']):%Y-%m-%d}",
        "" if best is None else length(best["at_seconds"]),
        ", ".join(hit["why"]),
        snippet_text((best and best["snippet"]) or hit["snippet"]),
    ]


def snippet_text(pieces: Any) -> Text:
    """What was searched for stands out."""
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ellipsis")
    for piece in pieces:
        said = " ".join(clean(piece["text"]).splitlines())
        text.append(said, style="bold" if piece["marked"] else "")
    return text
