"""A library without decoding: its rows and jobs are real, and the test plays the worker, with small made-up files."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mediamill.db.connection import Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import Kinds
from mediamill.engine.model import ClaimedJob
from mediamill.engine.rules import Engine
from mediamill.engine.settle import Settled
from mediamill.libraries.add import add_library
from mediamill.libraries.feed import feed_libraries
from mediamill.libraries.jobs import library_kinds
from mediamill.libraries.model import home_of_asset, output_folder
from mediamill.libraries.trash import remove_library, restore_library
from mediamill.processors.video.scenes import SceneRules
from mediamill.settings import Settings
from mediamill.staging.derivatives import keep_files
from tests.videos.played import Ground as Played

IMAGES, VIDEOS, TAGS = "library_images", "library_videos", "library_tags"
ASSETS = """
with root as (
    insert into library_folders (library, rel_path) values ($1, '') on conflict (library, rel_path) do update
    set digest = null returning id)
insert into assets (library, folder, rel_path, type, mtime_ns, size, inode, shown_at)
select $1, root.id, $2 || lpad(n::text, 7, '0'), $3, 0, 1, n, now() from root, generate_series(1, $4) n
"""


class Ground(Played):
    """A database with the kinds of libraries, the folder of one library, and the verbs of its workers."""

    root: Path

    @classmethod
    def on(cls, database: Database, data_folder: Path, **settings: Any) -> Ground:
        """The library's own folder is beside the data folder."""
        chosen = Settings.model_validate({"data": data_folder, "startup_grace_seconds": 0, **settings})
        engine = Engine.from_settings(chosen, Kinds(library_kinds(chosen)))
        ground = cls(database, chosen, engine, Enqueuer(engine.kinds, engine.payload_limit_bytes))
        ground.root = data_folder.parent / "photos"
        ground.root.mkdir(exist_ok=True)
        return ground

    async def library(self, name: str = "Photos", *, images: int = 0, videos: int = 0) -> int:
        """A library of its own folder, with so many assets, as a scan would have found them. Its number."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        async with self.database.transaction() as connection:
            slug = await add_library(connection, name, str(folder))
        number = int(await self.one("select number from libraries where slug = $1", slug))
        await self.run(ASSETS, number, "image-", "image", images)
        await self.run(ASSETS, number, "video-", "video", videos)
        return number

    async def feed(self) -> int:
        """Assets that wait become jobs; how many."""
        return await feed_libraries(self.database, self.enqueuer, self.settings)

    async def remove(self, slug: str = "photos") -> None:
        async with self.database.transaction() as connection:
            await remove_library(connection, slug)

    async def restore(self, slug: str = "photos") -> None:
        async with self.database.transaction() as connection:
            await restore_library(connection, slug)

    async def complete(self) -> None:
        """Feed and play workers until nothing is left to do."""
        while await self.feed():
            for job in await self.claim(pool=IMAGES, amount=1000):
                await self.play_image(job)
            for job in await self.claim(pool=VIDEOS, amount=1000):
                await self.play_video(job)
            for job in await self.claim(pool=TAGS, amount=1000):
                await self.play_tag(job)

    async def write_image(self, job: ClaimedJob) -> dict[str, Any]:
        """The files of an image, where a worker moves them before anybody is told; and its result."""
        scratch = self.data / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        content = f"preview of {job.subject_id} by {job.id}-{job.token}".encode()
        for name in ("preview.webp", "thumbnail.jpg"):
            (scratch / name).write_bytes(content)
        files = {name: name for name in ("preview.webp", "thumbnail.jpg")}
        kept = await keep_files(self.database, self.data, job, scratch, files)
        digest = hashlib.sha256(content).hexdigest()
        return {"files": kept, "width": 640, "height": 480, "digest": digest, "facts": {}}

    async def play_image(self, job: ClaimedJob) -> Settled:
        return await self.finish(job, await self.write_image(job))

    async def close_scene(self, job: ClaimedJob, number: int) -> None:
        """One more scene has ended, the next one is open."""
        file = f"scene-{number:05}.jpg"
        await self.keep(job, file, f"scene {number}".encode())
        scene = {
            "number": number,
            "start_seconds": 5.0 * number,
            "end_seconds": 5.0 * number + 5,
            "file": file,
        }
        scene |= {"sharpness": 1.0, "keep_reason": "phash"}
        await self.report(job, "scenes", parts={"scene": scene}, checkpoint={"scenes": number})

    async def play_video(self, job: ClaimedJob, scenes: int = 2) -> Settled:
        for number in range(1, scenes + 1):
            await self.close_scene(job, number)
        for name in ("preview.webp", "thumbnail.jpg", "clip.mp4"):
            await self.keep(job, name, name.encode())
        version = SceneRules().segmentation_version
        result = {"width": 640, "height": 360, "duration_seconds": 11.0, "segmentation_version": version}
        result["scene_count"] = scenes
        return await self.finish(job, {**result, "digest": hashlib.sha256(b"video").hexdigest(), "facts": {}})

    async def play_tag(self, job: ClaimedJob) -> Settled:
        payload = json.loads(job.payload_json)
        folder = self.data / payload["file"]["data"]
        looks = []
        for look in payload["looks"]:
            assert (folder / look["file"]).is_file(), f"{look['file']} is not there to be looked at"
            vector = base64.b64encode(np.ones(384, "<f2").tobytes()).decode()
            seen = {"description": "a harbour", "tags": [{"label": "harbour", "score": 0.9}]}
            looks.append({"of": look["of"], "id": look["id"], **seen, "meaning": vector, "look": vector})
        return await self.finish(job, {"looks": looks})

    async def outputs(self, number: int) -> list[Path]:
        """The folders that the assets of a library show."""
        async with self.database.connection() as connection:
            rows = await connection.fetch(
                "select id, output from assets where library = $1 and output is not null", number
            )
        return [self.data / output_folder(row["id"], row["output"]) for row in rows]

    def folders(self) -> set[Path]:
        """Every folder of derivatives that there is."""
        return {path for path in (self.data / "libraries").glob("[0-9][0-9][0-9]/*") if path.is_dir()}

    def make_folder(self, asset_id: int, output: str) -> Path:
        """One that a crash could have left."""
        folder = self.data / f"{home_of_asset(asset_id)}-{output}"
        folder.mkdir(parents=True)
        (folder / "preview.webp").write_bytes(b"left")
        return folder

    async def counts(self, *tables: str) -> Sequence[int]:
        return [int(await self.one(f"select count(*) from {table}")) for table in tables]


@pytest.fixture
def ground(database: Database, tmp_path: Path) -> Ground:
    """A fresh database, an empty data folder, and a place for folders of libraries."""
    return Ground.on(database, tmp_path / "data")
