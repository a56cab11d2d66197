"""What jobs are about, for people: the name of the file, video, asset or chat, and where it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import UUID

from mediamill.conversations.model import KIND
from mediamill.db.connection import Connection
from mediamill.engine.browse import payloads_of
from mediamill.intake.look import names_of_analyses
from mediamill.intake.model import ANALYSE, id_of
from mediamill.libraries.assets import names_of_assets
from mediamill.libraries.model import IMAGE, SCAN, TAG, VIDEO
from mediamill.videos.look import titles_of
from mediamill.videos.model import TRANSCODE, TRANSCRIBE


@dataclass(frozen=True, slots=True)
class Subject:
    """`where`: its page, if it has one."""

    name: str
    where: str | None = None


async def subjects_of(connection: Connection, jobs: Sequence[Mapping[str, Any]]) -> dict[int, Subject]:
    """By the id of the job. What is gone by now has the name that it had when the job was made, if that is known."""
    payloads = await payloads_of(connection, [job["id"] for job in jobs])
    files = await names_of_analyses(connection, _ids(jobs, ANALYSE))
    assets = await names_of_assets(connection, _ids(jobs, IMAGE, VIDEO, TAG))
    videos = {str(id_): title for id_, title in (await titles_of(connection, _uuids(jobs))).items()}
    found: dict[int, Subject] = {}
    for job in jobs:
        payload, subject = payloads.get(job["id"], {}), id_of(job["subject_id"])
        match job["kind"]:
            case kind if kind == ANALYSE and (file := files.get(subject)):
                known = Subject(file["name"], f"/projects/{file['slug']}/files/{file['id']}")
            case kind if kind in (IMAGE, VIDEO, TAG) and subject in assets:
                known = Subject(assets[subject], f"/assets/{subject}")
            case kind if kind in (TRANSCODE, TRANSCRIBE) and (title := videos.get(str(job["subject_id"]))):
                known = Subject(title, f"/videos/{job['subject_id']}")
            case kind if kind == SCAN and payload.get("slug"):
                known = Subject(str(payload["slug"]), f"/libraries/{quote(str(payload['slug']))}")
            case kind if kind == KIND and payload.get("correspondent_id"):
                known = _chat(payload)
            case _:
                known = Subject(str(payload.get("name") or payload.get("original_filename") or ""))
        if known.name:
            found[job["id"]] = known
    return found


def _chat(payload: Mapping[str, Any]) -> Subject:
    """Media of a message: its name if it has one, and the chat that it came in."""
    bot, provider, whom = (
        quote(str(payload.get(name)), safe="") for name in ("bot_id", "provider_name", "correspondent_id")
    )
    name = payload.get("original_filename") or f"a message of {payload['correspondent_id']}"
    return Subject(str(name), f"/bots/{bot}/{provider}/{whom}")


def _ids(jobs: Sequence[Mapping[str, Any]], *kinds: str) -> list[int]:
    return [id_of(job["subject_id"]) for job in jobs if job["kind"] in kinds]


def _uuids(jobs: Sequence[Mapping[str, Any]]) -> list[UUID]:
    given = (_uuid(job["subject_id"]) for job in jobs if job["kind"] in (TRANSCODE, TRANSCRIBE))
    return [each for each in given if each is not None]


def _uuid(text: Any) -> UUID | None:
    try:
        return UUID(str(text))
    except ValueError:
        return None
