"""Jobs about files, from the claim to the derivatives: real pools, real processors, real children."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mediamill.db.connection import Database
from mediamill.engine.dead import requeue_dead
from mediamill.engine.kinds import JobKind, Run
from mediamill.engine.model import NewJob
from mediamill.engine.rules import Engine
from mediamill.engine.settle import bury_jobs
from mediamill.staging import staging_folder
from mediamill.staging.derivatives import sweep_derivatives
from mediamill.staging.jobs import KINDS, PROCESS
from mediamill.testing.model_server import failing, rate_limited
from mediamill.testing.openai_server import DESCRIPTION, OpenAiServer
from mediamill.worker.loop import Worker
from tests.conftest import wait_until
from tests.worker.working import Ground

SHIPPED = ("documents", "image", "stickers", "corrupt", "unsupported")


@pytest.fixture
async def media(database: Database, tmp_path: Path) -> Ground:
    """A ground with the pools that are shipped and the kind that processes files."""
    ground = Ground(database, tmp_path)
    for kind in KINDS:
        ground.engine.kinds.add(kind)
    return ground


def working(media: Ground) -> AbstractAsyncContextManager[Worker]:
    """A worker for these pools alone: each begins a process."""
    return media.working(pools=SHIPPED)


async def add(ground: Ground, file: Path | None, mime_type: str, **payload: Any) -> int:
    about = {"file": {"path": str(file)}} if file is not None else {}
    async with ground.database.transaction() as connection:
        return await ground.enqueuer.enqueue_job(
            connection, NewJob(PROCESS, {**about, **payload}, mime_type=mime_type)
        )


async def result_of(ground: Ground, id_: int) -> dict[str, Any]:
    await ground.until(id_, "finished")
    found: dict[str, Any] = json.loads(
        await ground.one("select result from finished_jobs where id = $1", id_)
    )
    return found


@pytest.mark.spec("C29")
async def test_a_text_that_is_claimed_to_be_an_image_is_read_as_the_text_that_it_is(
    media: Ground, tmp_path: Path
) -> None:
    file = tmp_path / "holiday.jpg"
    file.write_text("Dear Ada,\nthe beach is lovely.\n")
    async with working(media):
        id_ = await add(media, file, "image/jpeg")
        result = await result_of(media, id_)
    assert "the beach is lovely" in result["content"]
    assert (result["mime_type"], result["claimed_mime_type"]) == ("text/plain", "image/jpeg")
    done = await media.row("select pool, mime_type, attempts from finished_jobs where id = $1", id_)
    assert done == {"pool": "documents", "mime_type": "text/plain", "attempts": 1}


@pytest.mark.spec("C29", "C28")
async def test_a_type_that_nobody_knows_is_looked_at_before_it_is_refused(
    media: Ground, tmp_path: Path
) -> None:
    text, program = tmp_path / "note.xyz", tmp_path / "photo.jpg"
    text.write_text("plain words\n")
    program.write_bytes(b"\x7fELF" + bytes(500))
    async with working(media):
        read = await add(media, text, "application/x-unheard-of")
        refused = await add(media, program, "image/jpeg", caption="look")
        assert "plain words" in (await result_of(media, read))["content"]
        await media.until(refused, "dead")
    dead = await media.row("select reason, error, notice, pool from dead_jobs where id = $1", refused)
    real = dead["error"].removeprefix("unsupported mime type: ")
    assert dead == {
        "reason": "permanent",
        "error": f"unsupported mime type: {real}",
        "notice": f"[Unsupported {real} media] look",
        "pool": "unsupported",
    }
    assert real.startswith("application/x-")


@pytest.mark.spec("C27")
async def test_what_could_not_be_downloaded_is_told_and_goes_to_the_dead_letter(media: Ground) -> None:
    async with working(media):
        id_ = await add(media, None, "media_corrupt_image", caption="us at the lake")
        await media.until(id_, "dead")
    dead = await media.row("select error, notice from dead_jobs where id = $1", id_)
    assert dead == {
        "error": "download failed — image corrupted",
        "notice": "[Corrupted image media could not be downloaded] us at the lake",
    }


@pytest.mark.spec("C25", "E7")
async def test_time_limits_and_damage_are_told_to_the_sender_in_words(media: Ground, tmp_path: Path) -> None:
    broken, empty = tmp_path / "broken.png", tmp_path / "empty"
    broken.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    empty.touch()
    await media.pool("stickers", processor="scripted", timeout_seconds=1)
    async with working(media):
        late = await add(media, None, "image/webp", do="hang")
        damaged = await add(media, broken, "image/png")
        nothing = await add(media, empty, "image/png")
        for id_ in (late, damaged, nothing):
            await media.until(id_, "dead")
    notices = [
        await media.one("select notice from dead_jobs where id = $1", id_) for id_ in (late, damaged, nothing)
    ]
    assert notices[0] == "[Processing timed out]"
    dead = await media.row("select error, attempts from dead_jobs where id = $1", late)
    assert dead == {"error": "TIMEOUT: scripted processing exceeded 1s", "attempts": 1}  # after one limit
    assert notices[1].startswith("[The PNG image")
    assert notices[2] == "[The file is empty (0 bytes)]"


@pytest.mark.spec("E7", "C26")
async def test_a_model_server_that_refuses_for_a_moment_is_asked_again_within_the_one_attempt(
    media: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "picture.png"
    Image.new("RGB", (90, 60), (200, 30, 40)).save(file)
    with OpenAiServer() as model:
        monkeypatch.setenv("MEDIAMILL_VISION", "openai")  # for the child
        monkeypatch.setenv("MEDIAMILL_OPENAI_URL", f"{model.url}/v1")
        model.then(failing(503), rate_limited(0.1))
        async with media.working(pools=("image",)):
            result = await result_of(media, id_ := await add(media, file, "image/png"))
        assert DESCRIPTION in result["content"]
        assert len(model.seen) == 3
    assert await media.one("select attempts from finished_jobs where id = $1", id_) == 1


@pytest.mark.spec("E16", "C25")
async def test_an_edit_of_its_pool_while_it_runs_costs_a_file_no_attempt(media: Ground) -> None:
    await media.pool("stickers", processor="scripted")
    async with working(media) as worker:
        late = await add(media, None, "image/webp", do="hang")
        await media.until_sql("select count(*) = 1 from jobs where id = $1 and step = 'hanging'", late)
        matches = ("image/webp", "image/x-sticker")
        await media.pool("stickers", matches=list(matches))
        await media.until_in_force(worker, "stickers", matches=matches)
        await add(media, None, "image/x-sticker", do="succeed")
        await media.until(late, "scheduled")
    put_off = await media.row("select attempts, error from jobs where id = $1", late)
    assert put_off["attempts"] == 0
    assert put_off["error"] is not None


def stage(media: Ground, guid: str, content: bytes) -> dict[str, Any]:
    """A staged file, and what the payload of its job says of it."""
    staged = staging_folder(media.folder) / guid
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.write_bytes(content)
    return {"file": {"staged": guid}}


def left_files(media: Ground) -> list[str]:
    return sorted(str(path.relative_to(media.folder)) for path in media.folder.glob("*_media/*"))


@pytest.mark.spec("C25", "C27", "C28")
async def test_a_file_that_cannot_be_used_is_deleted_at_once_and_only_another_is_kept(media: Ground) -> None:
    media.engine.kinds.add(JobKind("test.owner", owns_input=True))
    media.engine.kinds.add(JobKind("test.other", owns_input=True))
    await media.pool("scripted", matches=["test.other"], processor="scripted", max_attempts=1)
    jobs = {
        "unsupported": ("test.owner", "application/x-elf", b"\x7fELF" + bytes(500)),
        "corrupt": ("test.owner", "media_corrupt_image", b"half of an image"),
        "damaged": ("test.owner", "image/png", b"\x89PNG\r\n\x1a\n" + bytes(100)),
        "unlucky": ("test.other", None, b"whatever"),
    }
    async with media.working(pools=(*SHIPPED, "scripted")):
        async with media.database.transaction() as connection:
            for guid, (kind, mime_type, content) in jobs.items():
                payload = {**stage(media, guid, content), "do": "raise_temporary"}
                await media.enqueuer.enqueue_job(
                    connection, NewJob(kind, payload, subject_id=guid, mime_type=mime_type)
                )
        await media.until_sql("select count(*) = 4 from dead_jobs")

        async def left() -> bool:
            return left_files(media) == ["failed_media/unlucky"]

        await wait_until(left, 30)
    async with media.database.transaction() as connection:
        assert len(await requeue_dead(connection, media.engine, None)) == 1
    assert await media.one("select subject_id from jobs") == "unlucky"


@pytest.mark.spec("E11", "C25")
@pytest.mark.parametrize("end", ["finish", "fail"])
async def test_a_late_worker_whose_job_is_gone_deletes_the_file_unless_a_job_names_it(
    media: Ground, end: str
) -> None:
    late = asyncio.Event()

    async def work(_run: Run) -> None:
        await late.wait()
        if end == "fail":
            raise RuntimeError("broken")

    media.engine.kinds.add(JobKind("test.late", handler=work, owns_input=True))
    await media.pool("default", concurrency=2)
    async with media.working(pools=("default",)) as worker:
        async with media.database.transaction() as connection:
            for guid in ("gone", "dead"):
                job = NewJob("test.late", stage(media, guid, b"x"), subject_id=guid)
                await media.enqueuer.enqueue_job(connection, job)
        await media.until_running(2)
        async with media.database.transaction() as connection:
            rows = await connection.fetch("select * from jobs where subject_id = 'dead' for update")
            await bury_jobs(connection, Engine(), rows, "max_attempts_exhausted")
            await connection.execute("delete from jobs")
        late.set()

        async def settled() -> bool:
            return not worker._lanes["default"].held and "pending_media/gone" not in left_files(media)

        await wait_until(settled, 30)
    assert left_files(media) == ["pending_media/dead"]


@pytest.mark.spec("C25")
async def test_a_file_that_is_gone_ends_the_job_at_once(media: Ground, tmp_path: Path) -> None:
    async with working(media):
        id_ = await add(media, tmp_path / "gone.png", "image/png")
        await media.until(id_, "dead")
    dead = await media.row("select reason, error from dead_jobs where id = $1", id_)
    assert dead == {"reason": "permanent", "error": "the file 'gone.png' is not there (any more)"}


@pytest.mark.spec("L4")
async def test_derivatives_are_kept_as_long_as_their_job_and_no_longer(media: Ground, tmp_path: Path) -> None:
    file = tmp_path / "picture.png"
    Image.new("RGB", (900, 600), (200, 30, 40)).save(file)
    async with working(media):
        result = await result_of(media, id_ := await add(media, file, "image/png", previews=True))
    assert {"preview.webp", "thumbnail.jpg"} <= result["files"].keys()
    kept = media.folder / result["files"]["preview.webp"]["path"]
    assert kept.stat().st_size == result["files"]["preview.webp"]["bytes"]
    assert Image.open(kept).size == (768, 512)
    lost = kept.parent.with_name(f"{id_}-1")  # of a claim that was lost
    lost.mkdir()
    for folder in (lost, kept.parent):
        os.utime(folder, (0, 0))
    assert await sweep_derivatives(media.database, media.folder) == 1
    assert kept.exists()
    async with media.database.connection() as connection:
        await connection.execute("delete from finished_jobs")
    assert await sweep_derivatives(media.database, media.folder) == 1
    assert not kept.parent.exists()


@pytest.mark.parametrize(
    "file",
    [
        {"path": "relative/path"},
        {"path": "/nul\0"},
        {"staged": "../../etc/passwd"},
        {"staged": "a/b"},
        {"path_base64": "!"},
        {"path_base64": "ZXRj"},
        ["/etc/passwd"],
        17,
    ],
)
async def test_a_reference_that_is_none_is_refused(tmp_path: Path, file: Any) -> None:
    from mediamill.staging.inputs import BadFileReferenceError, find_input

    with pytest.raises(BadFileReferenceError):
        find_input(tmp_path, {"file": file})
