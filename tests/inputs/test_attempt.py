"""One try at a run, without a keeper: what the agent is asked, what is written down, and when it is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from mediamill.agents.choose import Agents
from mediamill.agents.contract import AgentBusyError, AgentRefusedError, Answer, Image, Turn
from mediamill.inputs import attempt, counters
from mediamill.inputs.attempt import Attempt
from mediamill.inputs.look import show_run
from mediamill.inputs.model import AgentChoice, ImageUnreadableError, Run, Scope
from tests.conftest import wait_until
from tests.failing_database import FailingDatabase
from tests.inputs.conftest import Bench


class Model:
    """The agent beyond the wall: it notes how it is asked, and says what it shall say."""

    remembers = False

    def __init__(self, *says: str | Exception) -> None:
        self.says = says or ("hello",)
        self.asked: list[tuple[str, str, list[Image], str | None]] = []
        self.given: list[tuple[str, list[Turn], str]] = []
        self.chosen: list[tuple[str | None, str | None]] = []
        self.tokens = 5
        self.held = asyncio.Event()
        self.held.set()

    def get(self, kind: str | None, model: str | None) -> Model:
        self.chosen.append((kind, model))
        return self

    def session(self, thread_key: str, history: list[Turn], instructions: str) -> Any:
        self.given.append((thread_key, history, instructions))
        verbs = {verb: self._asked_by(verb) for verb in ("prompt", "follow_up", "steer")}
        model = self

        class Session(SimpleNamespace):
            @property
            def tokens(self) -> int:
                return model.tokens

        return Session(**verbs)

    def _asked_by(self, verb: str) -> Any:
        async def ask(text: str, images: Sequence[Image] = (), key: str | None = None) -> Answer:
            self.asked.append((verb, text, list(images), key))
            for piece in self.says:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
                await self.held.wait()
            self.tokens += 42

        return ask


class Shrinker:
    """Every image is a picture of its number, its owner and its bytes."""

    def __init__(self) -> None:
        self.folders: set[Path] = set()

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def __call__(
        self, path: Path, mime_type: str, owner: str, number: int | None = None
    ) -> list[tuple[str, bytes]]:
        self.folders.add(path.parent)
        data = await asyncio.to_thread(path.read_bytes)
        return [(mime_type, f"{owner} {number} {len(data)} ".encode() + data[-3:])]


def make(bench: Bench, run: Run, model: Model, **more: Any) -> Attempt:
    given = {"database": bench.database, "shrink": Shrinker(), "on_asking": lambda: None, **more}
    return Attempt(run, agents=cast(Agents, model), scratch=bench.folder / "a" / "work", **given)


async def shown(bench: Bench, run_id: UUID) -> Run:
    async with bench.database.connection() as connection:
        return await show_run(connection, run_id)


async def waits_after(bench: Bench, one: Attempt, seconds: float) -> bool:
    """Make it; is the run due so long after that, as exactly as anybody can tell?"""
    began = await bench.one("select clock_timestamp()")
    await one.make()
    due = await bench.one("select start_after from runs") - timedelta(seconds=seconds)
    return bool(began <= due <= await bench.one("select clock_timestamp()"))


@pytest.mark.spec("I1")
@pytest.mark.parametrize("mode", ["prompt", "follow_up", "steer"])
async def test_the_agent_is_asked_as_the_sender_wants_and_its_answer_and_cost_are_kept(
    bench: Bench, mode: Any
) -> None:
    run = (await bench.accept(text="hi", delivery_mode=mode, agent=AgentChoice("pi", "big", "Be brief."))).run
    model, asking = Model(" ", "hel\0lo ", "\ud800"), []
    one: Attempt = make(bench, run, model, on_asking=lambda: asking.append(one.is_asking))
    assert one.is_asking is False
    await one.make()
    assert asking == [True]
    assert model.asked == [(mode, "hi", [], str(run.run_id))]
    assert (model.chosen, model.given) == ([("pi", "big")], [("thread", [], "Be brief.")])
    ended = await shown(bench, run.run_id)
    assert (ended.state, ended.answer, ended.tokens, ended.tries) == ("completed", "hello ?", 42, 1)


@pytest.mark.spec("I5")
async def test_images_come_to_it_whole_numbered_and_through_a_folder_of_ours(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "PIECE_BYTES", 4)
    run = (await bench.accept([bench.image(b"123456789"), bench.image(b"abcd", mime_type="image/gif")])).run
    model, shrink = Model(), Shrinker()
    await make(bench, run, model, shrink=shrink).make()
    ((_, _, images, _),) = model.asked
    assert images == [Image("image/png", b"thread 1 9 789"), Image("image/gif", b"thread 2 4 bcd")]
    folder = bench.folder / "a" / "work"
    assert shrink.folders == {folder}
    assert (folder.stat().st_mode & 0o777, list(folder.iterdir())) == (0o700, [])
    assert await bench.one("select count(*) from input_images") == 0


@pytest.mark.spec("I10")
async def test_it_knows_the_last_twenty_turns_of_its_thread_and_no_others(bench: Bench) -> None:
    for number in range(22):
        run = (await bench.accept(text=str(number))).run
        await bench.finish(run.run_id, await bench.start(run.run_id), f"to {number}")
    other = (await bench.accept(text="other", scope=Scope("api", "elsewhere"))).run
    await bench.finish(other.run_id, await bench.start(other.run_id))
    broken = (await bench.accept(text="broken")).run
    await bench.fail(broken.run_id, await bench.start(broken.run_id))
    model = Model()
    await make(bench, (await bench.accept(text="now")).run, model).make()
    ((_, history, _),) = model.given
    assert history == [
        turn
        for number in range(2, 22)
        for turn in (Turn("user", str(number)), Turn("assistant", f"to {number}"))
    ]


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (AgentBusyError("busy", fix="wait"), "agent_busy", "busy: wait"),
        (AgentBusyError("b" * 600), "agent_busy", "b" * 500),
        (RuntimeError("a bug"), "internal", "RuntimeError: a bug"),
        (RuntimeError("x" * 600), "internal", f"RuntimeError: {'x' * 486}"),
    ],
)
async def test_what_fails_is_said_and_tried_again_after_twice_the_pause_each_time(
    bench: Bench, error: Exception, code: str, words: str
) -> None:
    run_id = (await bench.accept()).run.run_id
    for tries, seconds in enumerate((1, 2, 4, 8), 1):
        assert await waits_after(bench, make(bench, await shown(bench, run_id), Model("a", error)), seconds)
        run = await shown(bench, run_id)
        assert (run.state, run.failures, run.tries) == ("queued", tries, tries)
        assert (run.error_code, run.error) == (code, words)
        await bench.run("update runs set start_after = now()")
    await make(bench, await shown(bench, run_id), Model("a", error)).make()
    assert (await shown(bench, run_id)).state == "failed"


async def test_a_server_that_says_how_long_is_not_asked_before(bench: Bench) -> None:
    run = (await bench.accept()).run
    assert await waits_after(bench, make(bench, run, Model(AgentBusyError(after_seconds=77))), 77)


@pytest.mark.parametrize("error", [AgentRefusedError("no"), ImageUnreadableError("broken")])
async def test_what_can_never_succeed_fails_at_once(bench: Bench, error: Exception) -> None:
    run = (await bench.accept()).run
    await make(bench, run, Model(error)).make()
    failed = await shown(bench, run.run_id)
    assert (failed.state, failed.tries, failed.failures) == ("failed", 1, 1)


@pytest.mark.spec("I7")
@pytest.mark.parametrize("where", ["true", "position = 1"])
async def test_images_that_are_gone_in_part_fail_it_and_the_agent_is_not_asked(
    bench: Bench, where: str
) -> None:
    run = (await bench.accept([bench.image(), bench.image()])).run
    await bench.run(f"delete from input_images where {where}")
    model = Model()
    await make(bench, run, model).make()
    assert (await shown(bench, run.run_id)).error_code == "images_expired"
    assert model.asked == []


async def test_a_try_that_is_not_due_or_is_overtaken_writes_nothing(bench: Bench) -> None:
    run = (await bench.accept(start_after_seconds=3600)).run
    await make(bench, run, Model()).make()
    assert (await shown(bench, run.run_id)).tries == 0
    await bench.run("update runs set start_after = now()")
    model = Model("a")
    model.held.clear()
    trying = asyncio.create_task(make(bench, run, model).make())
    await wait_until(lambda: bench.one("select answer = 'a' from runs"))
    await bench.run("update runs set tries = tries + 1, answer = 'mine'")
    model.held.set()
    await trying
    assert (await shown(bench, run.run_id)).answer == "mine"


@pytest.mark.spec("I6")
async def test_a_try_that_is_stopped_puts_its_run_back_at_once_without_a_failure(bench: Bench) -> None:
    run = (await bench.accept([bench.image()])).run
    model = Model("a")
    model.held.clear()
    trying = asyncio.create_task(make(bench, run, model).make())
    await wait_until(lambda: bench.one("select answer = 'a' from runs"))
    trying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trying
    back = await shown(bench, run.run_id)
    assert (back.state, back.failures, back.error_code, back.images_waiting) == ("queued", 0, None, 1)
    assert await bench.one("select start_after <= now() from runs")


async def test_a_database_that_is_unavailable_is_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "AWAY_SECONDS", 0.01)
    run = (await bench.accept()).run
    database = FailingDatabase(bench.database, ConnectionResetError("cut off"), TimeoutError())
    await make(bench, run, Model(), database=database).make()
    assert (await shown(bench, run.run_id)).state == "completed"
    assert database.errors == []


@pytest.mark.spec("I14")
async def test_a_follow_up_gets_the_images_that_the_thread_has_seen_newest_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "MOST_PAST_IMAGES", 3)
    for text in ("first", "second"):
        given = [bench.image(f"{text} {number}".encode()) for number in range(2)]
        await make(bench, (await bench.accept(given, text=text)).run, Model()).make()
    model = Model()
    await make(bench, (await bench.accept(text="which was taken later?")).run, model).make()
    ((_, history, _),) = model.given
    assert [(turn.text, [image.data[-1:] for image in turn.images]) for turn in history] == [
        ("first", [b"1"]),
        ("hello", []),
        ("second", [b"0", b"1"]),
        ("hello", []),
    ]
    assert [images for _, _, images, _ in model.asked] == [[]]
    assert await bench.one("select count(*) from input_images") == 0, "what was sent is deleted all the same"


@pytest.mark.spec("I14")
async def test_the_images_of_a_thread_go_three_days_after_its_last_answer(bench: Bench) -> None:
    await make(bench, (await bench.accept([bench.image()])).run, Model()).make()
    await bench.run("update thread_images set expires_at = now()")
    model = Model()
    run = (await bench.accept(scope=Scope("api", "elsewhere"))).run
    assert await bench.one("select count(*) from thread_images") == 0, "purged with the next that comes"
    await make(bench, run, model).make()
    ((_, history, _),) = model.given
    assert history == []


@pytest.mark.spec("I14")
async def test_an_agent_that_remembers_by_itself_leaves_nothing_with_us(bench: Bench) -> None:
    model = Model()
    model.remembers = True
    await make(bench, (await bench.accept([bench.image()])).run, model).make()
    assert await bench.one("select count(*) from thread_images") == 0


@pytest.mark.spec("I13")
async def test_the_model_is_told_which_image_comes_in_parts(bench: Bench) -> None:
    class Cutting(Shrinker):
        async def __call__(
            self, path: Path, mime_type: str, owner: str, number: int | None = None
        ) -> list[tuple[str, bytes]]:
            return (await super().__call__(path, mime_type, owner, number)) * (3 if number == 2 else 1)

    model = Model()
    run = (await bench.accept([bench.image(), bench.image()], text="look")).run
    await make(bench, run, model, shrink=Cutting()).make()
    [(_, text, images, _)] = model.asked
    assert text == "look\n\n[Image 2 is long: it comes as 3 overlapping images, in order.]"
    assert len(images) == 4


@pytest.mark.spec("I11")
async def test_images_that_the_agent_took_are_counted_once_and_told(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mediamill.inputs.counters")
    run = (await bench.accept([bench.image(), bench.image()])).run
    counters.counts.clear()
    await make(bench, run, Model(AgentBusyError("not now"))).make()
    assert not counters.counts, "a failed call takes nothing"
    await bench.run("update runs set start_after = now()")
    await make(bench, run, Model()).make()
    await make(bench, run, Model()).make()
    assert counters.counts == {("images_deleted_after_delivery_count", "api"): 2}
    assert caplog.messages[-1] == (
        f"images_deleted_after_delivery_count=2 source=api thread_key='thread' run_id={run.run_id}"
    )
