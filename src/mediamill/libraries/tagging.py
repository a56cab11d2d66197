"""What a tagger saw, kept with its name: descriptions, tags, vectors; for a video, scene by scene."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.engine.model import ClaimedJob, Moved
from mediamill.libraries.model import MOST_RETRIES, id_of
from mediamill.libraries.store import queries
from mediamill.search.vectors import BadVectorError, Subject, drop_other_vectors, drop_vector, put_vector

MOST_LOOKS, MOST_TAGS, MOST_MODELS = 1000, 50, 10
LABEL_CHARACTERS, DESCRIPTION_CHARACTERS, WORDS_CHARACTERS = 100, 5_000, 10_000
LARGEST_ID = 2**63 - 1
MODELS = {"meaning": "text_model", "look": "look_model"}


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen in one image, as far as it makes sense. `noted`: words in it, exact models, what went wrong."""

    of: str
    id: int
    description: str | None
    tags: list[dict[str, Any]]
    noted: dict[str, Any]
    vectors: dict[str, str]


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
        models = read_models(job.payload)
        result = job.result if isinstance(job.result, Mapping) else {}
        kept = await _keep(connection, asset, job.payload, result.get("looks"))
        by = _ids(models)
        if asset["type"] == "video":
            await queries.sum_up_video.run(connection, id=asset["id"], **by, reader=models["reader"])
        wanted = {"tagger": asset["wanted"], "text": asset["wanted_text"], "look": asset["wanted_look"]}
        await queries.finish_tagging.row(
            connection,
            id=asset["id"],
            **by,
            is_wanted=all(wanted[name] in (None, by[name]) for name in by),
            kept=kept > 0,
            most=MOST_RETRIES,
        )


async def _lock(connection: Connection, subject: str | None, job_id: int) -> Record | None:
    asset = await queries.lock_tagged.row(connection, id=id_of(subject))
    return asset if asset is not None and asset["job_id"] == job_id else None


async def _keep(connection: Connection, asset: Record, payload: Mapping[str, Any], looks: Any) -> int:
    """How many. Whoever looked may have been taken over: what is not of this asset changes nothing."""
    models, short = read_models(payload), _short_looks(payload)
    by, kept = _ids(models), 0
    for look in read_looks(looks):
        whose = {"id": look.id, "asset_id": asset["id"]}
        wants = short.get((look.of, look.id))
        if wants is not None and "read" in wants:
            done = await getattr(queries, f"read_{look.of}").value(
                connection,
                **whose,
                text=by["text"],
                look=by["look"],
                reader=models["reader"],
                words=look.noted.get("text"),
            )
        elif wants is not None:
            done = await getattr(queries, f"embed_{look.of}").value(
                connection, **whose, text=by["text"], look=by["look"]
            )
        else:
            done = await getattr(queries, f"tag_{look.of}").value(
                connection,
                **whose,
                **by,
                reader=models["reader"],
                description=look.description,
                tags=json.dumps(look.tags),
                noted=json.dumps(look.noted),
            )
        if done is not None:
            kept += 1
            await _keep_vectors(connection, asset, models, look, wants or tuple(MODELS))
    return kept


async def _keep_vectors(
    connection: Connection, asset: Record, models: Mapping[str, int], look: Look, wants: Sequence[str]
) -> None:
    """In place of those that this model made of an earlier look, and of those of other models."""
    place = {} if look.of == "asset" else {f"{look.of}_id": look.id}
    subject = Subject(asset_id=asset["id"], library=asset["library"], **place)
    for name in MODELS.keys() & wants:
        try:
            if (vector := look.vectors.get(name)) is not None:
                await put_vector(connection, models[MODELS[name]], subject, vector)
            else:
                await drop_vector(connection, models[MODELS[name]], subject)
        except BadVectorError:
            continue
    await drop_other_vectors(connection, [models[model] for model in MODELS.values()], subject)


def _short_looks(payload: Mapping[str, Any]) -> dict[tuple[str, int], list[str]]:
    """Those that were asked for vectors only, and for which. The payload is our own."""
    looks = payload.get("looks") or ()
    return {(look["of"], look["id"]): look["wants"] for look in looks if "known" in look}


def _ids(models: Mapping[str, int]) -> dict[str, int]:
    return {"tagger": models["tagger"], "text": models["text_model"], "look": models["look_model"]}


def read_models(payload: Mapping[str, Any]) -> dict[str, int]:
    """The ids of the models of a job. The payload is our own."""
    reader = payload.get("reader") or {"id": 0}
    return {"reader": int(reader["id"])} | {
        name: int(payload[name]["id"]) for name in ("tagger", *MODELS.values())
    }


def read_looks(looks: Any) -> list[Look]:
    """Those that make sense, whoever sent them."""
    told = looks[:MOST_LOOKS] if isinstance(looks, list) else []
    return [look for look in map(_read_look, told) if look is not None]


def _read_look(told: Any) -> Look | None:
    match told:
        case {"of": "asset" | "scene" | "frame" as of, "id": int(id_)} if 0 < id_ <= LARGEST_ID:
            pass
        case _:
            return None
    noted = {
        "text": _text(told.get("text"), WORDS_CHARACTERS),
        "models": _texts(told.get("models")),
        "tag_error": _text(told.get("error"), LABEL_CHARACTERS),
    }
    return Look(
        of,
        id_,
        _text(told.get("description"), DESCRIPTION_CHARACTERS),
        read_tags(told.get("tags")),
        {name: value for name, value in noted.items() if value},
        {name: told[name] for name in MODELS if isinstance(told.get(name), str)},
    )


def read_tags(tags: Any) -> list[dict[str, Any]]:
    """Labels with scores, as far as they make sense."""
    found = []
    for tag in tags[:MOST_TAGS] if isinstance(tags, list) else ():
        label = _text(tag.get("label"), LABEL_CHARACTERS) if isinstance(tag, Mapping) else None
        if label is not None:
            found.append({"label": label, "score": _score(tag.get("score"))})
    return found


def _score(value: Any) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    return min(1.0, max(0.0, float(value))) if fits and math.isfinite(value) else None


def _texts(values: Any) -> list[str]:
    told = values[:MOST_MODELS] if isinstance(values, list) else []
    return [text for text in (_text(value, LABEL_CHARACTERS) for value in told) if text is not None]


def _text(value: Any, most: int) -> str | None:
    """What the database can hold; None if there is nothing."""
    if not isinstance(value, str):
        return None
    return value.replace("\0", "").encode(errors="replace").decode().strip()[:most] or None
