"""Rows to be found: libraries with images and videos, as scans, processors and taggers leave them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from mediamill.db.connection import Database
from mediamill.processors.models.names import ModelName
from mediamill.search.find import search
from mediamill.search.model import Found, Hit, QueryVector, Wanted
from mediamill.search.vectors import Subject, ensure_model, put_vector

MEANING = ModelName("text", "local", "meaning@1", 8)
LOOK = ModelName("look", "local", "look@1", 8)
START = datetime(2024, 5, 1, tzinfo=UTC)


def pack(vector: Sequence[float]) -> str:
    """As processors hand vectors over."""
    return base64.b64encode(np.array(vector, "<f2").tobytes()).decode()


def towards(direction: int, other: float = 0.0) -> list[float]:
    """A vector of eight numbers that points that way, and a little to the next."""
    vector = [-0.01] * 8
    vector[direction], vector[(direction + 1) % 8] = 1.0, other
    return vector


@dataclass
class Ground:
    """A database and ways to fill it."""

    database: Database
    days: int = 0

    async def library(self, slug: str = "holiday", *, trash: bool = False) -> int:
        """A new one; its number."""
        sql = """insert into libraries (slug, name, absolute_path, deleted_at)
            values ($1, $1, '/photos/' || $1, case when $2 then now() end) returning number"""
        return int(await self.value(sql, slug, trash))

    async def asset(
        self,
        library: int,
        path: str,
        description: str = "",
        *,
        tags: Sequence[str] = (),
        type: str = "image",
        words: str = "",
        tagger: int | None = None,
        meaning: Sequence[float] | None = None,
        look: Sequence[float] | None = None,
    ) -> int:
        """One a day later than the last."""
        self.days += 1
        told = json.dumps([{"label": tag, "score": 0.9} for tag in tags])
        sql = """insert into assets (library, folder, rel_path, type, mtime_ns, size, inode, shown_at, status, output,
                description, tags, tags_model_id, search_vector)
            values ($1, 1, $2, $3, 0, 1, 1, $4, 'completed', '7-1', $5, $6::jsonb, $8,
                findable($5, $6::jsonb, $2, $7)) returning id"""
        at = START.replace(tzinfo=None) + timedelta(days=self.days)
        id_ = int(await self.value(sql, library, path, type, at, description, told, words, tagger))
        await self.vectors(Subject(asset_id=id_, library=library), meaning, look)
        return id_

    async def scene(
        self,
        asset: int,
        number: int,
        description: str,
        *,
        meaning: Sequence[float] | None = None,
        look: Sequence[float] | None = None,
    ) -> int:
        """Ten seconds each."""
        sql = """insert into video_scenes (asset_id, library, number, start_ts, end_ts, sharpness_score, keep_reason,
                rep_frame_path, description, search_vector)
            select id, library, $2::int, 10 * ($2 - 1), 10 * $2, 1, 'phash',
                'libraries/000/x/scene-0000' || $2 || '.jpg', $3, findable($3, null, null, null)
            from assets where id = $1 returning id"""
        id_ = int(await self.value(sql, asset, number, description))
        library = int(await self.value("select library from assets where id = $1", asset))
        await self.vectors(Subject(asset_id=asset, scene_id=id_, library=library), meaning, look)
        return id_

    async def frame(self, asset: int, at_ms: int, description: str) -> int:
        """One of the window sampler."""
        sql = """insert into video_frames (asset_id, library, timestamp_ms, is_keyframe, frame_path, description,
                search_vector)
            select id, library, $2::int, true, 'libraries/000/x/frame-' || $2 || '.jpg', $3,
                findable($3, null, null, null)
            from assets where id = $1 returning id"""
        return int(await self.value(sql, asset, at_ms, description))

    async def vectors(
        self, subject: Subject, meaning: Sequence[float] | None = None, look: Sequence[float] | None = None
    ) -> None:
        """By the two models."""
        async with self.database.transaction() as connection:
            for model, vector in ((MEANING, meaning), (LOOK, look)):
                id_ = await ensure_model(connection, model)
                if vector is not None:
                    await put_vector(connection, id_, subject, pack(vector))

    async def find(self, words: str = "", **more: Any) -> Found:
        """Search."""
        for name, model in (("meaning", MEANING), ("look", LOOK)):
            if isinstance(more.get(name), list):
                more[name] = QueryVector(model.name, more[name])
        async with self.database.connection() as connection:
            return await search(connection, Wanted(words=words, **more))

    async def titles(self, words: str = "", **more: Any) -> list[str]:
        """What was found, by name."""
        return [hit.title for hit in (await self.find(words, **more)).hits]

    async def one(self, words: str = "", **more: Any) -> Hit:
        """The only hit."""
        (hit,) = (await self.find(words, **more)).hits
        return hit

    async def value(self, sql: str, *arguments: Any) -> Any:
        """Of a statement."""
        async with self.database.connection() as connection:
            return await connection.fetchval(sql, *arguments)
