"""The job kind of search: texts of entries become vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mediamill.db.connection import Connection
from mediamill.engine.kinds import JobKind
from mediamill.engine.model import Moved
from mediamill.search.store import queries
from mediamill.search.vectors import BadVectorError, Subject, put_vector

EMBED = "search.embed"


async def keep_vectors(connection: Connection, jobs: Sequence[Moved]) -> None:
    """Each entry that still waits for its job gets its vector. A result may be anybody's."""
    for job in jobs:
        name, packed = _read(job)
        model_id = await queries.find_model.value(connection, name=name)
        rows = await queries.lock_embedded.rows(connection, ids=list(packed), job=job.job_id)
        if model_id is None or not rows:
            continue
        ids = [row["id"] for row in rows]
        for id_ in ids:
            try:
                async with connection.transaction():
                    await put_vector(connection, model_id, Subject(entry_id=id_), packed[id_])
            except BadVectorError:
                continue  # found by its words only
        await queries.drop_other_vectors.run(connection, ids=ids, model_id=model_id)
        await queries.note_embedded.run(connection, ids=ids, model_id=model_id)


def _read(job: Moved) -> tuple[str, dict[int, str]]:
    """The model, and by entry its vector; nothing if another model made them than the one that was asked."""
    asked, made = job.payload, job.result if isinstance(job.result, Mapping) else {}
    ids: Any = asked.get("entries")
    vectors: Any = made.get("vectors")
    if not isinstance(ids, list) or not isinstance(vectors, list) or made.get("model") != asked.get("model"):
        return "", {}
    pairs = zip(ids, vectors, strict=False)
    return str(asked["model"]), {int(id_): vector for id_, vector in pairs if isinstance(vector, str)}


def search_kinds() -> tuple[JobKind, ...]:
    """What search declares."""
    return (
        JobKind(
            EMBED,
            on_completed=keep_vectors,
            description="Turns texts (what is said in videos, texts of chat media) into vectors, so that they "
            "are found by their meaning.",
        ),
    )
