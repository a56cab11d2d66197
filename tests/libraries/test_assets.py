"""Assets: pages that are as quick at the end as at the beginning, one with all of it, its files, another try."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from mediamill.db.connection import Connection
from mediamill.libraries.assets import (
    BadListError,
    NoSuchAssetFileError,
    asset_file,
    asset_source,
    list_assets,
    show_asset,
)
from mediamill.libraries.browse import list_names, list_stretch
from mediamill.libraries.cursors import BadCursorError, write_path
from mediamill.libraries.model import UnknownAssetError, UnknownLibraryError, output_folder
from mediamill.libraries.retry import NothingToRetryError, retry_asset, retry_failed
from mediamill.libraries.store import queries
from mediamill.staging.file_names import to_text
from mediamill.staging.inputs import BadFileReferenceError, RootAwayError, find_inside
from tests.libraries.played import IMAGES, VIDEOS, Ground, ground

__all__ = ["ground"]

SPREAD = "update assets set shown_at = timestamp '2024-01-01' + id * interval '10 days'"
Verb = Callable[..., Awaitable[Any]]


async def ask(ground: Ground, verb: Verb, *args: Any, **more: Any) -> Any:
    async with ground.database.transaction() as connection:
        return await verb(connection, *args, **more)


async def pages(ground: Ground, **more: Any) -> list[list[int]]:
    """All pages, one after the other, as ids."""
    found, place = [], None
    while True:
        page = await ask(ground, list_assets, "photos", after=place, **more)
        found.append([asset["id"] for asset in page["assets"]])
        place = page["next"]
        if place is None:
            return found


@pytest.mark.spec("L2", "L19")
async def test_pages_go_through_all_assets_newest_first_and_back_again(ground: Ground) -> None:
    await ground.library(images=5, videos=2)
    await ground.run(SPREAD)
    assert await pages(ground, amount=3) == [[7, 6, 5], [4, 3, 2], [1]]
    first = await ask(ground, list_assets, "photos", amount=3)
    assert first["previous"] is None
    second = await ask(ground, list_assets, "photos", amount=3, after=first["next"])
    back = await ask(ground, list_assets, "photos", amount=3, before=second["previous"])
    assert back["assets"] == first["assets"]
    assert (back["previous"], back["next"]) == (None, first["next"])


async def test_assets_of_the_same_moment_are_all_listed_once(ground: Ground) -> None:
    await ground.library(images=7)
    await ground.run("update assets set shown_at = '2024-05-05'")
    assert await pages(ground, amount=2) == [[7, 6], [5, 4], [3, 2], [1]]


async def test_the_list_can_be_narrowed_to_type_status_and_month(ground: Ground) -> None:
    await ground.library(images=4, videos=2)
    await ground.run(SPREAD)
    await ground.run("update assets set status = 'failed', error = 'no' where id in (1, 5)")
    for narrowed, ids in (
        ({"type": "video"}, [6, 5]),
        ({"status": "failed"}, [5, 1]),
        ({"status": "failed", "type": "image"}, [1]),
        ({"status": "poisoned"}, []),
        ({"month": "2024-01"}, [3, 2, 1]),
        ({"month": "2024-02", "type": "video"}, [5]),
        ({"month": "1999-12"}, []),
    ):
        found = await pages(ground, **narrowed, amount=2)
        assert [id_ for page in found for id_ in page] == ids, narrowed


async def test_a_month_is_narrowed_further_by_a_place(ground: Ground) -> None:
    await ground.library(images=6)
    await ground.run("update assets set shown_at = '2024-05-01'::timestamp + id * interval '1 minute'")
    first = await ask(ground, list_assets, "photos", month="2024-05", amount=4)
    rest = await ask(ground, list_assets, "photos", month="2024-05", amount=4, after=first["next"])
    assert [asset["id"] for asset in rest["assets"]] == [2, 1]
    back = await ask(ground, list_assets, "photos", month="2024-05", amount=1, before=rest["previous"])
    assert [asset["id"] for asset in back["assets"]] == [3]
    assert back["previous"] is not None


async def test_by_path_means_by_the_bytes_of_the_path(ground: Ground) -> None:
    await ground.library(images=3)
    for number, name in ((1, b"\xff.jpg"), (2, b"a.jpg"), (3, b"B.jpg")):
        await ground.run("update assets set rel_path = $2 where id = $1", number, to_text(name))
    assert await pages(ground, order="path", amount=2) == [[3, 2], [1]]
    (last,) = (await ask(ground, list_assets, "photos", order="path", after=write_path("b")))["assets"]
    assert (last["path"], last["name"]) == ("\ufffd.jpg", "\ufffd.jpg")


async def test_a_page_by_path_is_bounded_and_says_where_to_go_on(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mediamill.libraries.assets.WALK", 4)
    await ground.library(images=10)
    await ground.run("update assets set status = 'failed' where id in (2, 9)")
    assert await pages(ground, order="path", status="failed") == [[2], [], [9]]


async def test_what_vanished_is_in_a_list_of_its_own(ground: Ground) -> None:
    await ground.library(images=4)
    await ground.run("update assets set vanished_at = now() where id in (2, 3)")
    assert await pages(ground) == [[4, 1]]
    assert await pages(ground, vanished=True, amount=1) == [[3], [2]]
    assert await pages(ground, order="path", vanished=True) == [[2, 3]]


@pytest.mark.spec("L14")
async def test_nothing_of_a_library_in_the_trash_can_be_seen(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.complete()
    output = await ground.one("select output from assets")
    await ask(ground, asset_file, 1, output, "preview.webp")
    await ground.remove()
    with pytest.raises(UnknownLibraryError):
        await ask(ground, list_assets, "photos")
    for verb, args in (
        (show_asset, ()),
        (retry_asset, ()),
        (asset_source, ()),
        (asset_file, (output, "preview.webp")),
    ):
        with pytest.raises(UnknownAssetError):
            await ask(ground, verb, 1, *args)
    await ground.restore()
    assert (await ask(ground, show_asset, 1))["status"] == "completed"


@pytest.mark.parametrize(
    "wrong",
    [
        {"after": "x", "before": "y"},
        {"order": "path", "before": "x"},
        {"order": "path", "month": "2024-05"},
        {"vanished": True, "month": "2024-05"},
        {"type": "sound"},
        {"status": "gone"},
    ],
)
async def test_a_list_that_makes_no_sense_is_refused(ground: Ground, wrong: dict[str, Any]) -> None:
    await ground.library()
    with pytest.raises(BadListError):
        await ask(ground, list_assets, "photos", **wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"after": "%%%"},
        {"after": "e30"},
        {"after": write_path("a")},
        {"before": "WyJ0IiwgMWUzMDAsIDFd"},
        {"after": "WyJ0IiwgOTk5OTk5OTk5OTk5OTk5OTk5OTksIDFd"},
        {"order": "path", "after": "W10"},
        {"order": "path", "after": "WyJwIiwgIlx1MDAwMCJd"},
        {"month": "2024-13"},
        {"month": "9999-12"},
        {"month": "0001-01"},
        {"month": "yesterday"},
    ],
)
async def test_a_place_that_nobody_gave_is_refused(ground: Ground, wrong: dict[str, Any]) -> None:
    await ground.library()
    with pytest.raises(BadCursorError):
        await ask(ground, list_assets, "photos", **wrong)


@pytest.mark.spec("L2", "L11")
async def test_an_image_is_shown_with_its_tags_and_who_gave_them(ground: Ground) -> None:
    await ground.library(images=3)
    await ground.complete()
    await ground.run(SPREAD)
    shown = await ask(ground, show_asset, 2)
    assert (shown["status"], shown["description"]) == ("completed", "a harbour")
    assert shown["tags"] == [{"label": "harbour", "score": 0.9}]
    assert shown["tagger"] == await ground.one("select name from ai_models where task = 'vision'")
    assert (shown["library_slug"], shown["library_name"]) == ("photos", "Photos")
    assert (shown["newer"], shown["older"]) == (3, 1)
    assert shown["thumbnail_url"] == f"/api/assets/2/files/{shown['output']}/thumbnail.jpg"
    assert (shown["clip_url"], shown["scenes"], shown["job"]) == (None, [], None)
    assert [(await ask(ground, show_asset, id_))["newer"] for id_ in (1, 3)] == [2, None]
    assert (await ask(ground, show_asset, 1))["older"] is None


@pytest.mark.spec("L6", "L11")
async def test_a_video_is_shown_with_its_scenes_and_their_frames(ground: Ground) -> None:
    await ground.library(videos=1)
    await ground.feed()
    (job,) = await ground.claim(pool=VIDEOS)
    await ground.close_scene(job, 1)
    running = await ask(ground, show_asset, 1)
    assert (running["status"], running["job"]["kind"]) == ("extracting", "library.video")
    assert [scene["frame_url"] for scene in running["scenes"]] == [None], "its file is not in place yet"
    await ground.play_video(job)
    await ground.complete()
    shown = await ask(ground, show_asset, 1)
    assert [(scene["start_ts"], scene["end_ts"]) for scene in shown["scenes"]] == [(5.0, 10.0), (10.0, 15.0)]
    assert {scene["tagger"] for scene in shown["scenes"]} == {shown["tagger"]}
    urls = [scene["frame_url"] for scene in shown["scenes"]]
    assert urls == [f"/api/assets/1/files/{shown['output']}/scene-0000{number}.jpg" for number in (1, 2)]
    assert shown["clip_url"].endswith("/clip.mp4")
    await ground.run('update video_scenes set metadata = \'{"text": "KEEP OUT"}\' where number = 2')
    first, second = (await ask(ground, show_asset, 1))["scenes"]
    assert (first["tags"], first["text"], second["text"]) == (
        [{"label": "harbour", "score": 0.9}],
        None,
        "KEEP OUT",
    )
    hidden = {"rep_frame_path", "metadata", "frame_path"}
    assert not hidden & {*first, *(await ask(ground, show_asset, 1))}


@pytest.mark.spec("L9")
async def test_the_frames_of_a_sampled_video_are_shown(ground: Ground) -> None:
    await ground.library(videos=1)
    await ground.complete()
    path = output_folder(1, await ground.one("select output from assets")) / "frame-000001500.jpg"
    await ground.run(
        "insert into video_frames (asset_id, library, timestamp_ms, is_keyframe, frame_path) "
        "values (1, 1, 1500, true, $1)",
        str(path),
    )
    (frame,) = (await ask(ground, show_asset, 1))["frames"]
    assert (frame["seconds"], frame["is_keyframe"], frame["tags"]) == (1.5, True, [])
    assert frame["frame_url"].endswith("/frame-000001500.jpg")


async def test_an_asset_that_is_not_there_is_unknown(ground: Ground) -> None:
    with pytest.raises(UnknownAssetError):
        await ask(ground, show_asset, 99)


@pytest.mark.spec("L2")
async def test_only_what_failed_is_tried_again_and_from_the_beginning(ground: Ground) -> None:
    await ground.library(images=2)
    await ground.feed()
    with pytest.raises(NothingToRetryError, match="pending"):
        await ask(ground, retry_asset, 1)
    for job in await ground.claim(pool=IMAGES, amount=2):
        await ground.fail(job, "no image", permanent=True)
    await ground.run("update assets set retry_count = 6, status = 'poisoned' where id = 2")
    for asset_id in (1, 2):
        await ask(ground, retry_asset, asset_id)
    rows = await ask(ground, list_assets, "photos")
    assert [(row["status"], row["retry_count"], row["error"]) for row in rows["assets"]] == [
        ("pending", 0, None)
    ] * 2
    await ground.complete()
    assert await ground.counts("assets where status = 'completed'") == [2]


async def test_all_that_failed_is_tried_again_so_many_at_a_time(ground: Ground) -> None:
    await ground.library("Others", images=1)
    await ground.library(images=5)
    await ground.run("update assets set status = 'failed'")
    assert [await ask(ground, retry_failed, "photos", 3) for _ in range(3)] == [3, 2, 0]
    assert await ground.counts("assets where status = 'failed'") == [1]
    with pytest.raises(UnknownLibraryError):
        await ask(ground, retry_failed, "nothing")


@pytest.mark.parametrize(
    ("output", "name"),
    [
        ("1-0", "../../secret"),
        ("../1-0", "preview.webp"),
        ("1-0", "preview.webp\n"),
        ("1-0/..", "preview.webp"),
        ("1-", "clip.mp4"),
        ("1-0", "scene-1.jpg"),
        ("1-0", ""),
    ],
)
async def test_only_names_of_derivatives_are_names_of_files(ground: Ground, output: str, name: str) -> None:
    await ground.library(images=1)
    with pytest.raises(NoSuchAssetFileError):
        await ask(ground, asset_file, 1, output, name)


@pytest.mark.spec("L13")
async def test_files_are_below_the_shard_of_the_asset(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.run(
        "insert into assets (id, library, folder, rel_path, type, mtime_ns, size, inode, shown_at) "
        "overriding system value select 1000417, library, folder, 'x', type, 0, 1, 1, now() from assets"
    )
    path = await ask(ground, asset_file, 1000417, "12-0", "scene-00007.jpg")
    assert path == PurePosixPath("libraries/417/1000417-12-0/scene-00007.jpg")


async def test_the_source_is_found_below_its_folder_and_by_no_link(ground: Ground, tmp_path: Path) -> None:
    await ground.library(images=1)
    root, inside = await ask(ground, asset_source, 1)
    file = Path(root) / inside
    file.write_bytes(b"an image")
    assert find_inside(root, inside) == file
    file.unlink()
    file.symlink_to("/etc/passwd")
    with pytest.raises(BadFileReferenceError):
        find_inside(root, inside)
    with pytest.raises(RootAwayError):
        find_inside(str(tmp_path / "unmounted"), inside)


@pytest.mark.spec("L19")
async def test_a_page_reads_only_the_index_and_its_own_rows(ground: Ground) -> None:
    """However many there are, and whatever is asked for: so many entries of the index, so many rows."""
    await ground.library(images=20_000, videos=200)
    await ground.run(SPREAD.replace("10 days", "1 minute"))
    await ground.run("update assets set status = 'completed'")
    await ground.run("vacuum analyze assets")
    async with ground.database.connection() as connection:
        for types, statuses in (
            (["image", "video"], ["pending", "completed", "failed"]),
            (["video"], ["completed"]),
            (["image"], ["failed"]),
        ):
            for name in ("list_older", "list_newer"):
                await _check_plan(connection, name, types, statuses)


async def _check_plan(connection: Connection, name: str, types: list[str], statuses: list[str]) -> None:
    query = getattr(queries, name)
    middle = datetime(2024, 1, 8)
    given = {"library": 1, "types": types, "statuses": statuses, "amount": 50}
    given |= (
        {"until": middle, "until_id": 1} if name == "list_older" else {"until": None, "until_id": 2**63 - 1}
    )
    given |= {"since": middle, "since_id": 1} if name == "list_newer" else {"since": None, "since_id": 0}
    plan = await connection.fetch(
        f"explain (analyze, buffers, costs off, timing off) {query.sql}", *query.arguments(given)
    )
    text = "\n".join(row[0] for row in plan)
    assert "Seq Scan" not in text, text
    assert "assets_newest" in text, text
    touched = sum(int(word) for word in text.split("Buffers: shared hit=")[1].split()[:1])
    assert touched < 600, text


@pytest.mark.spec("L2")
async def test_what_is_told_of_an_asset_has_addresses_names_and_its_job_and_nothing_for_machines(
    ground: Ground,
) -> None:
    await ground.library(images=2)
    await ground.run("update assets set rel_path = 'a/b/' || id || '.jpg'")
    fresh = await ask(ground, show_asset, 1)
    assert (fresh["path"], fresh["name"]) == ("a/b/1.jpg", "1.jpg")
    assert [fresh[f"{name}_url"] for name in ("thumbnail", "preview", "clip")] == [None] * 3
    assert (fresh["tags"], fresh["facts"], fresh["job"], fresh["frames"]) == ([], {}, None, [])
    await ground.feed()
    jobs = {job.subject_id: job for job in await ground.claim(pool=IMAGES, amount=2)}
    job = jobs["1"]
    running = await ask(ground, show_asset, 1)
    assert {name: running["job"][name] for name in ("id", "kind", "state", "attempts")} == {
        "id": job.id,
        "kind": "library.image",
        "state": "running",
        "attempts": 1,
    }
    assert set(running["job"]) == {
        *("id", "kind", "state", "step", "percent", "attempts", "max_attempts", "worker_name", "error")
    }
    await ground.play_image(job)
    done = await ask(ground, show_asset, 1)
    files = f"/api/assets/1/files/{done['output']}"
    assert done["thumbnail_url"] == f"{files}/thumbnail.jpg"
    assert (done["preview_url"], done["clip_url"]) == (f"{files}/preview.webp", None)
    page = await ask(ground, list_assets, "photos")
    hidden = {"video_preview_path", "library", "job_id", "tags", "facts", "job_kind", "job_state", "step"}
    for told in (done, *page["assets"]):
        assert not (hidden - {"tags", "facts"}) & set(told)
    assert not {"tags", "facts"} & set(page["assets"][0])


async def test_refusals_have_their_codes_and_say_what_there_is(ground: Ground) -> None:
    await ground.library(images=1)
    with pytest.raises(BadListError, match="'audio' is none of image, video") as bad:
        await ask(ground, list_assets, "photos", type="audio")
    with pytest.raises(NothingToRetryError, match="asset 1 is pending") as nothing:
        await ask(ground, retry_asset, 1)
    with pytest.raises(NoSuchAssetFileError) as no_file:
        await ask(ground, asset_file, 1, "1-1", "passwords.txt")
    with pytest.raises(UnknownAssetError, match="there is no asset 9") as unknown:
        await ask(ground, asset_source, 9)
    with pytest.raises(UnknownLibraryError) as no_library:
        await ask(ground, list_assets, "nothing")
    codes = [refused.value.code for refused in (bad, nothing, no_file, unknown, no_library)]
    assert codes == ["bad_list", "nothing_to_retry", "no_such_file", "unknown_asset", "unknown_library"]
    assert await ask(ground, asset_file, 1, "1-1", "preview.webp") == PurePosixPath(
        "libraries/001/1-1-1/preview.webp"
    )


@pytest.mark.spec("L19")
async def test_a_hundred_are_on_a_page_and_a_stretch_goes_on_from_any_place(ground: Ground) -> None:
    await ground.library(images=101)
    await ground.run(SPREAD)
    page = await ask(ground, list_assets, "photos")
    assert [asset["id"] for asset in page["assets"]] == list(range(101, 1, -1))
    stretch = await ask(ground, list_stretch, "photos")
    assert [asset["id"] for asset in stretch["assets"]] == list(range(101, 1, -1))
    assert stretch["more"] is True
    rest = await ask(ground, list_stretch, "photos", after=stretch["last"])
    assert ([asset["id"] for asset in rest["assets"]], rest["more"]) == ([1], False)
    some = await ask(ground, list_stretch, "photos", skip=99, amount=2)
    assert ([asset["id"] for asset in some["assets"]], some["more"]) == ([2, 1], False)
    month = await ask(ground, list_stretch, "photos", month="2024-02")
    assert [asset["id"] for asset in month["assets"]] == [5, 4]
    nothing = await ask(ground, list_stretch, "photos", types=["video"])
    assert nothing == {"assets": [], "last": None, "more": False}
    assert await ask(ground, list_names) == [{"slug": "photos", "name": "Photos"}]
