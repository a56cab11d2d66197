"""Images that wait, are claimed, delivered, expire and are purged, in random order beside a model in plain Python."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mediamill.db.connection import Database
from mediamill.inputs.look import retry_run
from mediamill.inputs.model import MAX_IMAGES, ImageBufferError, Scope
from mediamill.inputs.pending import drop_pending
from tests.conftest import admin_url, clone_template, database_url, drop_database, run_sql
from tests.inputs.conftest import Bench

T = TypeVar("T")

SCOPES = (Scope("telegram", "chat", "ann"), Scope("telegram", "chat", "bob"), Scope("telegram", "chat"))
SCOPE, PICK = st.sampled_from(SCOPES), st.integers(0, 1000)
PENDING = """
    select image_bytes, expires_at <= now() from input_images
    where user_key is not distinct from $1 and run_id is null order by created_at, position, input_image_id
"""
BOUND = """
    select run_id, i.image_bytes from input_images i join runs using (run_id)
    order by sequence, i.position, i.input_image_id
"""


@dataclass
class ModelImage:
    content: bytes
    group: str | None
    expired: bool = False


@dataclass
class ModelRun:
    run_id: UUID
    scope: Scope
    key: str
    images: list[ModelImage]
    count: int
    state: str = "queued"
    tries: int = 0


@dataclass
class World:
    """What all examples share."""

    runner: asyncio.Runner
    bench: Bench
    seen: Counter[str] = field(default_factory=Counter)


class Machine(RuleBasedStateMachine):
    """The model: what waits in each scope, oldest first, and the runs with theirs."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world, self.bench = world, world.bench
        self.waiting: dict[Scope, list[ModelImage]] = {scope: [] for scope in SCOPES}
        self.runs: list[ModelRun] = []
        self.number = 0

    def do(self, what: Coroutine[Any, Any, T]) -> T:
        return self.world.runner.run(what)

    def saw(self, what: str) -> None:
        self.world.seen[what] += 1

    def live(self, scope: Scope) -> list[ModelImage]:
        return [image for image in self.waiting[scope] if not image.expired]

    def purge(self) -> None:
        """With everything that is taken in."""
        for images in (*self.waiting.values(), *(run.images for run in self.runs)):
            if any(image.expired for image in images):
                self.saw("purged")
            images[:] = [image for image in images if not image.expired]

    def in_state(self, *states: str) -> list[ModelRun]:
        return [run for run in self.runs if run.state in states]

    @initialize()
    def begin(self) -> None:
        self.do(self.bench.run("truncate thread_images, runs, input_images"))

    def run_of_album(self, scope: Scope, group: str | None) -> ModelRun | None:
        """The newest that has not begun and has images of the album, if there is room in it."""
        for run in reversed(self.in_state("queued")):
            if (
                run.scope == scope
                and not run.tries
                and group in [image.group for image in run.images]
                and group
            ):
                return run if run.count < MAX_IMAGES else None
        return None

    @rule(scope=SCOPE, group=st.sampled_from([None, "a", "b"]), amount=st.integers(1, 5))
    def images_come(self, scope: Scope, group: str | None, amount: int) -> None:
        for _ in range(amount):
            self.number += 1
            image = ModelImage(b"%d" % self.number, group)
            run = self.run_of_album(scope, group)
            if run is None and len(self.live(scope)) == MAX_IMAGES:
                with pytest.raises(ImageBufferError):
                    self.do(self.bench.save(self.bench.image(image.content), scope=scope, group=group))
                self.saw("refused")
                continue
            saved = self.do(self.bench.save(self.bench.image(image.content), scope=scope, group=group))
            if run is None:
                self.waiting[scope].append(image)
            else:
                run.images.append(image)
                run.count += 1
                self.saw("late")
            assert saved.run_id == (run and run.run_id)
            assert saved.count == (0 if run else len(self.live(scope)))
            self.purge()

    @rule(scope=SCOPE)
    def text_comes(self, scope: Scope) -> None:
        key = f"key {len(self.runs)}"
        accepted = self.do(self.bench.accept(scope=scope, claim=True, idempotency_key=key))
        assert not accepted.repeated
        taken = self.live(scope)
        self.waiting[scope] = [image for image in self.waiting[scope] if image.expired]
        self.runs.append(ModelRun(accepted.run.run_id, scope, key, taken, len(taken)))
        self.purge()
        self.saw(f"claimed {bool(taken)}")

    @rule(scope=SCOPE, before=st.integers(1, 4), after=st.integers(1, 3), taken=st.booleans())
    def an_album_comes_with_its_text_in_the_middle(
        self, scope: Scope, before: int, after: int, taken: bool
    ) -> None:
        """Chance alone would tell this story too seldom."""
        self.somebody_wants_them_forgotten(scope)
        self.images_come(scope, f"album {len(self.runs)}", before)
        self.text_comes(scope)
        self.images_come(scope, f"album {len(self.runs) - 1}", after)
        if taken:
            run = self.runs[-1]
            place = self.in_state("queued", "running").index(run)
            self.run_starts(place)
            self.agent_has_taken_it(self.in_state("running").index(run), stale=False)

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def text_comes_again(self, pick: int) -> None:
        run = self.runs[pick % len(self.runs)]
        accepted = self.do(self.bench.accept(scope=run.scope, claim=True, idempotency_key=run.key))
        assert (accepted.repeated, accepted.run.run_id) == (True, run.run_id)
        self.purge()

    @rule(scope=SCOPE)
    def somebody_wants_them_forgotten(self, scope: Scope) -> None:
        async def drop() -> int:
            async with self.bench.database.transaction() as connection:
                return await drop_pending(connection, scope)

        assert self.do(drop()) == len(self.waiting[scope])
        self.waiting[scope].clear()

    @precondition(lambda self: self.in_state("queued", "running"))
    @rule(pick=PICK)
    def run_starts(self, pick: int) -> None:
        runs = self.in_state("queued", "running")
        run = runs[pick % len(runs)]
        run.tries += 1
        assert self.do(self.bench.start(run.run_id)) == run.tries
        run.state = "running"

    @precondition(lambda self: self.in_state("running"))
    @rule(pick=PICK, stale=st.booleans())
    def agent_has_taken_it(self, pick: int, stale: bool) -> None:
        runs = self.in_state("running")
        run = runs[pick % len(runs)]
        assert self.do(self.bench.finish(run.run_id, run.tries - stale)) is not stale
        if not stale:
            run.state = "completed"
            self.saw(f"delivered {bool(run.images)}")
            run.images.clear()

    @precondition(lambda self: self.in_state("running"))
    @rule(pick=PICK)
    def agent_fails(self, pick: int) -> None:
        runs = self.in_state("running")
        run = runs[pick % len(runs)]
        self.do(self.bench.fail(run.run_id, run.tries))
        run.state = "failed"

    @precondition(lambda self: self.in_state("failed"))
    @rule(pick=PICK)
    def it_is_tried_again(self, pick: int) -> None:
        async def retry(run_id: UUID) -> None:
            async with self.bench.database.transaction() as connection:
                await retry_run(connection, run_id)

        runs = self.in_state("failed")
        run = runs[pick % len(runs)]
        self.do(retry(run.run_id))
        run.state = "queued"

    @precondition(lambda self: any(self.waiting.values()) or any(run.images for run in self.runs))
    @rule(pick=PICK)
    def three_days_pass_for_one(self, pick: int) -> None:
        lists = (*self.waiting.values(), *(run.images for run in self.runs))
        images = [image for images in lists for image in images]
        image = images[pick % len(images)]
        image.expired = True
        self.do(self.bench.expire(f"image_bytes = '{image.content.decode()}'"))

    @invariant()
    def the_database_is_as_the_model_says(self) -> None:
        self.do(self.compare())

    async def compare(self) -> None:
        for scope, images in self.waiting.items():
            found = await self.bench.rows(PENDING, scope.user_key)
            assert found == [(image.content, image.expired) for image in images]
        rows = await self.bench.rows("select run_id, state, tries, image_count from runs order by sequence")
        assert rows == [(run.run_id, run.state, run.tries, run.count) for run in self.runs]
        bound = await self.bench.rows(BOUND)
        assert bound == [(run.run_id, image.content) for run in self.runs for image in run.images]
        assert all(run.count <= MAX_IMAGES for run in self.runs)


@pytest.fixture
def world(server_url: str, template_url: str, tmp_path: Path) -> Iterator[World]:
    admin, name = admin_url(server_url), f"images_{os.getpid()}"
    with asyncio.Runner() as runner:
        runner.run(run_sql(admin, clone_template(name)))
        database = runner.run(Database.open(database_url(server_url, name), connections=2))
        yield World(runner, Bench(database, tmp_path))
        runner.run(database.close())
        runner.run(run_sql(admin, drop_database(name)))


@pytest.mark.spec("I3", "I5", "I6", "I7", "I8")
@pytest.mark.timeout(600)
def test_whatever_happens_in_whatever_order_every_image_is_where_it_belongs(world: World) -> None:
    run_state_machine_as_test(
        lambda: Machine(world),  # type: ignore[arg-type]
        settings=settings(
            max_examples=30,
            stateful_step_count=30,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
    # A machine that did not get about proves nothing.
    assert {"late", "purged", "claimed True", "delivered True"} <= world.seen.keys(), world.seen
