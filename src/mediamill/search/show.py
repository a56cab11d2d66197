"""The hits of one page, with all that a reader sees of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.search.entries import spoken_at
from mediamill.search.fuse import Fused, best_moments
from mediamill.search.model import Hit, Moment, Piece, split_marks
from mediamill.search.store import queries

BEGIN, END = "\x02", "\x03"  # as the SQL function headline sets them
Rows = Mapping[tuple[str, int], Record]


async def show_page(connection: Connection, page: Sequence[Fused], query: str | None) -> list[Hit]:
    """In the same order; what was deleted in this moment is left out."""
    wanted: dict[str, set[int]] = {"asset": set(), "scene": set(), "frame": set(), "entry": set()}
    for fused in page:
        if fused.subject[0] == "asset":
            wanted["asset"].add(int(fused.subject[1]))
        for row, _, _ in best_moments(fused):
            wanted[row.of].add(row.id)
    rows: dict[tuple[str, int], Record] = {}
    for of, statement in (
        ("asset", queries.show_assets),
        ("scene", queries.show_scenes),
        ("frame", queries.show_frames),
        ("entry", queries.show_entries),
    ):
        if wanted[of]:
            found = await statement.rows(connection, ids=list(wanted[of]), query=query)
            rows |= {(of, row["id"]): row for row in found}
    hits = (_show_asset(one, rows) if one.subject[0] == "asset" else _show_entry(one, rows) for one in page)
    return [hit for hit in hits if hit is not None]


def _show_asset(fused: Fused, rows: Rows) -> Hit | None:
    asset = rows.get(("asset", int(fused.subject[1])))
    if asset is None:
        return None
    moments = _moments(fused, rows)
    at = f"?t={moments[0].at_seconds:g}" if moments else ""
    own = split_marks(asset["snippet"], BEGIN, END)
    said = _best_said([*(moment.snippet for moment in moments[:1]), own])
    return Hit(
        of="asset",
        id=asset["id"],
        source="library",
        type=asset["type"],
        title=readable(PurePosixPath(asset["rel_path"]).name),
        place=asset["slug"],
        path=asset["rel_path"],
        url=f"/assets/{asset['id']}{at}",
        happened_at=asset["shown_at"],
        score=fused.score,
        why=tuple(fused.why),
        snippet=said,
        width=asset["width"],
        height=asset["height"],
        duration_seconds=asset["duration_seconds"],
        output=asset["output"],
        tags=json.loads(asset["tags"] or "[]"),
        moments=moments,
    )


def _show_entry(fused: Fused, rows: Rows) -> Hit | None:
    entry = next((rows[row.of, row.id] for row, _, _ in fused.rows if (row.of, row.id) in rows), None)
    if entry is None:
        return None
    facts: dict[str, Any] = json.loads(entry["facts"])
    url, at = entry["url"] or "", _word_at(entry)
    if facts.pop("times", None):
        url = f"{url.partition('?')[0]}?t={at:g}"
    return Hit(
        of="entry",
        id=entry["id"],
        source=entry["source"],
        type=str(facts.get("type") or "text"),
        title=entry["title"],
        place=entry["subject"],
        path="",
        url=url,
        happened_at=entry["happened_at"],
        score=fused.score,
        why=tuple(fused.why),
        snippet=split_marks(entry["snippet"], BEGIN, END),
        facts=facts,
        moments=_moments(fused, rows),
    )


def _best_said(snippets: Sequence[tuple[Piece, ...]]) -> tuple[Piece, ...]:
    """The first that has a word of the search; else the first that says anything."""
    marked = (snippet for snippet in snippets if any(piece.marked for piece in snippet))
    return next(marked, next((snippet for snippet in snippets if snippet), ()))


def _moments(fused: Fused, rows: Rows) -> tuple[Moment, ...]:
    found = []
    for row, score, why in best_moments(fused):
        shown = rows.get((row.of, row.id))
        at = None if shown is None else _word_at(shown) if row.of == "entry" else shown["at_seconds"]
        if shown is not None and at is not None:
            path = None if row.of == "entry" else PurePosixPath(shown["path"]).name
            end = shown["end_seconds"] if row.of == "scene" else None
            snippet = split_marks(shown["snippet"], BEGIN, END)
            found.append(Moment(row.of, row.id, float(at), end, path, why, snippet, score))
    return tuple(found)


def _word_at(entry: Record) -> float | None:
    """When the word that was searched for is said; of what has no such times, when it begins."""
    times, place = json.loads(entry["facts"]).get("times"), entry["found_at"]
    if not times or place is None or place < 0:
        return None if entry["starts_at"] is None else float(entry["starts_at"])
    return spoken_at(times, place)


def readable(name: str) -> str:
    """A file's name for people: what cannot be shown (line ends, bytes that are no text) is a sign for that."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in name)
