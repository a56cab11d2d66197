"""The tool `search`: hits that are short enough for an agent, each with the reference that the other tools take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mediamill.mcp.arguments import Search
from mediamill.mcp.mill import Mill
from mediamill.mcp.references import reference_of
from mediamill.mcp.tools import Content, tell

MOST_MOMENTS, MOST_TAGS = 3, 10
SNIPPET_CHARACTERS, TITLE_CHARACTERS = 400, 300


async def find(mill: Mill, asked: Search) -> Content:
    """The best first."""
    told = await mill.find(
        {
            "q": asked.query,
            "mode": asked.mode,
            "like": asked.like,
            "library": asked.library,
            "type": list(asked.types),
            "source": list(asked.sources),
            "since": asked.since,
            "until": asked.until,
            "model": None,
            "amount": asked.amount,
            "after": asked.after,
        }
    )
    hits = [_plain(mill, hit) for hit in told["hits"]]
    return tell({"hits": hits, "next": told["next"], "meaning": told["meaning"], "look": told["look"]})


def _plain(mill: Mill, hit: Mapping[str, Any]) -> dict[str, Any]:
    """Without what says nothing."""
    of_library = hit["source"] == "library"
    told = {
        "reference": reference_of(hit),
        "title": hit["title"][:TITLE_CHARACTERS],
        "type": hit["type"],
        "source": hit["source"],
        "library": hit["place"] if of_library else None,
        "project": hit["facts"].get("project"),
        "page": hit["facts"].get("page"),
        "when": hit["happened_at"],
        "duration_seconds": hit["duration_seconds"],
        "url": mill.url + hit["url"] if hit["url"] else None,
        "why": hit["why"],
        "snippet": _said(hit["snippet"]),
        "tags": [tag.get("label") for tag in hit["tags"][:MOST_TAGS]],
        "moments": [_moment(moment) for moment in hit["moments"][:MOST_MOMENTS]],
    }
    return {name: value for name, value in told.items() if value not in (None, "", [])}


def _moment(moment: Mapping[str, Any]) -> dict[str, Any]:
    return {"at_seconds": moment["at_seconds"], "snippet": _said(moment["snippet"])}


def _said(pieces: Sequence[Mapping[str, Any]]) -> str:
    return "".join(piece["text"] for piece in pieces)[:SNIPPET_CHARACTERS]
