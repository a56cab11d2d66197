"""What a tagger saw, kept with its name: descriptions, tags, vectors; for a video, scene by scene."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.engine.model import ClaimedJob, Moved
from mediamill.libraries.model import id_of
from mediamill.libraries.store import queries
from mediamill.search.vectors import BadVectorError, Subject, put_vector

MOST_LOOKS, MOST_TAGS = 1000, 50
LABEL_CHARACTERS, DESCRIPTION_CHARACTERS, WORDS_CHARACTERS = 100, 5_000, 20_000


async def note_looks(connection: Connection, job: ClaimedJob, parts: Mapping[str, Any]) -> None:
    """Some of it is done: it is kept at once, and a later attempt is not asked for it."""
    asset = await _lock(connection, job.subject_id, job.id)
    if asset is not None:
        await _keep(connection, asset, json.loads(job.payload_json), parts.get("looks"))


async def keep_looks(connection: Connection, jobs: Sequence[Moved]) -> None:
    """The job is done. A video with more to look at waits for another one."""
    for job in jobs:
        asset = await _lock(connection, job.subject_id, job.job_id)
        if asset is None:
            continue
        result = job.result if isinstance(job.result, Mapping) else {}
        tagger = await _keep(connection, asset, job.payload, result.get("looks"))
        if asset["type"] == "video":
            await queries.sum_up_video.run(connection, id=asset["id"], tagger=tagger)
        await queries.finish_tagging.run(connection, id=asset["id"], tagger=tagger)


async def _lock(connection: Connection, subject: str | None, job_id: int) -> Record | None:
    asset = await queries.lock_tagged.row(connection, id=id_of(subject))
    return asset if asset is not None and asset["job_id"] == job_id else None


async def _keep(connection: Connection, asset: Record, payload: Mapping[str, Any], looks: Any) -> int:
    """Whoever looked may have been taken over: what is not of this asset changes nothing."""
    models = {name: int(payload[name]["id"]) for name in ("tagger", "text_model", "look_model")}
    for look in list(looks or ())[:MOST_LOOKS]:
        if not isinstance(look, Mapping) or look.get("of") not in ("asset", "scene", "frame"):
            continue
        facts = {
            "id": int(look["id"]),
            "asset_id": asset["id"],
            "tagger": models["tagger"],
            "description": _text(look.get("description"), DESCRIPTION_CHARACTERS),
            "tags": json.dumps(read_tags(look.get("tags"))),
            "words": _text(look.get("text"), WORDS_CHARACTERS),
        }
        statement = getattr(queries, f"tag_{look['of']}")
        if await statement.value(connection, **facts) is not None:
            await _keep_vectors(connection, asset, models, look)
    return models["tagger"]


async def _keep_vectors(
    connection: Connection, asset: Record, models: Mapping[str, int], look: Mapping[str, Any]
) -> None:
    place = {} if look["of"] == "asset" else {f"{look['of']}_id": int(look["id"])}
    subject = Subject(asset_id=asset["id"], library=asset["library"], **place)
    for name, model in (("meaning", "text_model"), ("look", "look_model")):
        if isinstance(look.get(name), str):
            try:
                await put_vector(connection, models[model], subject, look[name])
            except BadVectorError:
                continue


def read_tags(tags: Any) -> list[dict[str, Any]]:
    """Labels with scores, as far as they make sense."""
    found = []
    for tag in list(tags or ())[:MOST_TAGS]:
        if isinstance(tag, Mapping) and isinstance(tag.get("label"), str):
            score = tag.get("score")
            label = tag["label"].replace("\0", "")[:LABEL_CHARACTERS]
            found.append({"label": label, "score": float(score) if isinstance(score, int | float) else None})
    return found


def _text(value: Any, most: int) -> str | None:
    return value.replace("\0", "")[:most] if isinstance(value, str) and value.strip() else None
