"""`mediamill jobs`: add, list, show, retry, purge."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mediamill.cli.add import read_payload, read_time
from mediamill.db.connection import Database
from mediamill.errors import InvalidError
from tests.cli.conftest import Mediamill


@pytest.mark.spec("E1")
async def test_a_job_is_added_with_all_that_was_said_of_it(mediamill: Mediamill) -> None:
    words = (
        "--owner",
        "bot-7",
        "--subject",
        "m1",
        "--priority",
        "high",
        "--attempts",
        5,
        "--mime-type",
        "audio/ogg",
    )
    added = (await mediamill("jobs", "add", "scripted.inline", '{"do": "succeed"}', *words, "--json")).json
    job = (await mediamill("jobs", "show", added["ids"][0], "--json")).json
    assert (job["kind"], job["owner"], job["subject_id"], job["mime_type"]) == (
        "scripted.inline",
        "bot-7",
        "m1",
        "audio/ogg",
    )
    assert (job["priority"], job["max_attempts"], job["state"]) == (0, 5, "queued")
    assert job["payload"] == {"do": "succeed"}


async def test_many_jobs_alike_are_added_at_once(mediamill: Mediamill, database: Database) -> None:
    added = (await mediamill("jobs", "add", "scripted.inline", "--count", 12_000, "--json")).json
    assert len(set(added["ids"])) == 12_000
    async with database.connection() as connection:
        assert await connection.fetchval("select count(*) from jobs") == 12_000


async def test_a_key_adds_one_job_only(mediamill: Mediamill) -> None:
    first = (await mediamill("jobs", "add", "scripted.inline", "--key", "k", "--json")).json
    second = (await mediamill("jobs", "add", "scripted.inline", "--key", "k", "--json")).json
    assert first == second
    refused = await mediamill("jobs", "add", "scripted.inline", "--key", "k", "--count", 2)
    assert refused.code == 1
    assert "only one job" in refused.err


async def test_a_payload_comes_from_a_file(mediamill: Mediamill, tmp_path: Path) -> None:
    file = tmp_path / "payload.json"
    file.write_text('{"name": "Zoë [bold]"}')
    id_ = (await mediamill("jobs", "add", "scripted.inline", f"@{file}", "--json")).json["ids"][0]
    assert (await mediamill("jobs", "show", id_, "--json")).json["payload"] == {"name": "Zoë [bold]"}
    assert "Zoë [bold]" in (await mediamill("jobs", "show", id_)).out


@pytest.mark.parametrize(
    ("words", "complaint", "fix"),
    [
        (("scripted.run", "[1]"), "must be a JSON object, not a list", ""),
        (("scripted.run", "null"), "must be a JSON object, not null", ""),
        (("scripted.run", "17"), "must be a JSON object, not a number", ""),
        (("scripted.run", "{"), "is not JSON", "single quotes"),
        (("scripted.run", "[" * 100_000), "is not JSON", ""),
        (("scripted.run", '{"a": NaN}'), "is not JSON", ""),
        (("scripted.run", "@no-such-file"), "there is no file no-such-file", ""),
        (("scripted.rum",), "no job kind named scripted.rum", "did you mean scripted.run?"),
        (("scripted.run", "--pool", "nowhere"), "no pool named nowhere", "mediamill pools show"),
        (("scripted.run", "--after", "soon"), "'soon' is not a time", "10m"),
        (("scripted.run", '{"a": "\\u0000"}'), "NUL", ""),
    ],
)
async def test_bad_input_is_refused_with_a_fix(
    mediamill: Mediamill, words: tuple[str, ...], complaint: str, fix: str
) -> None:
    refused = await mediamill("jobs", "add", *words)
    assert refused.code == 1
    assert complaint in refused.err
    assert fix in refused.err
    assert refused.out == ""
    assert (await mediamill("jobs", "list", "--json")).json == []


async def test_a_payload_over_its_limit_is_refused(
    mediamill: Mediamill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MEDIAMILL_PAYLOAD_LIMIT_BYTES", "1000")
    file = tmp_path / "big.json"
    file.write_text(json.dumps({"a": "x" * 2000}))
    refused = await mediamill("jobs", "add", "scripted.run", f"@{file}")
    assert refused.code == 1
    assert "the limit is 1000" in refused.err


@pytest.mark.parametrize("verb", ["show", "retry", "watch"])
async def test_an_unknown_id_is_named(mediamill: Mediamill, verb: str) -> None:
    refused = await mediamill("jobs", verb, 404)
    assert (refused.code, refused.out) == (1, "")
    assert "there is no job 404" in refused.err


@pytest.mark.parametrize("id_", ["0", "-1", "x", str(2**63)])
async def test_an_id_that_can_be_none_is_wrong_usage(mediamill: Mediamill, id_: str) -> None:
    assert (await mediamill("jobs", "show", "--", id_)).code == 2


async def test_the_list_is_filtered_and_paged(mediamill: Mediamill) -> None:
    for owner in ("a", "a", "b"):
        await mediamill("jobs", "add", "scripted.inline", "--owner", owner)
    await mediamill("jobs", "add", "scripted.run", "--owner", "a", "--after", "1h")

    async def ids(*words: object) -> list[int]:
        return [job["id"] for job in (await mediamill("jobs", "list", *words, "--json")).json]

    assert await ids() == [4, 3, 2, 1]
    assert await ids("--owner", "a") == [4, 2, 1]
    assert await ids("--kind", "scripted.run") == [4]
    assert await ids("--pool", "default", "--limit", 2) == [3, 2]
    assert await ids("--before", 3, "--limit", 1) == [2]
    assert await ids("--state", "scheduled") == [4]
    shown = await mediamill("jobs", "list", "--limit", 2)
    assert "due in 59 min" in shown.out
    assert "--before 3" in shown.err
    assert (await mediamill("jobs", "list", "--state", "lost")).code == 2


async def test_what_a_job_says_cannot_steer_the_terminal(mediamill: Mediamill) -> None:
    await mediamill(
        "jobs", "add", "scripted.inline", "--owner", "\x1b[31mred\x07", "--subject", "[red]x[/red]"
    )
    shown = await mediamill("jobs", "list")
    assert "\x1b" not in shown.out
    assert "\x07" not in shown.out
    assert "[red]x[/red]" in shown.out


async def test_a_scheduled_job_can_be_hurried_and_a_queued_one_not(mediamill: Mediamill) -> None:
    await mediamill("jobs", "add", "scripted.inline", "--after", "2026-01-01T00:00")
    await mediamill("jobs", "add", "scripted.inline", "--after", "1d")
    retried = await mediamill("jobs", "retry", 1, 2, 3, "--json")
    assert retried.code == 1
    assert json.loads(retried.out) == {
        "retried": [2],
        "refused": ["job 1 is queued already", "there is no job 3"],
    }
    assert "job 1 is queued already" in retried.err
    assert "there is no job 3" in retried.err
    assert (await mediamill("jobs", "show", 2, "--json")).json["state"] == "queued"


async def test_purging_needs_a_yes_where_nobody_can_be_asked(mediamill: Mediamill) -> None:
    await mediamill("jobs", "add", "scripted.inline", "--count", 3)
    refused = await mediamill("jobs", "purge", "--all")
    assert refused.code == 1
    assert "--yes" in refused.err
    assert len((await mediamill("jobs", "list", "--json")).json) == 3


async def test_purging_throws_away_what_waits_and_says_what_it_left(
    mediamill: Mediamill, database: Database
) -> None:
    await mediamill("jobs", "add", "scripted.inline", "--count", 3, "--owner", "a")
    await mediamill("jobs", "add", "scripted.inline", "--owner", "b")
    async with database.connection() as connection:
        await connection.execute("update jobs set state = 'running' where id = 1")
    purged = await mediamill("jobs", "purge", 1, 2, 99, "--yes", "--json")
    assert json.loads(purged.out) == {"purged": [2], "left": {"1": "running", "99": None}}
    assert purged.code == 1
    assert "job 1 does not wait: it is running" in purged.err
    assert (await mediamill("jobs", "purge", "--owner", "a", "--yes", "--json")).json["purged"] == [3]
    assert (await mediamill("jobs", "purge", "--kind", "scripted.run", "--yes", "--json")).json[
        "purged"
    ] == []
    assert (await mediamill("jobs", "purge", "--all", "--yes", "--json")).json["purged"] == [4]
    assert (await mediamill("jobs", "purge", "--yes")).code == 1


def test_times_are_read_from_now_or_as_they_stand() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    assert read_time("90s", now) == now + timedelta(seconds=90)
    assert read_time("1.5h", now) == now + timedelta(minutes=90)
    assert read_time("2d", now) == now + timedelta(days=2)
    assert read_time("2030-05-01T10:00:00+02:00", now) == datetime(2030, 5, 1, 8, tzinfo=UTC)
    assert read_time("2030-05-01", now).tzinfo is not None
    for bad in ("", "10", "10 minutes", "2030-13-01", "999999999d", "-5m"):
        with pytest.raises(InvalidError):
            read_time(bad, now)


def test_a_payload_is_an_object() -> None:
    assert read_payload("{}") == {}
    assert read_payload(' {"a": [1, {"b": null}]} ') == {"a": [1, {"b": None}]}
