"""Who tags: a library's target, or the default of the system; and what is left for it to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.libraries.store import queries
from mediamill.processors.models.names import ModelName, look_name, text_name, vision_name
from mediamill.search.vectors import ensure_model
from mediamill.settings import Settings

PREVIEW = "preview.webp"
LOOKS_OF_ONE_JOB = 50  # so many results are far below the limit of a result, also with long vectors


@dataclass(frozen=True, slots=True)
class Taggers:
    """The three models of a tag job, with their ids."""

    vision: tuple[int, ModelName]
    text: tuple[int, ModelName]
    look: tuple[int, ModelName]

    def as_payload(self) -> dict[str, Any]:
        """As the job is told."""
        return {
            task: {"id": id_, "name": model.name, "engine": model.engine}
            for task, (id_, model) in (
                ("tagger", self.vision),
                ("text_model", self.text),
                ("look_model", self.look),
            )
        }


async def read_taggers(connection: Connection, settings: Settings, target: int | None) -> Taggers:
    """Those of a library whose target is this; else the system's default, else whatever the settings say.

    The default is that of the database: two servers with different settings would never agree on what is done.
    """
    wanted = target if target is not None else await queries.default_tagger.value(connection)
    chosen = await queries.find_tagger.row(connection, id=wanted) if wanted is not None else None
    vision = vision_name(settings)
    if chosen is not None:
        vision = ModelName("vision", chosen["engine"], chosen["name"])
    text, look = text_name(settings), look_name(settings)
    return Taggers(
        (chosen["id"] if chosen is not None else await ensure_model(connection, vision), vision),
        (await ensure_model(connection, text), text),
        (await ensure_model(connection, look), look),
    )


async def looks_left(
    connection: Connection, assets: Sequence[Record], taggers: Taggers
) -> dict[int, list[dict[str, Any]]]:
    """What is to be looked at: an image itself; a video's scenes and frames, or its picture if it has none."""
    looks: dict[int, list[dict[str, Any]]] = {asset["id"]: [] for asset in assets}
    videos = [asset["id"] for asset in assets if asset["type"] == "video"]
    if videos:
        rows = await queries.moments_left.rows(
            connection, ids=videos, tagger=taggers.vision[0], most=LOOKS_OF_ONE_JOB
        )
        for row in rows:
            file = PurePosixPath(row["path"]).name
            looks[row["asset_id"]].append({"of": row["of"], "id": row["id"], "file": file})
    for asset_id, found in looks.items():
        if not found:
            found.append({"of": "asset", "id": asset_id, "file": PREVIEW})
    return looks
