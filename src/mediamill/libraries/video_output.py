"""What a video's job makes: scenes while it runs, each with the progress that it is; the rest at its end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mediamill.db.connection import Connection
from mediamill.engine.model import ClaimedJob, Moved
from mediamill.libraries.model import facts_text, id_of, output_folder, read_time
from mediamill.libraries.store import queries
from mediamill.staging.kept import forget_kept, kept_folder, list_kept
from mediamill.storage.choose import Place, storage_at
from mediamill.storage.contract import Storage

REASONS = ("phash", "temporal", "forced")
MOST_FRAMES = 10_000
_FRAME = re.compile(r"(scene-\d{5}|frame-\d{9})\.jpg")


def output_of(job_id: int) -> str:
    """A video's output is of its job, whichever attempt made which part."""
    return f"{job_id}-0"


async def begin_videos(place: Place, _connection: Connection, jobs: Sequence[Moved]) -> None:
    """Claimed. If its end was cut off before, the files are where the row does not know them: they come back."""
    for job in jobs:
        target = str(output_folder(id_of(job.subject_id), output_of(job.job_id)))
        await storage_at(place).bring_back(kept_folder(job.job_id), target)


async def keep_scene(connection: Connection, job: ClaimedJob, parts: Mapping[str, Any]) -> None:
    """A scene has ended: its row. Where its attempt stood goes with the job, in the same transaction."""
    scene = parts.get("scene")
    asset_id = id_of(job.subject_id)
    asset = await queries.lock_asset.row(connection, id=asset_id)
    if asset is not None and asset["job_id"] == job.id and isinstance(scene, Mapping):
        await _put_scene(connection, asset_id, job.id, scene)


async def _put_scene(connection: Connection, asset_id: int, job_id: int, scene: Mapping[str, Any]) -> None:
    """Its row, in place of one that an earlier attempt found by other rules; nothing if what was told is no scene."""
    file = str(scene.get("file"))
    if scene.get("keep_reason") not in REASONS or not _FRAME.fullmatch(file):
        return
    await queries.put_scene.run(
        connection,
        asset_id=asset_id,
        number=int(scene["number"]),
        start_ts=float(scene["start_seconds"]),
        end_ts=float(scene["end_seconds"]),
        sharpness=float(scene["sharpness"]),
        keep_reason=scene["keep_reason"],
        rep_frame_path=str(output_folder(asset_id, output_of(job_id)) / file),
    )


async def keep_videos(place: Place, connection: Connection, jobs: Sequence[Moved]) -> None:
    """Proxied: the files are put in place by one rename, and the row says where."""
    for job in jobs:
        asset_id = id_of(job.subject_id)
        asset = await queries.lock_asset.row(connection, id=asset_id)
        if asset is None or asset["job_id"] != job.job_id:  # erased, or changed meanwhile: swept later
            await forget_kept(connection, [job.job_id])
        elif isinstance(job.result, Mapping) and job.result.get("is_video") is False:
            await queries.drop_asset.run(connection, id=asset_id)
        else:
            await _keep_video(storage_at(place), connection, asset_id, job)


async def _keep_video(storage: Storage, connection: Connection, asset_id: int, job: Moved) -> None:
    result = job.result if isinstance(job.result, Mapping) else {}
    folder, own = output_folder(asset_id, output_of(job.job_id)), kept_folder(job.job_id)
    await storage.bring_back(own, str(folder))
    kept = await list_kept(connection, storage, job.job_id)
    names = {one.name for one in kept}
    scenes = int(result.get("scene_count") or 0)
    for one in kept:  # reports may be lost on their way, kept files are not
        if one.facts.get("number", 0) <= scenes:
            await _put_scene(connection, asset_id, job.job_id, one.facts)
    await queries.drop_scenes_after.run(connection, asset_id=asset_id, last=scenes)
    for frame in list(result.get("frames") or ())[:MOST_FRAMES]:
        if _FRAME.fullmatch(str(frame["file"])) and frame["file"] in names:
            await queries.put_frame.run(
                connection,
                asset_id=asset_id,
                timestamp_ms=int(frame["timestamp_ms"]),
                is_keyframe=bool(frame["is_keyframe"]),
                frame_path=str(folder / frame["file"]),
            )
    await queries.keep_video.run(
        connection,
        id=asset_id,
        output=output_of(job.job_id),
        width=_count(result.get("width")),
        height=_count(result.get("height")),
        duration_seconds=_seconds(result.get("duration_seconds")),
        facts=facts_text(result.get("facts")),
        digest=str(result.get("digest") or ""),
        preview=str(folder / "clip.mp4") if "clip.mp4" in names else None,
        segmentation_version=result.get("segmentation_version"),
        taken_at=read_time(result.get("taken_at")),
    )
    await forget_kept(connection, [job.job_id])
    await storage.move_folder(connection, own, str(folder), names)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 < value < 1_000_000 else None


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else None
