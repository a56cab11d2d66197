"""The pictures in docs/state-machine.md show what the code does, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mediamill.engine.model import TRANSITIONS, Move, State, WorkerState
from mediamill.engine.workers import disable_worker, enable_worker, heartbeat, register_worker, set_state
from tests.engine.conftest import Bench, bench  # noqa: F401

PAGE = Path(__file__).resolve().parents[2] / "docs" / "state-machine.md"
ARROW = re.compile(r"^\s+(\[\*\]|\w+) --> (\[\*\]|\w+): (.+)$")

Arrow = tuple[str | None, str, str | None]


def read_diagrams() -> list[list[Arrow]]:
    """The arrows of each Mermaid state diagram: (from, label, to), None for the point outside."""
    diagrams = []
    for block in re.findall(r"```mermaid\n(.*?)```", PAGE.read_text(), re.DOTALL):
        head, *lines = block.splitlines()
        assert head == "stateDiagram-v2"
        arrows = []
        for line in filter(str.strip, lines):
            match = ARROW.match(line)
            assert match, f"not an arrow: {line}"
            before, after, label = match.groups()
            arrows.append((None if before == "[*]" else before, label, None if after == "[*]" else after))
        diagrams.append(arrows)
    return diagrams


@pytest.mark.spec("E8")
def test_the_picture_of_a_jobs_life_is_the_one_that_the_code_declares() -> None:
    drawn = read_diagrams()[0]
    declared = {
        (before and str(before), str(move), after and str(after)) for before, move, after in TRANSITIONS
    }
    assert set(drawn) == declared
    assert len(drawn) == len(declared), "an arrow is drawn twice"


def test_every_state_and_every_move_is_in_the_picture() -> None:
    drawn = read_diagrams()[0]
    assert {end for before, _, after in drawn for end in (before, after)} - {None} == set(map(str, State))
    assert {label for _, label, _ in drawn} == set(map(str, Move))


def test_every_move_is_explained_below_the_picture() -> None:
    explained = PAGE.read_text().split("## Who may do what")[1].split("## The fence")[0]
    assert [move for move in Move if f"**{move}**" not in explained] == []


@pytest.mark.spec("E8")
def test_no_state_is_a_trap_and_each_can_be_reached() -> None:
    reached: set[State | None] = {None}
    while more := {after for before, _, after in TRANSITIONS if before in reached} - reached:
        reached |= more
    assert reached == {None, *State}
    ending: set[State | None] = {None}
    while more := {before for before, _, after in TRANSITIONS if after in ending} - ending:
        ending |= more
    assert ending == {None, *State}


@pytest.mark.spec("E21")
async def test_the_picture_of_a_workers_states_is_what_the_verbs_do(bench: Bench) -> None:  # noqa: F811
    """Every verb is tried on a worker in every state; the arrows are those that changed it."""
    spoken = (WorkerState.IDLE, WorkerState.BUSY, WorkerState.PAUSED)
    arrows: set[Arrow] = set()
    async with bench.database.connection() as connection:
        id_ = await register_worker(connection, name="w")
        arrows.add((None, "register", await connection.fetchval("select state from workers")))

        async def note(before: WorkerState, label: str) -> None:
            after = await connection.fetchval("select state from workers where id = $1", id_)
            if after != before:
                arrows.add((str(before), label, after))
            await connection.execute("update workers set state = $1", str(before))

        for before in WorkerState:
            await connection.execute("update workers set state = $1", str(before))
            for state in spoken:
                await heartbeat(connection, id_, state=state)
                await note(before, "heartbeat")
            await set_state(connection, id_, "w", WorkerState.OFFLINE)
            await note(before, "silence")
            await disable_worker(connection, id_)
            await note(before, "disable")
            await enable_worker(connection, id_)
            await note(before, "enable")
    assert arrows == set(read_diagrams()[1])
