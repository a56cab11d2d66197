"""Who makes vectors: one model for texts and one for images, the same for everything that can be found.

The server that started last says which (`system_metadata`): two with different settings would never agree on what is
done.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from mediamill.db.connection import Connection
from mediamill.processors.models.names import ModelName, look_name, text_name
from mediamill.search.model import Way
from mediamill.search.store import queries
from mediamill.search.vectors import ensure_model
from mediamill.settings import Settings

MOST_OLDER = 4


@dataclass(frozen=True, slots=True)
class Embedders:
    """The two models, with their ids."""

    text: tuple[int, ModelName]
    look: tuple[int, ModelName]


async def note_embedders(connection: Connection, settings: Settings) -> bool:
    """When a server starts: those of its settings from now on. True if they are others than before."""
    chosen = await _of_settings(connection, settings)
    told = json.dumps({"text": chosen.text[0], "look": chosen.look[0]})
    return await queries.set_embedders.value(connection, value=told) is not None


async def read_embedders(connection: Connection, settings: Settings) -> Embedders:
    """Those that were noted last, else those of the settings."""
    rows = await queries.embedders.rows(connection)
    known = {row["task"]: (row["id"], ModelName(row["task"], row["engine"], row["name"])) for row in rows}
    if {"text", "look"} <= known.keys():
        return Embedders(known["text"], known["look"])
    return await _of_settings(connection, settings)


async def older_models(connection: Connection) -> list[tuple[Way, str]]:
    """Models that were used before, while some of what can be found has no vectors but theirs."""
    rows = await queries.older_models.rows(connection, amount=MOST_OLDER)
    return [("meaning" if row["task"] == "text" else "look", row["name"]) for row in rows]


async def _of_settings(connection: Connection, settings: Settings) -> Embedders:
    text, look = text_name(settings), look_name(settings)
    return Embedders(
        (await ensure_model(connection, text), text), (await ensure_model(connection, look), look)
    )
