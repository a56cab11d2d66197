"""Who tags: a library's target, or the tagger of the settings; and what is left for it to look at.

Another target tags again what is completed, batch by batch, from the proxies that are there; the old tags stay until
then.
"""

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
LOOKS_OF_ONE_JOB = 200


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
    """Those of a library whose target is this, or whatever the settings say."""
    chosen = await queries.find_tagger.row(connection, id=target) if target is not None else None
    vision = vision_name(settings)
    if chosen is not None:
        vision = ModelName("vision", chosen["engine"], chosen["name"])
    text, look = text_name(settings), look_name(settings)
    return Taggers(
        (await ensure_model(connection, vision), vision),
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
