"""Assets that wait for a tagger, what it saw, and what is found of that."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from mediamill.engine.model import ClaimedJob
from tests.libraries.played import IMAGES, TAGS, VIDEOS, Ground

VECTOR = base64.b64encode(np.ones(384, "<f2").tobytes()).decode()
SEEN = {
    "description": "A dog in the snow",
    "tags": [{"label": "dog", "score": 0.9}],
    "text": "KEEP OUT",
    "models": ["sees@1"],
    "meaning": VECTOR,
    "look": VECTOR,
}


async def proxied(ground: Ground, images: int = 1) -> list[ClaimedJob]:
    """A library whose images wait for a tagger; their jobs, claimed, in the order of the images."""
    await ground.library(images=images)
    await ground.feed()
    for job in await ground.claim(pool=IMAGES, amount=images):
        await ground.play_image(job)
    await ground.feed()
    return sorted(await ground.claim(pool=TAGS, amount=images), key=lambda job: int(job.subject_id or 0))


async def asset(ground: Ground, id_: int = 1) -> dict[str, Any]:
    async with ground.database.connection() as connection:
        row = await connection.fetchrow("select * from assets where id = $1", id_)
    return dict(row or {})


async def finds(ground: Ground, words: str, table: str = "assets") -> list[int]:
    rows = f"select coalesce(array_agg(id order by id), '{{}}') from {table} "
    return list(await ground.one(rows + "where search_vector @@ websearch_to_tsquery('english', $1)", words))


def look(job: ClaimedJob, **more: Any) -> dict[str, Any]:
    asked = json.loads(job.payload_json)["looks"][0]
    return {"of": asked["of"], "id": asked["id"], **SEEN, **more}


async def video_with(ground: Ground, scenes: int) -> int:
    """A video with so many scenes, which waits for a tagger. Its id."""
    await ground.library(videos=1)
    await ground.feed()
    (job,) = await ground.claim(pool=VIDEOS)
    await ground.play_video(job, scenes=scenes)
    return int(job.subject_id or 0)


def scenes_of(job: ClaimedJob, label: str) -> list[dict[str, Any]]:
    asked = json.loads(job.payload_json)["looks"]
    return [
        {**one, **SEEN, "tags": [{"label": f"{label} {at % 3}", "score": at / 100}]}
        for at, one in enumerate(asked)
    ]
