"""A library for the page tests: pictures, videos with scenes, hostile names; or hundreds of thousands of rows only."""

from __future__ import annotations

import io
import json
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import av
import numpy as np
from PIL import Image
from playwright.async_api import Page

from mediamill.db.connection import Connection
from mediamill.libraries.add import add_library
from mediamill.libraries.model import output_folder
from tests.api.serving import Served
from tests.conftest import wait_until
from tests.ui.filming import PHOTO, make_clip

SAMPLE, CAT = PHOTO.with_name("video.mp4"), PHOTO.parents[1] / "tests" / "media" / "cat.jpg"
OUTPUT = "7-1"
TAGGER = "mobilenet-ssd@2020"
XSS = "<img src=x onerror=window.hurt=1>.jpg"
RTL = "\u202egpj.elif \u05e9\u05dc\u05d5\u05dd.jpg"
TAGS = [
    {"label": "beach", "score": 0.93},
    {"label": "dog", "score": 0.81},
    {"label": "surf board", "score": 0.4},
]
FACTS = {
    "taken_at": "2024-08-03T17:21:00+02:00",
    "taken_from": "exif_offset",
    "camera": "FUJIFILM X-T4",
    "lens": "XF35mmF1.4 R",
    "f_number": 2.8,
    "exposure_seconds": 0.004,
    "iso": 160,
    "focal_length_mm": 35,
    "gps": {"latitude": 43.7102, "longitude": 7.262},
    "text": "HARBOUR CAFE\nopen till late",
}
SCENES = ((0.0, 2.1), (2.1, 5.0), (5.0, 6.2), (6.2, 8.0))


@cache
def photos() -> list[Image.Image]:
    """A rocket, an astronaut, a coffee and a cat."""
    with av.open(str(SAMPLE)) as film:
        frames = {int(frame.time or 0): frame for frame in film.decode(video=0)}
    seen = [Image.fromarray(frames[second].to_ndarray(format="rgb24")) for second in (2, 5)]
    return [*seen, Image.open(PHOTO).convert("RGB"), Image.open(CAT).convert("RGB")]


@cache
def picture(number: int, edge: int = 320, kind: str = "JPEG") -> bytes:
    """One of many that differ in light and detail."""
    photo = photos()[number % 4]
    wide, high = photo.size
    part = photo.crop(
        (
            wide * (number % 5) // 9,
            high * (number % 3) // 7,
            wide * (5 + number % 5) // 9,
            high * (5 + number % 3) // 7,
        )
    )
    part.thumbnail((edge, edge))
    dice = np.random.default_rng(number)
    lit = np.clip(np.asarray(part) * dice.uniform(0.75, 1.15), 0, 255).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(lit).save(out, kind, quality=80)
    return out.getvalue()


@cache
def clip() -> bytes:
    """A head clip."""
    with TemporaryDirectory() as folder:
        return make_clip(Path(folder) / "clip.mp4", 320, 180, seconds=8).read_bytes()


async def picture_library(
    served: Served, folder: Path, name: str = "Holidays", pictures: int = 40
) -> dict[str, Any]:
    """A library of several months with real thumbnails: `slug`, and the ids of some assets by what they show."""
    make_folder(folder)
    async with served.database.transaction() as connection:
        slug = await add_library(connection, name, str(folder))
        number = await connection.fetchval("select number from libraries where slug = $1", slug)
        model = await connection.fetchval(
            "insert into ai_models (name, task, engine) values ($1, 'vision', 'local') "
            "on conflict (name) do update set engine = 'local' returning id",
            TAGGER,
        )
        names = [
            XSS,
            RTL,
            "film/the harbour.mp4",
            "broken.jpg",
            "waiting.jpg",
            "a very " + "long " * 30 + "name.jpg",
        ]
        names += [f"2024/walk/{index:04}.jpg" for index in range(pictures - len(names))]
        ids = {}
        for index, path in enumerate(names):
            ids[path] = await _add(connection, number, path, index, model)
        await connection.execute(
            "update libraries set scanned_at = now() - interval '3 minutes', scan_counts = $2 where slug = $1",
            slug,
            json.dumps(
                {"folders": 12, "files": pictures, "new": 5, "unchanged": pictures - 5, "warnings": []}
            ),
        )
    data = served.app.state.deps.settings.data_folder
    for index, (path, asset_id) in enumerate(ids.items()):
        if path not in ("broken.jpg", "waiting.jpg"):
            _write(data, asset_id, index, video=path.endswith(".mp4"))
    (folder / "film").mkdir(exist_ok=True)
    (folder / "film" / "the harbour.mp4").write_bytes(clip())
    return {"slug": slug, "number": number, "ids": ids, "film": ids["film/the harbour.mp4"]}


