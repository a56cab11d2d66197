"""The tool `describe`: one thing with its facts, and its text page by page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mediamill.conversations.watch import list_messages
from mediamill.db.connection import Connection
from mediamill.errors import NotFoundError
from mediamill.intake.look import page_texts, show_file
from mediamill.libraries.assets import show_asset
from mediamill.mcp.arguments import Describe
from mediamill.mcp.mill import MOST_FACTS, Mill, page_of
from mediamill.mcp.references import Reference, read_reference
from mediamill.mcp.tools import Content, tell
from mediamill.search.entries import facts_of
from mediamill.settings import Settings
from mediamill.videos.look import find_video, show_transcript, show_video
from mediamill.videos.model import UnknownVideoError

MOST_TAGS, MOST_FIELDS, MOST_VALUE = 50, 200, 500


class UnknownMessageError(NotFoundError):
    """There is no such message."""

    code = "unknown_message"


async def describe(mill: Mill, asked: Describe) -> Content:
    """Facts, and so much of the text as fits."""
    reference = read_reference(asked.reference)
    async with mill.database.connection() as connection:
        facts, text = await look_at(connection, mill.settings, reference)
    url = facts.pop("url", None)
    told = {
        "reference": str(reference),
        **facts,
        "url": url and mill.url + url,
        **page_of(text, asked.offset),
    }
    return tell({name: value for name, value in told.items() if value not in ("", [], {})})


async def look_at(
    connection: Connection, settings: Settings, reference: Reference
) -> tuple[dict[str, Any], str]:
    """What is known of a thing, and what it says."""
    match reference.of:
        case "asset":
            return _asset(await show_asset(connection, int(reference.id)))
        case "video":
            return await _video(connection, reference.id)
        case "file":
            return await _file(connection, settings, int(reference.id))
    return await _message(connection, reference.id)


def _asset(asset: dict[str, Any]) -> tuple[dict[str, Any], str]:
    kept = (
        "name",
        "path",
        "type",
        "status",
        "size",
        "width",
        "height",
        "duration_seconds",
        "tagger",
        "error",
    )
    facts = {name: asset[name] for name in kept} | {
        "library": asset["library_slug"],
        "when": asset["shown_at"],
        "vanished": asset["vanished_at"] is not None,
        "tags": _labels(asset["tags"]),
        "scenes": len(asset["scenes"]),
        "facts": _few(asset["facts"]),
        "has_image": asset["output"] is not None,
        "url": f"/assets/{asset['id']}",
    }
    moments = [(scene["start_ts"], scene) for scene in asset["scenes"]]
    moments += [(frame["seconds"], frame) for frame in asset["frames"]]
    lines = [f"[{_clock(at)}] {_said(moment)}" for at, moment in moments if _said(moment)]
    return facts, "\n".join([asset["description"] or "", *lines]).strip()


async def _video(connection: Connection, who: str) -> tuple[dict[str, Any], str]:
    """With what is said in it; one in the trash is not there."""
    video = await show_video(connection, await find_video(connection, who))
    if video["deleted_at"] is not None:
        raise UnknownVideoError(f"there is no video {who!r}")
    kept = ("title", "slug", "description", "category", "state", "duration_seconds", "created_at", "error")
    facts = {name: video.get(name) for name in kept} | {
        "qualities": [each["quality"] for each in video["qualities"] if each["state"] == "completed"],
        "has_image": video["output"] is not None,
        "url": f"/videos/{video['slug']}",
    }
    said = (await show_transcript(connection, await find_video(connection, who)))["transcript"]
    segments = said["segments"] if said else []
    return facts, "\n".join(f"[{_clock(float(one['start']))}] {str(one['text']).strip()}" for one in segments)


async def _file(connection: Connection, settings: Settings, file_id: int) -> tuple[dict[str, Any], str]:
    """With what was found in its fields, and what a person decided."""
    file = await show_file(connection, settings, file_id)
    kept = ("name", "project", "kind", "state", "mime_type", "summary", "created_at", "unsupported", "error")
    facts = {name: file.get(name) for name in kept} | {
        "pages": len(file["pages"]),
        "fields": [_field(proposal) for proposal in file["proposals"][:MOST_FIELDS]],
        "tags": _labels(file["tags"]),
        "facts": _few(file["facts"]),
        "has_image": bool(file["pages"]) or file["thumbnail"],
        "url": f"/projects/{file['project']}/files/{file_id}",
    }
    pages = await page_texts(connection, file_id)
    by_page = "\n\n".join(
        f"[page {page['number']}]\n{page['text']}" for page in pages if page["text"].strip()
    )
    return facts, by_page or file["text"] or ""


async def _message(connection: Connection, subject: str) -> tuple[dict[str, Any], str]:
    """What media of a chat became; the media themselves are not kept."""
    about = await facts_of(connection, "message", subject)
    if about is None:
        raise UnknownMessageError(f"there is no message {subject[:100]!r}")
    keys = [about[name] for name in ("bot_id", "provider_name", "correspondent_id")]
    number = about["message_id"]
    found = await list_messages(connection, *keys, before=number + 1, after=number - 1, amount=1)
    if not found:
        raise UnknownMessageError(f"there is no message {subject[:100]!r}")
    facts = {name: about[name] for name in ("type", "mime_type", "file", "bot_id", "provider_name")}
    sent = {"conversation": about["title"], "when": found[0]["accepted_time"], "url": about["url"]}
    return {**facts, **sent, "has_image": False}, found[0]["content"] or ""


def _field(proposal: dict[str, Any]) -> dict[str, Any]:
    kept = ("field", "label", "value", "edited_value", "unit", "state", "confidence", "page", "quote")
    told = {name: proposal.get(name) for name in kept}
    return {
        name: value[:MOST_VALUE] if isinstance(value, str) else value
        for name, value in told.items()
        if value not in (None, "")
    }


def _labels(tags: Sequence[dict[str, Any]]) -> list[str]:
    return [str(tag.get("label", "")) for tag in tags[:MOST_TAGS]]


def _few(facts: dict[str, Any]) -> dict[str, Any]:
    """Too many would bury the rest."""
    return facts if len(json.dumps(facts, default=str)) <= MOST_FACTS else {}


def _said(moment: dict[str, Any]) -> str:
    parts = (moment["description"], moment.get("text"), ", ".join(_labels(moment["tags"])))
    return " · ".join(" ".join(str(part).split()) for part in parts if part)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"
