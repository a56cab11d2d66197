"""The page of search: what words find is there at once; what meaning and look find comes when a model has seen it."""

from __future__ import annotations

import base64
import logging
import struct
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse

from mediamill.db.connection import Connection, Database
from mediamill.db.pgvector import vector_support
from mediamill.errors import MediamillError, NotFoundError
from mediamill.intake.look import with_thumbnail
from mediamill.intake.model import id_of
from mediamill.libraries.browse import list_names
from mediamill.processors.models.names import look_name, text_name
from mediamill.search.embedders import older_models
from mediamill.search.find import search
from mediamill.search.model import MOST_AFTER, SOURCES, Found, Hit, QueryVector, Wanted, Way, read_like
from mediamill.settings import Settings
from mediamill.ui.rendering import Renderer, status_of
from mediamill.videos.look import show_video

log = logging.getLogger(__name__)

PAGE_HITS, STRIP_HITS = 30, 12
TYPES = ("image", "video", "audio", "document")
NOTHING = Found([], None, ())
Text = Annotated[str, Query(max_length=2000)]
Short = Annotated[str, Query(max_length=100)]
After = Annotated[int, Query(ge=0, le=MOST_AFTER)]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the reader typed and chose, as it was."""

    q: str = ""
    library: str = ""
    type: str = ""
    source: str = ""
    since: str = ""
    until: str = ""
    like: str = ""
    after: int = 0

    def query(self, **more: Any) -> str:
        """As the end of an address."""
        given = {name: getattr(self, name) for name in self.__slots__}
        return urlencode({name: value for name, value in {**given, **more}.items() if value})

    @property
    def narrows(self) -> bool:
        """Whether a filter may leave something out."""
        return bool(self.library or self.type or self.source or self.since or self.until)

    def wanted(self, amount: int) -> Wanted:
        """As the search understands it; what makes no sense is refused."""
        until = _day(self.until)
        return Wanted(
            words=self.q,
            like=read_like(self.like) if self.like else None,
            library=self.library or None,
            types=(self.type,) if self.type in TYPES else (),
            sources=(self.source,) if self.source in SOURCES else (),
            since=_day(self.since),
            until=until + timedelta(days=1) if until else None,
            amount=amount,
            after=self.after,
        )


def add_search_page(router: APIRouter, renderer: Renderer, database: Database, settings: Settings) -> None:
    """Its route."""
    router.get("/search")(_SearchPage(renderer, database, settings).show)


class _SearchPage:
    def __init__(self, renderer: Renderer, database: Database, settings: Settings) -> None:
        self._renderer, self._database, self._settings = renderer, database, settings

    async def show(
        self,
        request: Request,
        q: Text = "",
        library: Short = "",
        type: Short = "",
        source: Short = "",
        since: Short = "",
        until: Short = "",
        like: Short = "",
        after: After = 0,
        deep: bool = False,
        part: str | None = None,
    ) -> HTMLResponse:
        """Words alone, or with `deep` meaning and look too; `part`: only what was found, or a `strip` of it."""
        asked = Asked(q.strip(), library, type, source, since, until, like, after)
        vectors = getattr(request.app.state, "query_vectors", None)
        found, fault, status_code, pictures = NOTHING, None, 200, dict[str, str]()
        async with self._database.connection() as connection:
            support = await vector_support(connection)
        if not support.is_ready:
            vectors = None
        try:
            wanted = asked.wanted(STRIP_HITS if part == "strip" else PAGE_HITS)
            if deep and asked.q:
                wanted = await self._seen(wanted, vectors)
            async with self._database.connection() as connection:
                found = await search(connection, wanted)
                pictures = await _pictures(connection, found)
        except MediamillError as error:
            fault, status_code = error.message, status_of(error)
        return await self._answer(
            part,
            status_code,
            asked=asked,
            hits=[_shown(hit, pictures) for hit in found.hits],
            next=found.next,
            ways=found.ways,
            fault=fault,
            words_only=None if support.is_ready else support,
            more_to_come=bool(vectors is not None and asked.q and not deep and fault is None),
        )

    async def _seen(self, wanted: Wanted, vectors: Any) -> Wanted:
        """With what models see in the words; one that cannot be asked is left out."""
        return replace(
            wanted,
            meaning=await _vector(vectors and vectors.text, text_name(self._settings).name, wanted.words),
            look=await _vector(vectors and vectors.look, look_name(self._settings).name, wanted.words),
            older=await self._older(wanted.words, vectors),
        )

    async def _older(self, words: str, vectors: Any) -> tuple[tuple[Way, QueryVector], ...]:
        """By models that were used before, while some of what can be found has no vectors but theirs."""
        if vectors is None:
            return ()
        async with self._database.connection() as connection:
            models = await older_models(connection)
        asked = [
            (
                way,
                await _vector(
                    partial(vectors.text if way == "meaning" else vectors.look, model=name), name, words
                ),
            )
            for way, name in models
        ]
        return tuple((way, vector) for way, vector in asked if vector is not None)

    async def _answer(
        self, part: str | None, status_code: int, *, asked: Asked, **given: Any
    ) -> HTMLResponse:
        template = {None: "search/all.html", "strip": "search/strip.html"}.get(part, "search/found.html")
        libraries: list[dict[str, Any]] = []
        if part is None:
            async with self._database.connection() as connection:
                libraries = await list_names(connection)
        code = 200 if part else status_code  # htmx shows nothing of an error
        answer = self._renderer.page(
            template, code, part=part, asked=asked, libraries=libraries, types=TYPES, **given
        )
        if part == "words":
            answer.headers["HX-Replace-Url"] = f"/search?{asked.query()}".rstrip("?")
        return answer


async def _pictures(connection: Connection, found: Found) -> dict[str, str]:
    """Of videos and project files that were found, by what they are about; those of libraries have theirs with them."""
    pictures = {}
    for place in {hit.place for hit in found.hits if hit.source == "video"}:
        try:
            video = await show_video(connection, place)
        except NotFoundError:
            continue
        if video["output"]:
            pictures[place] = f"/api/videos/{video['id']}/files/{video['output']}/thumbnail.jpg"
    files = {id_of(hit.place.partition("/")[2]): hit.place for hit in found.hits if hit.source == "file"}
    for file_id in await with_thumbnail(connection, list(files)):
        pictures[files[file_id]] = f"/api/files/{file_id}/thumbnail"
    return pictures


async def _vector(see: Any, model: str, words: str) -> QueryVector | None:
    if see is None:
        return None
    try:
        raw = base64.b64decode(await see(words), validate=True)
        return QueryVector(model, struct.unpack(f"<{len(raw) // 2}e", raw))
    except Exception as error:  # words alone will do
        log.warning("a search could not be turned into a vector: %s", error)
        return None


def _shown(hit: Hit, pictures: dict[str, str]) -> dict[str, Any]:
    """A hit with its addresses: only ours are followed, whatever an entry says."""
    url = hit.url if hit.url.startswith("/") and not hit.url.startswith("//") else ""
    page = url.partition("?")[0]
    files = f"/api/assets/{hit.id}/files/{hit.output}" if hit.of == "asset" and hit.output else ""
    moments = [
        {
            "at": moment.at_seconds,
            "url": f"{page}?t={moment.at_seconds:.2f}",
            "picture": f"{files}/{moment.file}" if files and moment.file else "",
            "snippet": moment.snippet,
        }
        for moment in hit.moments
    ]
    return {
        "hit": hit,
        "url": url,
        "files": files,
        "moments": moments,
        "picture": _picture(files, moments) or pictures.get(hit.place, ""),
    }


def _picture(files: str, moments: list[dict[str, Any]]) -> str:
    if moments and moments[0]["picture"]:
        return str(moments[0]["picture"])
    return f"{files}/thumbnail.jpg" if files else ""


def _day(text: str) -> datetime | None:
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    except ValueError:
        return None
