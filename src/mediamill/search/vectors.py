"""Vectors: one for each thing and model."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mediamill.db.connection import Connection
from mediamill.errors import InvalidError
from mediamill.processors.models.names import ModelName
from mediamill.search.store import queries

MOST_DIMENSIONS = 4000


class BadVectorError(InvalidError):
    """That is no vector."""

    code = "bad_vector"


@dataclass(frozen=True, slots=True)
class Subject:
    """What a vector is of: an asset or one of its scenes or frames, or an entry."""

    asset_id: int | None = None
    scene_id: int | None = None
    frame_id: int | None = None
    entry_id: int | None = None
    library: int | None = None


async def ensure_model(connection: Connection, model: ModelName) -> int:
    """The id of a model, which may be new."""
    return int(
        await queries.ensure_model.value(
            connection, name=model.name, task=model.task, engine=model.engine, dimensions=model.dimensions
        )
    )


async def put_vector(connection: Connection, model_id: int, subject: Subject, vector: str) -> None:
    """In place of the one that this model made before. `vector`: base64 of float16, little-endian."""
    names = ("asset_id", "scene_id", "frame_id", "entry_id")
    places = {name: getattr(subject, name) for name in names}
    numbers = read_vector(vector)
    await _check_dimensions(connection, model_id, len(numbers))
    await queries.drop_vectors.run(connection, model_id=model_id, **places)
    await queries.put_vector.run(connection, model_id=model_id, library=subject.library, **places, v=numbers)


async def drop_vector(connection: Connection, model_id: int, subject: Subject) -> None:
    """It has none by this model (any more)."""
    names = ("asset_id", "scene_id", "frame_id", "entry_id")
    places = {name: getattr(subject, name) for name in names}
    await queries.drop_vectors.run(connection, model_id=model_id, **places)


async def drop_other_vectors(connection: Connection, model_ids: Sequence[int], subject: Subject) -> None:
    """Those of models that nobody uses any more, now that there are others."""
    await queries.drop_vectors_of_others.run(
        connection,
        model_ids=list(model_ids),
        asset_id=subject.asset_id,
        scene_id=subject.scene_id,
        frame_id=subject.frame_id,
    )


async def copy_vectors(connection: Connection, twins: Mapping[int, int]) -> None:
    """Assets get the vectors of their twins, in place of their own."""
    await queries.drop_vectors_of_assets.run(connection, ids=list(twins))
    await queries.copy_vectors.run(connection, ids=list(twins), twins=list(twins.values()))


async def _check_dimensions(connection: Connection, model_id: int, dimensions: int) -> None:
    """The first vector of a model says how long they are; one of another length would not fit its index."""
    known = await queries.model_dimensions.value(connection, id=model_id)
    if known is None:
        await queries.set_dimensions.run(connection, id=model_id, dimensions=dimensions)
        known = await queries.model_dimensions.value(connection, id=model_id)
    if known != dimensions:
        raise BadVectorError(f"a vector of {dimensions} numbers, of a model that makes {known}")


def read_vector(packed: str) -> list[float]:
    """Its numbers."""
    import numpy as np  # a worker that has no vectors to put starts sooner without it

    try:
        raw = base64.b64decode(packed, validate=True)
        numbers = np.frombuffer(raw, "<f2")
    except (binascii.Error, ValueError, TypeError):
        raise BadVectorError from None
    if not 0 < len(numbers) <= MOST_DIMENSIONS or not np.isfinite(numbers).all():
        raise BadVectorError
    return [float(number) for number in numbers]
