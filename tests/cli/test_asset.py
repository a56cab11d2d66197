"""`mediamill asset`: lists, one with its scenes, another try; whatever files are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from mediamill.db.connection import Database
from mediamill.staging.file_names import to_text
from tests.cli.conftest import Mediamill
from tests.libraries.played import Ground


@pytest.fixture
def ground(database: Database, tmp_path: Path) -> Ground:
    """The worker's side of the same database and data folder."""
    return Ground.on(database, tmp_path / "data")


@pytest.mark.spec("L2", "L17")
async def test_assets_are_listed_and_narrowed(mediamill: Mediamill, ground: Ground) -> None:
    await ground.library(images=3, videos=1)
    await ground.run("update assets set shown_at = '2024-05-01'::timestamp + id * interval '1 day'")
    await ground.run("update assets set status = 'failed', error = 'no image at all' where id = 2")
    lines = (await mediamill("asset", "list", "photos")).out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["4", "3", "2", "1"]
    assert all(word in lines[4] for word in ("image-0000002", "failed", "no image at all"))
    for words, ids in (
        (("--status", "failed"), [2]),
        (("--type", "video"), [4]),
        (("--order", "path"), [1, 2, 3, 4]),
        (("--month", "2024-05", "--type", "image"), [3, 2, 1]),
        (("--gone",), []),
    ):
        found = (await mediamill("asset", "list", "photos", *words, "--json")).json
        assert [asset["id"] for asset in found["assets"]] == ids, words


async def test_a_list_goes_on_where_it_ended(mediamill: Mediamill, ground: Ground) -> None:
    await ground.library(images=3)
    first = await mediamill("asset", "list", "photos", "--amount", "2", "--order", "path")
    place = first.err.rpartition("--after ")[2].strip()
    rest = (await mediamill("asset", "list", "photos", "--order", "path", "--after", place, "--json")).json
    assert ([asset["id"] for asset in rest["assets"]], rest["next"]) == ([3], None)


async def test_a_long_list_is_read_page_by_page(
    mediamill: Mediamill, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mediamill.cli.paged.PAGE", 2)
    await ground.library(images=5)
    found = (await mediamill("asset", "list", "photos", "--amount", "4", "--json")).json
    assert (len(found["assets"]), found["next"] is not None) == (4, True)


async def test_an_empty_list_says_what_to_do(mediamill: Mediamill, ground: Ground) -> None:
    await ground.library()
    assert "mediamill scan photos" in (await mediamill("asset", "list", "photos")).out
    assert "no such assets" in (await mediamill("asset", "list", "photos", "--status", "failed")).out
    unknown = await mediamill("asset", "list", "nothing")
    assert (unknown.code, "mediamill library list" in unknown.err) == (1, True)
    wrong = await mediamill("asset", "list", "photos", "--after", "here")
    assert (wrong.code, "no place in this list" in wrong.err) == (1, True)


@pytest.mark.spec("L3", "L17")
async def test_names_that_would_steer_the_terminal_are_shown_harmless(
    mediamill: Mediamill, ground: Ground
) -> None:
    await ground.library(images=1)
    await ground.run("update assets set rel_path = $1", to_text(b"caf\xe9\n\x1b[31mred\xe2\x80\xae.jpg"))
    for words in (("asset", "list", "photos"), ("asset", "show", 1)):
        out = (await mediamill(*words)).out
        assert "caf\ufffd\\n\\x1b[31mred\\u202e.jpg" in out
        assert "\x1b[31m" not in out


@pytest.mark.spec("L6", "L11", "L17")
async def test_a_video_is_shown_with_its_scenes(mediamill: Mediamill, ground: Ground) -> None:
    await ground.library(videos=1)
    await ground.complete()
    shown = (await mediamill("asset", "show", 1)).out
    for word in (
        "photos (Photos)",
        "video-0000001",
        "completed",
        "640×360",
        "0:11",
        "harbour",
        "phash",
        "0:05",
    ):
        assert word in shown, word
    assert await ground.one("select name from ai_models where task = 'vision'") in shown
    told = (await mediamill("asset", "show", 1, "--json")).json
    assert [scene["number"] for scene in told["scenes"]] == [1, 2]


async def test_of_many_scenes_the_first_are_shown(mediamill: Mediamill, ground: Ground) -> None:
    await ground.library(videos=1)
    await ground.run(
        "insert into video_scenes (asset_id, library, number, start_ts, end_ts, sharpness_score, keep_reason, "
        "rep_frame_path) select 1, 1, n, n, n + 1, 1, 'forced', 'x/y.jpg' from generate_series(1, 60) n"
    )
    said = await mediamill("asset", "show", 1)
    assert "and 10 more: --json has all of them" in said.err


async def test_an_asset_that_is_not_there_is_said_not_to_be(mediamill: Mediamill) -> None:
    said = await mediamill("asset", "show", 99)
    assert (said.code, "there is no asset 99" in said.err) == (1, True)


@pytest.mark.spec("L2", "L17")
async def test_what_failed_is_tried_again(mediamill: Mediamill, ground: Ground) -> None:
    await ground.library(images=4)
    await ground.run("update assets set status = 'poisoned', retry_count = 6 where id <> 4")
    one = await mediamill("asset", "retry", 1, 4)
    assert "1 asset waits again" in one.out
    assert (one.code, "asset 4 is pending" in one.err) == (1, True)
    assert "2 assets wait again" in (await mediamill("asset", "retry", "--all-failed", "photos")).out
    assert (await mediamill("asset", "retry", "--all-failed", "photos", "--json")).json["retried"] == 0
    assert await ground.counts("assets where status = 'pending' and retry_count = 0") == [4]
    nothing = await mediamill("asset", "retry")
    assert (nothing.code, "name ids, or --all-failed SLUG" in nothing.err) == (1, True)


FAILS_AT_ONCE = """
create sequence tries;
create function fail_at_once() returns trigger language plpgsql as
$$ begin if nextval('tries') <= 30 then new.status = 'failed'; end if; return new; end $$;
create trigger fail_at_once before update on assets for each row execute function fail_at_once()
"""


async def test_what_fails_again_at_once_is_not_tried_for_ever(mediamill: Mediamill, ground: Ground) -> None:
    """As if workers were as quick as the command, ten times."""
    await ground.library(images=3)
    await ground.run("update assets set status = 'failed'")
    await ground.run(FAILS_AT_ONCE)
    told = await mediamill("asset", "retry", "--all-failed", "photos", "--json")
    assert told.json["retried"] == 3


@pytest.mark.spec("L17", "L23")
async def test_what_is_there_is_made_again(mediamill: Mediamill, ground: Ground) -> None:
    await ground.library(images=2, videos=1)
    await ground.complete()
    assert "1 asset is made again" in (await mediamill("asset", "remake", 1)).out
    refused = await mediamill("asset", "remake", 1)
    assert (refused.code, "asset 1 is pending" in refused.err) == (1, True)
    films = await mediamill("asset", "remake", "--all", "photos", "--only", "videos", "--json")
    assert films.json["remade"] == 1
    assert await ground.one("select array_agg(id order by id) from assets where status = 'pending'") == [1, 3]
