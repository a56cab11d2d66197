"""Runs are worked off: in order, once, with their images, whatever happens in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mediamill.inputs import attempt, runner
from mediamill.inputs.look import retry_run
from mediamill.inputs.model import AgentChoice, Scope
from mediamill.testing.model_server import Reply
from mediamill.testing.openai_server import OpenAiServer, cut_stream, held_stream, images_in
from tests.agents.conftest import echo, said
from tests.conftest import wait_until
from tests.inputs.conftest import ANN, Bench
from tests.inputs.running import Running, picture, running, widths_sent


@pytest.fixture
def server() -> Iterator[OpenAiServer]:
    with OpenAiServer(say=echo) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "FIRST_PAUSE_SECONDS", 0.02)


@pytest.fixture
async def runs(bench: Bench, server: OpenAiServer, tmp_path: Path) -> AsyncIterator[Running]:
    async with running(bench.database, tmp_path, openai_url=f"{server.url}/v1") as made:
        yield made


def refused(handler: object) -> None:
    handler.reply(Reply.json({"error": {"message": "no such picture"}}, 400))  # type: ignore[attr-defined]


def overloaded(handler: object) -> None:
    handler.reply(Reply.json({"error": {"message": "busy"}}, 503))  # type: ignore[attr-defined]


@pytest.mark.spec("I1", "I10")
async def test_a_text_is_answered(bench: Bench, runs: Running) -> None:
    run = (await bench.accept(text="hello")).run
    ended = await runs.ended(run.run_id)
    assert (ended.state, ended.answer, ended.tries) == ("completed", "you said: hello", 1)
    assert ended.started_at is not None
    assert ended.ended_at is not None


@pytest.mark.spec("I14")
async def test_a_question_that_follows_shows_the_model_the_images_of_before(
    bench: Bench, runs: Running, server: OpenAiServer
) -> None:
    images = [bench.image(picture(width)) for width in (30, 20)]
    await runs.ended((await bench.accept(images, text="describe these")).run.run_id)
    await runs.ended((await bench.accept(text="which one was taken later?")).run.run_id)
    first, _, last = server.seen[-1].json()["messages"]
    assert len(images_in(first["content"])) == 2
    assert last["content"] == "which one was taken later?"


@pytest.mark.spec("I5", "I6")
async def test_images_reach_the_model_in_order_and_small_and_are_deleted_then(
    bench: Bench, runs: Running, server: OpenAiServer
) -> None:
    images = [bench.image(picture(width, width // 2)) for width in (30, 3000, 20, 50)]
    run = (await bench.accept(images)).run
    assert (await runs.ended(run.run_id)).images_waiting == 0
    assert widths_sent(server.seen[-1]) == [30, 1568, 20, 50]
    assert await bench.one("select count(*) from input_images") == 0


@pytest.mark.spec("I6")
async def test_a_refused_run_keeps_its_images_and_can_be_tried_again(
    bench: Bench, runs: Running, server: OpenAiServer
) -> None:
    server.then(refused)
    run = (await bench.accept([bench.image(picture(30))])).run
    failed = await runs.ended(run.run_id)
    assert (failed.state, failed.error_code, failed.images_waiting) == ("failed", "agent_refused", 1)
    async with bench.database.transaction() as connection:
        await retry_run(connection, run.run_id)
    ended = await runs.ended(run.run_id)
    assert (ended.state, ended.images_waiting) == ("completed", 0)
    assert [widths_sent(seen) for seen in server.seen] == [[30], [30]]


@pytest.mark.spec("I6")
async def test_images_stay_until_the_last_word_of_the_answer(
    bench: Bench, runs: Running, server: OpenAiServer
) -> None:
    go_on = threading.Event()
    server.then(held_stream("I see ", "a cat", go_on))
    run = (await bench.accept([bench.image(picture(30))])).run
    assert (await runs.until(run.run_id, answer="I see ")).images_waiting == 1
    go_on.set()
    ended = await runs.ended(run.run_id)
    assert (ended.answer, ended.images_waiting) == ("I see a cat", 0)


async def test_a_cut_answer_is_asked_for_again(bench: Bench, runs: Running, server: OpenAiServer) -> None:
    server.then(overloaded, cut_stream("half an"))
    run = (await bench.accept(text="hello")).run
    ended = await runs.ended(run.run_id)
    assert (ended.state, ended.answer, ended.tries) == ("completed", "you said: hello", 3)


async def test_a_run_that_never_succeeds_fails_with_the_reason(
    bench: Bench, runs: Running, server: OpenAiServer
) -> None:
    server.always(overloaded)
    run = (await bench.accept(text="hello")).run
    ended = await runs.ended(run.run_id)
    assert (ended.state, ended.error_code, ended.failures) == ("failed", "agent_busy", attempt.FAILURES)
    assert "busy" in (ended.error or "")


@pytest.mark.spec("I10")
async def test_runs_of_a_thread_keep_their_order_and_know_what_was_said(
    bench: Bench, runs: Running, server: OpenAiServer
) -> None:
    modes = ("prompt", "follow_up", "steer", "prompt")
    kept = [
        (await bench.accept(text=f"{number}", delivery_mode=mode)).run for number, mode in enumerate(modes)
    ]
    for run in kept:
        assert (await runs.ended(run.run_id)).state == "completed"
    assert [said(server, number)[-1][1] for number in range(4)] == ["0", "1", "2", "3"]
    turns = [(role, text) for number in range(3) for role, text in _turn(number)]
    assert said(server) == [*turns, ("user", "3")]


def _turn(number: int) -> list[tuple[str, str]]:
    return [("user", f"{number}"), ("assistant", f"you said: {number}")]


@pytest.mark.spec("I10")
async def test_what_steers_does_not_overtake_a_run_whose_images_are_still_made_small(
    bench: Bench, runs: Running, server: OpenAiServer
) -> None:
    slow = (await bench.accept([bench.image(picture(4000, 3000))], text="look")).run
    quick = (await bench.accept(text="quickly", delivery_mode="steer")).run
    for run in (slow, quick):
        assert (await runs.ended(run.run_id)).state == "completed"
    assert [said(server, number)[-1][1] for number in range(2)] == ["look", "quickly"]


@pytest.mark.spec("I10")
async def test_threads_run_side_by_side(bench: Bench, runs: Running, server: OpenAiServer) -> None:
    go_on = threading.Event()
    server.then(held_stream("slow", "ly", go_on))
    slow = (await bench.accept(text="slow", scope=Scope("api", "one"))).run
    await runs.until(slow.run_id, answer="slow")
    quick = (await bench.accept(text="quick", scope=Scope("api", "two"))).run
    assert (await runs.ended(quick.run_id)).state == "completed"
    assert (await runs.show(slow.run_id)).state == "running"
    go_on.set()
    assert (await runs.ended(slow.run_id)).answer == "slowly"


async def test_a_bad_image_fails_its_run_and_not_the_thread(
    bench: Bench, runs: Running, server: OpenAiServer
) -> None:
    bad = (await bench.accept([bench.image(picture(30)), bench.image(picture(30)[:60])])).run
    good = (await bench.accept(text="next")).run
    failed = await runs.ended(bad.run_id)
    assert (failed.state, failed.error_code) == ("failed", "image_unreadable")
    assert "image 2" in (failed.error or "")
    assert (await runs.ended(good.run_id)).answer == "you said: next"
    assert said(server) == [("user", "next")]


@pytest.mark.spec("I7")
async def test_a_run_whose_images_have_expired_says_so(
    bench: Bench, server: OpenAiServer, tmp_path: Path
) -> None:
    run = (await bench.accept([bench.image(picture(30))])).run
    await bench.expire()
    await bench.accept(text="purges")
    async with running(bench.database, tmp_path, openai_url=f"{server.url}/v1") as runs:
        failed = await runs.ended(run.run_id)
    assert (failed.state, failed.error_code) == ("failed", "images_expired")


async def test_a_missing_setting_is_told(bench: Bench, tmp_path: Path) -> None:
    run = (await bench.accept(text="hello")).run
    async with running(bench.database, tmp_path, openai_url=None) as runs:
        failed = await runs.ended(run.run_id)
    assert (failed.state, failed.error_code) == ("failed", "agent_not_set")
    assert "MEDIAMILL_" in (failed.error or "")


async def test_a_run_can_name_its_agent_model_and_instructions(
    bench: Bench, runs: Running, server: OpenAiServer
) -> None:
    run = (await bench.accept(text="hello", agent=AgentChoice("openai", "special", "Be brief."))).run
    await runs.ended(run.run_id)
    asked = server.seen[-1].json()
    assert asked["model"] == "special"
    assert asked["messages"][0] == {"role": "system", "content": "Be brief."}


@pytest.mark.spec("I8")
async def test_a_run_that_shall_start_later_waits_for_the_rest_of_its_album(
    bench: Bench, runs: Running, server: OpenAiServer
) -> None:
    await bench.save(bench.image(picture(20)), group="album")
    run = (await bench.accept(scope=ANN, claim=True, start_after_seconds=3600)).run
    await bench.save(bench.image(picture(30)), group="album")
    assert (await runs.show(run.run_id)).state == "queued"
    await bench.run("update runs set start_after = now()")
    await bench.run("select pg_notify('mediamill_runs', $1)", str(run.run_id))
    assert (await runs.ended(run.run_id)).state == "completed"
    assert widths_sent(server.seen[-1]) == [20, 30]


async def test_a_keeper_that_stops_puts_its_run_back_and_the_next_one_goes_on(
    bench: Bench, server: OpenAiServer, tmp_path: Path
) -> None:
    server.then(held_stream("never", "", threading.Event()))
    run = (await bench.accept([bench.image(picture(30))])).run
    async with running(bench.database, tmp_path, openai_url=f"{server.url}/v1") as runs:
        await runs.until(run.run_id, answer="never")
    waiting = await runs.show(run.run_id)
    assert (waiting.state, waiting.failures, waiting.images_waiting) == ("queued", 0, 1)
    async with running(bench.database, tmp_path, openai_url=f"{server.url}/v1") as runs:
        assert (await runs.ended(run.run_id)).answer == "you said: look"


@pytest.mark.spec("I10")
async def test_two_keepers_share_the_threads_and_ask_nothing_twice(
    bench: Bench, server: OpenAiServer, tmp_path: Path
) -> None:
    url = f"{server.url}/v1"
    async with (
        running(bench.database, tmp_path / "a", openai_url=url) as one,
        running(bench.database, tmp_path / "b", openai_url=url),
    ):
        kept = [
            (await bench.accept(text=f"{thread}-{number}", scope=Scope("api", f"t{thread}"))).run
            for number in range(4)
            for thread in range(6)
        ]
        for run in kept:
            assert (await one.ended(run.run_id)).tries == 1
    asked = [said(server, number)[-1][1] for number in range(len(server.seen))]
    assert sorted(asked) == sorted(run.text for run in kept)
    for thread in range(6):
        assert [text for text in asked if text.startswith(f"{thread}-")] == [
            f"{thread}-{n}" for n in range(4)
        ]


async def test_a_try_that_was_overtaken_writes_nothing(
    bench: Bench, runs: Running, server: OpenAiServer
) -> None:
    go_on = threading.Event()
    server.then(held_stream("old", " news", go_on))
    run = (await bench.accept([bench.image(picture(30))])).run
    await runs.until(run.run_id, answer="old")
    await bench.run(
        "update runs set tries = tries + 1, answer = ''"
    )  # as another process does that takes it over
    go_on.set()
    await wait_until(lambda: _is_idle(server))
    await bench.accept(text="the keeper looks again", scope=Scope("api", "other"))
    ended = await runs.ended(run.run_id)
    assert (ended.answer, ended.tries) == ("you said: look", 3)
    asked = [said(server, number)[-1][1] for number in range(len(server.seen))]
    assert asked.count("look") == 2


async def _is_idle(server: OpenAiServer) -> bool:
    return len(server.seen) >= 1


async def test_a_database_that_goes_away_in_the_middle_changes_nothing(
    bench: Bench, runs: Running, server: OpenAiServer
) -> None:
    go_on = threading.Event()
    server.then(held_stream("I see ", "a cat", go_on))
    run = (await bench.accept([bench.image(picture(30))])).run
    await runs.until(run.run_id, answer="I see ")
    await bench.run(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
    )
    go_on.set()
    ended = await runs.ended(run.run_id)
    assert (ended.state, ended.images_waiting) == ("completed", 0)


async def test_more_threads_than_run_at_once_all_get_their_turn(
    bench: Bench, runs: Running, server: OpenAiServer
) -> None:
    kept = [(await bench.accept(text=f"{n}", scope=Scope("api", f"many {n}"))).run for n in range(40)]
    ended = await asyncio.gather(*(runs.ended(run.run_id) for run in kept))
    assert {run.answer for run in ended} == {f"you said: {n}" for n in range(40)}
    assert len(server.seen) == 40


async def test_the_next_is_begun_when_there_is_room_and_not_because_time_passes(
    bench: Bench, server: OpenAiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "POLL_SECONDS", 3600.0)
    monkeypatch.setattr(runner, "THREADS_AT_ONCE", 1)
    kept = [
        (await bench.accept(text=f"{thread} {number}", scope=Scope("api", thread))).run
        for number in range(2)
        for thread in ("one", "two")
    ]
    async with running(bench.database, tmp_path, openai_url=f"{server.url}/v1") as runs:
        for run in kept:
            assert (await runs.ended(run.run_id)).state == "completed"
        late = (await bench.accept(text="late", scope=Scope("api", "one"))).run
        assert (await runs.ended(late.run_id)).answer == "you said: late"