async def _add(connection: Connection, library: int, path: str, index: int, model: int) -> int:
    video, bare = path.endswith(".mp4"), path in ("broken.jpg", "waiting.jpg")
    status = {"broken.jpg": "failed", "waiting.jpg": "pending"}.get(path, "completed")
    asset_id: int = await connection.fetchval(
        "insert into assets (library, folder, rel_path, type, mtime_ns, size, inode, shown_at, status, output, width, "
        "height, duration_seconds, video_preview_path, description, tags, tags_model_id, facts, error, search_vector) "
        "values ($1, 1, $2, $3, 0, 2345678, $4, $5, $6, $7, 4000, 3000, $8, $9, $10, $11, $12, $13, $14, "
        "findable($10, $11::jsonb, $2, null)) returning id",
        library,
        path,
        "video" if video else "image",
        index,
        datetime(2024, 8, 28, 12) - timedelta(days=2.3 * index),
        status,
        None if bare else OUTPUT,
        8.0 if video else None,
        "clip.mp4" if video else None,
        None if bare else "A dog runs along the beach while the sun goes down",
        None if bare else json.dumps(TAGS),
        None if bare else model,
        json.dumps(FACTS if not bare else {}),
        "the file ends in the middle of a picture" if status == "failed" else None,
    )
    if video:
        await _add_scenes(connection, asset_id, model)
    return asset_id


async def _add_scenes(connection: Connection, asset_id: int, model: int) -> None:
    for number, (start, end) in enumerate(SCENES, 1):
        said = ("Boats in a harbour", "A market behind a wall", "Oranges and bread", "The bay from above")[
            number - 1
        ]
        await connection.execute(
            "insert into video_scenes (library, asset_id, number, start_ts, end_ts, sharpness_score, keep_reason, "
            "rep_frame_path, description, tags, tags_model_id, metadata, search_vector) "
            "values ((select library from assets where id = $1), $1, $2, $3, $4, 9, 'phash', $5, $6, $7, "
            "$8, $9, findable($6, $7::jsonb, null, null))",
            asset_id,
            number,
            start,
            end,
            str(output_folder(asset_id, OUTPUT) / f"scene-{number:05}.jpg"),
            said,
            json.dumps([{"label": "boat", "score": 0.7}]),
            model,
            json.dumps({"text": "FISH MARKET" if number == 2 else None}),
        )


def make_folder(folder: Path) -> None:
    """For a library."""
    folder.mkdir(exist_ok=True)


def _write(data: Path, asset_id: int, index: int, *, video: bool) -> None:
    folder = data / output_folder(asset_id, OUTPUT)
    folder.mkdir(parents=True)
    (folder / "thumbnail.jpg").write_bytes(picture(index))
    (folder / "preview.webp").write_bytes(picture(index, 768, "WEBP"))
    if video:
        (folder / "clip.mp4").write_bytes(clip())
        for number in range(1, len(SCENES) + 1):
            (folder / f"scene-{number:05}.jpg").write_bytes(picture(50 + number))


async def many_rows(served: Served, folder: Path, amount: int, *, name: str = "Everything") -> str:
    """So many assets, without any file: ten minutes apart, so that a month has about 4,400."""
    make_folder(folder)
    async with served.database.transaction() as connection:
        slug = await add_library(connection, name, str(folder))
        await connection.execute(
            "insert into assets (library, folder, rel_path, type, mtime_ns, size, inode, shown_at, status, "
            "duration_seconds) select l.number, 1, 'p/' || lpad(n::text, 8, '0') || '.jpg', "
            "case when n % 10 = 0 then 'video' else 'image' end, 0, 1000, n, "
            "timestamp '2025-06-15 12:00' - n * interval '10 minutes', 'completed', "
            "case when n % 10 = 0 then 12.5 end from libraries l, generate_series(0, $2::int - 1) n where l.slug = $1",
            slug,
            amount,
        )
        await connection.execute("update libraries set scanned_at = now() where slug = $1", slug)
    async with served.database.connection() as connection:
        await connection.execute("vacuum analyze assets")
    return slug


async def until_filled(page: Page) -> None:
    """Everything in the window has come."""

    async def is_filled() -> bool:
        return bool(
            await page.evaluate(
                "(() => { const seen = [...document.querySelectorAll('.virtual .cell')].filter(cell => { const box ="
                " cell.getBoundingClientRect(); return box.bottom > 0 && box.top < innerHeight });"
                " return seen.length > 0 && seen.every(cell => cell.querySelector('a')) })()"
            )
        )

    await wait_until(is_filled)
