"""Libraries over HTTP: add, list, show, edit, pause, scan, lists of assets, months, the trash."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.db.connection import Database
from mediamill.libraries.jobs import library_kinds
from mediamill.libraries.scan_job import scan_kinds
from mediamill.settings import Settings
from tests.api.serving import SECRET, Served, serve
from tests.libraries.played import IMAGES, Ground, ground

__all__ = ["ground"]


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    """A server that knows the kinds of libraries."""
    kinds = (*library_kinds(Settings()), *scan_kinds(Settings(), database))
    async with serve(database, tmp_path / "data", kinds) as served:
        yield served


async def ask(served: Served, method: str, path: str, status: int = 200, **more: Any) -> Any:
    answer = await served.client.request(method, path, **more)
    assert answer.status_code == status, answer.text
    if status >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()


@pytest.mark.spec("L1")
async def test_a_library_is_added_shown_listed_and_edited(served: Served, ground: Ground) -> None:
    wish = {"name": "My Photos", "path": str(ground.root), "rescan_seconds": 900, "scan": False}
    added = await ask(served, "POST", "/api/libraries", 201, json=wish)
    assert (added["slug"], added["absolute_path"], added["scan_status"]) == (
        "my-photos",
        str(ground.root),
        "idle",
    )
    assert await ask(served, "GET", "/api/libraries/my-photos") == added
    assert (await ask(served, "GET", "/api/libraries"))["libraries"] == [added]
    change = {"name": "Pictures", "mode": "windows", "rescan_seconds": 0}
    edited = await ask(served, "PATCH", "/api/libraries/my-photos", json=change)
    assert (edited["name"], edited["rescan_seconds"]) == ("Pictures", None)
    assert edited["sampling_policy"] == {"mode": "windows"}


@pytest.mark.spec("L1", "L3")
async def test_a_scan_is_asked_for_with_the_library_or_later(served: Served, ground: Ground) -> None:
    wish = {"name": "Photos", "path": str(ground.root)}
    assert (await ask(served, "POST", "/api/libraries", 201, json=wish))["scan_status"] == "scan_req"
    assert await ground.counts("jobs where kind = 'library.scan'") == [1]
    asked = await ask(served, "POST", "/api/libraries/photos/scan", 202)
    assert asked["scan_status"] == "scan_req"
    assert await ground.counts("jobs where kind = 'library.scan'") == [1], "one is enough"


async def test_what_cannot_be_a_library_is_refused_with_what_to_do(served: Served, ground: Ground) -> None:
    await ground.library()
    for wish, status, code in (
        ({"name": "Photos", "path": str(ground.root)}, 409, "library_exists"),
        ({"name": "Others", "path": str(ground.root / "Photos")}, 409, "library_exists"),
        ({"name": "Others", "path": "/nowhere/at/all"}, 422, "bad_library"),
        ({"name": "Others", "path": "photos"}, 422, "bad_library"),
        ({"name": "照片", "path": str(ground.root)}, 422, "bad_library"),
        ({"name": "", "path": str(ground.root)}, 422, "invalid"),
        ({"name": "Others", "path": str(ground.root), "colour": 1}, 422, "invalid"),
        ({"name": "Others"}, 422, "invalid"),
    ):
        told = await ask(served, "POST", "/api/libraries", status, json={"scan": False, **wish})
        assert told["code"] == code, wish


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("PATCH", ""),
        ("DELETE", ""),
        ("GET", "/assets"),
        ("GET", "/timeline"),
        ("POST", "/scan"),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("POST", "/restore"),
        ("POST", "/retry"),
    ],
)
async def test_a_library_that_is_not_there_is_not_found(served: Served, method: str, path: str) -> None:
    body: dict[str, Any] = {"json": {}} if method == "PATCH" else {}
    told = await ask(served, method, f"/api/libraries/nothing{path}", 404, **body)
    assert told["code"] == "unknown_library"


@pytest.mark.spec("L1")
async def test_a_library_is_paused_and_goes_on(served: Served, ground: Ground) -> None:
    await ground.library(images=1)
    await ground.feed()
    assert (await ask(served, "POST", "/api/libraries/photos/pause"))["is_active"] is False
    assert await ground.claim(pool=IMAGES) == []
    assert (await ask(served, "POST", "/api/libraries/photos/resume"))["is_active"] is True
    assert len(await ground.claim(pool=IMAGES)) == 1


async def test_a_paused_library_is_not_scanned(served: Served, ground: Ground) -> None:
    await ground.library()
    await ask(served, "POST", "/api/libraries/photos/pause")
    refused = await ask(served, "POST", "/api/libraries/photos/scan", 409)
    assert refused["fix"] == "mediamill library resume photos"


@pytest.mark.spec("L1", "L11")
async def test_another_tagger_is_chosen_and_the_default_again(served: Served, ground: Ground) -> None:
    await ground.library()
    wish = {"engine": "openai", "model": "gpt-9"}
    chosen = await ask(served, "POST", "/api/libraries/photos/tagger", json=wish)
    assert chosen["tagger"] == "openai:gpt-9"
    assert (await ask(served, "POST", "/api/libraries/photos/tagger", json={}))["target_tagger_id"] is None
    await ask(served, "POST", "/api/libraries/photos/tagger", 422, json={"engine": "nobody"})


@pytest.mark.spec("L14")
async def test_a_removed_library_is_in_the_trash_until_it_is_restored(served: Served, ground: Ground) -> None:
    await ground.library(images=2)
    removed = await ask(served, "DELETE", "/api/libraries/photos")
    assert removed["deleted_at"] is not None
    assert (await ask(served, "GET", "/api/libraries"))["libraries"] == []
    assert (await ask(served, "GET", "/api/trash"))["libraries"] == [removed]
    for path in ("/api/libraries/photos", "/api/libraries/photos/assets", "/api/assets/1"):
        await ask(served, "GET", path, 404)
    assert (await ask(served, "DELETE", "/api/libraries/photos", 409))["code"] == "in_trash"
    wish = {"name": "Photos", "path": str(ground.root), "scan": False}
    refused = await ask(served, "POST", "/api/libraries", 409, json=wish)
    assert (refused["code"], "library restore photos" in refused["fix"]) == ("library_in_trash", True)
    assert "another name" in refused["fix"]
    restored = await ask(served, "POST", "/api/libraries/photos/restore")
    assert (restored["deleted_at"], restored["assets"]) == (None, 2)
    assert (await ask(served, "POST", "/api/libraries/photos/restore", 409))["code"] == "not_in_trash"


@pytest.mark.spec("L15")
async def test_what_is_to_be_erased_cannot_be_restored(served: Served, ground: Ground) -> None:
    await ground.library("Others")
    await ground.library(images=1)
    empty = "/api/trash/empty"
    assert (await ask(served, "POST", empty, 409, params={"library": "photos"}))["code"] == "not_in_trash"
    assert (await ask(served, "POST", empty, 404, params={"library": "nothing"}))["code"] == "unknown_library"
    assert await ask(served, "POST", empty, 202) == {"erasing": []}
    await ground.remove("others")
    await ground.remove()
    assert await ask(served, "POST", empty, 202, params={"library": "photos"}) == {"erasing": ["photos"]}
    await ask(served, "POST", "/api/libraries/photos/restore", 409)
    await ask(served, "POST", "/api/libraries/others/restore")


@pytest.mark.spec("L2", "L19")
async def test_assets_are_listed_page_by_page_and_narrowed(served: Served, ground: Ground) -> None:
    await ground.library(images=4, videos=1)
    await ground.run("update assets set shown_at = '2024-05-01'::timestamp + id * interval '10 days'")
    await ground.run("update assets set status = 'failed', error = 'no image' where id = 2")
    path = "/api/libraries/photos/assets"
    first = await ask(served, "GET", path, params={"amount": 3})
    second = await ask(served, "GET", path, params={"amount": 3, "after": first["next"]})
    assert [asset["id"] for page in (first, second) for asset in page["assets"]] == [5, 4, 3, 2, 1]
    assert second["next"] is None
    back = await ask(served, "GET", path, params={"amount": 3, "before": second["previous"]})
    assert back["assets"] == first["assets"]
    for params, ids in (
        ({"type": "video"}, [5]),
        ({"status": "failed"}, [2]),
        ({"month": "2024-05"}, [3, 2, 1]),
        ({"order": "path", "type": "image"}, [1, 2, 3, 4]),
        ({"vanished": "true"}, []),
    ):
        page = await ask(served, "GET", path, params=params)
        assert [asset["id"] for asset in page["assets"]] == ids, params


@pytest.mark.parametrize(
    "params",
    [
        {"type": "sound"},
        {"status": "gone"},
        {"order": "size"},
        {"amount": 0},
        {"amount": 501},
        {"after": "nonsense"},
        {"after": "x" * 20_000},
        {"month": "May"},
        {"month": "2024-13"},
        {"order": "path", "month": "2024-05"},
    ],
)
async def test_lists_that_make_no_sense_are_refused(
    served: Served, ground: Ground, params: dict[str, Any]
) -> None:
    await ground.library()
    await ask(served, "GET", "/api/libraries/photos/assets", 422, params=params)


async def test_months_are_counted(served: Served, ground: Ground) -> None:
    await ground.library(images=3)
    await ground.run("update assets set shown_at = '2024-05-05'")
    told = await ask(served, "GET", "/api/libraries/photos/timeline")
    assert told == {"months": [{"month": "2024-05", "count": 3}]}


@pytest.mark.spec("L2")
async def test_all_that_failed_is_tried_again(served: Served, ground: Ground) -> None:
    await ground.library(images=3)
    await ground.run("update assets set status = 'poisoned', retry_count = 6 where id > 1")
    told = await ask(served, "POST", "/api/libraries/photos/retry")
    assert told == {"retried": 2, "more": False}


async def test_beyond_loopback_nothing_is_said_without_the_secret(database: Database, tmp_path: Path) -> None:
    async with serve(database, tmp_path, host="0.0.0.0") as served:
        for method, path in (
            ("GET", "/api/libraries"),
            ("POST", "/api/libraries"),
            ("GET", "/api/assets/1"),
            ("GET", "/api/assets/1/source"),
            ("GET", "/api/assets/1/files/1-0/preview.webp"),
            ("GET", "/api/trash"),
            ("POST", "/api/trash/empty"),
            ("GET", "/api/search"),
        ):
            assert (await ask(served, method, path, 401))["code"] == "unauthenticated"
        answer = await served.client.get("/api/libraries", headers={"Authorization": f"Bearer {SECRET}"})
        assert answer.status_code == 200
