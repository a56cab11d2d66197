"""Who tags: a library's target, or the default of the system; and what is left for it to look at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.libraries.store import queries
from mediamill.processors.library.meaning import meaning_of
from mediamill.processors.models.names import ModelName, reader_name, vision_name
from mediamill.search.embedders import read_embedders
from mediamill.search.vectors import ensure_model
from mediamill.settings import Settings

PREVIEW = "preview.webp"
LOOKS_OF_ONE_JOB = 50  # so many results are far below the limit of a result, also with long vectors


@dataclass(frozen=True, slots=True)
class Taggers:
    """The models of a tag job, with their ids. `reader`: its id and name; 0 and None if text is not read."""

    vision: tuple[int, ModelName]
    text: tuple[int, ModelName]
    look: tuple[int, ModelName]
    reader: tuple[int, str | None] = (0, None)

    def as_payload(self) -> dict[str, Any]:
        """As the job is told."""
        id_, name = self.reader
        return {"reader": None if name is None else {"id": id_, "name": name}} | {
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
    embedders = await read_embedders(connection, settings)
    id_ = chosen["id"] if chosen is not None else await ensure_model(connection, vision)
    return Taggers((id_, vision), embedders.text, embedders.look, await _read_reader(connection, settings))


async def _read_reader(connection: Connection, settings: Settings) -> tuple[int, str | None]:
    """As a server noted it last, else as the settings say."""
    noted = await queries.reader.row(connection)
    if noted is not None:
        return noted["id"], noted["name"]
    chosen = reader_name(settings)
    return (0, None) if chosen is None else (await ensure_model(connection, chosen), chosen.name)


async def looks_left(
    connection: Connection, assets: Sequence[Record], taggers: Taggers
) -> dict[int, list[dict[str, Any]]]:
    """What is to be looked at: an image itself; a video's scenes and frames, or its picture if it has none.

    What the tagger has seen already, and only others have not, comes with what is known of it.
    """
    looks: dict[int, list[dict[str, Any]]] = {asset["id"]: [] for asset in assets}
    videos = [asset["id"] for asset in assets if asset["type"] == "video"]
    if videos:
        models = {"tagger": taggers.vision[0], "text": taggers.text[0], "look": taggers.look[0]}
        rows = await queries.moments_left.rows(connection, ids=videos, **models, most=LOOKS_OF_ONE_JOB)
        for row in rows:
            file = PurePosixPath(row["path"]).name
            look = {"of": row["of"], "id": row["id"], "file": file, **known_of(row, taggers)}
            looks[row["asset_id"]].append(look)
    alone = [asset_id for asset_id, found in looks.items() if not found]
    seen = await queries.seen_assets.rows(connection, ids=alone, tagger=taggers.vision[0])
    known = {row["id"]: known_of(row, taggers) for row in seen}
    for asset_id in alone:
        looks[asset_id] = [{"of": "asset", "id": asset_id, "file": PREVIEW, **known.get(asset_id, {})}]
    return looks


def known_of(row: Record, taggers: Taggers) -> dict[str, Any]:
    """What makes a look a short one: its text is `known`, and it `wants` vectors only. Nothing if it was never seen."""
    if row["tags_model_id"] != taggers.vision[0]:
        return {}
    wants = [
        name
        for name, id_, model in (
            ("meaning", row["text_model_id"], taggers.text[0]),
            ("look", row["look_model_id"], taggers.look[0]),
        )
        if id_ != model
    ]
    tags = json.loads(row["tags"]) if row["tags"] else []
    if row["unread"]:  # what is read is added to what is known
        wants = ["read", *dict.fromkeys(["meaning", *wants])]
    text = meaning_of(row["description"], tags, None if row["unread"] else row["words"])
    return {"known": text, "wants": wants or ["meaning", "look"]}
