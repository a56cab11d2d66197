"""Races between a worker that takes or removes files and a child that exchanges them for links to the outside.

Also a program, to be run as another user: `python -m tests.worker.racing <folder>`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from mediamill.processors.contract import ProcessorOutput
from mediamill.worker.messages import KeptFile
from mediamill.worker.reporting import _measure
from mediamill.worker.sandbox import InvalidOutputError, SandboxJob, Take
from mediamill.worker.scratch import empty_folder
from tests.worker.harness import opened

TRIES, ROUNDS = 1000, 30
WHAT = ("file", "folder", "job")


async def race(place: Path, what: str) -> Counter[str]:
    """What came of each try to keep a file."""
    seen: Counter[str] = Counter()
    outside = _make_outside(place)

    def on_kept(kept: KeptFile, take: Take) -> None:
        try:
            seen[_measure(kept, take).path.read_text()] += 1
        except InvalidOutputError:
            seen["refused"] += 1

    async with opened(place / "scratch", processor="hostile", spare=0) as sandbox:
        await sandbox.run(_job(what, outside), on_kept=on_kept)
    _check(outside)
    return seen


async def race_removal(place: Path) -> Counter[str]:
    """Each try removes what is in a folder that is exchanged for a link."""
    seen: Counter[str] = Counter()
    outside = _make_outside(place)

    def on_kept(*_: object) -> None:
        (child,) = sandbox._children
        (job,) = (folder for folder in child.plan.folder.iterdir() if folder.name.isdigit())
        try:
            seen[str(empty_folder(job / "real"))] += 1
        except OSError:  # a link
            seen["refused"] += 1

    async with opened(place / "scratch", processor="hostile", spare=0) as sandbox:
        await sandbox.run(_job("folder", outside), on_kept=on_kept)
    _check(outside)
    return seen


async def race_results(place: Path) -> Counter[str]:
    """The same for the files of a result; the first that is a link refuses them all."""
    seen: Counter[str] = Counter()
    outside = _make_outside(place)

    async def keep(folder: Path, output: ProcessorOutput) -> None:
        seen.update((folder / path).read_text() for path in output.files.values())

    async with opened(place / "scratch", processor="hostile", spare=0) as sandbox:
        for _ in range(20):
            try:
                await sandbox.run(_job("folder", outside, tries=3, by="result"), keep=keep)
            except InvalidOutputError:
                seen["refused"] += 1
    _check(outside)
    return seen


def _job(what: str, outside: Path, tries: int = TRIES, **more: Any) -> SandboxJob:
    payload = {"attempt": "race", "what": what, "folder": str(outside), "tries": tries}
    return SandboxJob({**payload, **more})


def _make_outside(place: Path) -> Path:
    outside = place / "outside"
    outside.mkdir(parents=True)
    for number in range(TRIES):
        (outside / f"f-{number:04}.txt").write_text("secret")
    return outside


def _check(outside: Path) -> None:
    files = list(outside.iterdir())
    assert len(files) == TRIES
    assert {path.read_text() for path in files} == {"secret"}


async def race_all(place: Path) -> dict[str, Counter[str]]:
    """Each kind of race by itself."""
    races = {what: partial(race, what=what) for what in WHAT}
    seen = {what: await _until_both_won(place / what, run, "mine") for what, run in races.items()}
    return {
        **seen,
        "removal": await _until_both_won(place / "removal", race_removal, "True"),
        "results": await race_results(place / "results"),
    }


async def _until_both_won(
    place: Path, run: Callable[[Path], Awaitable[Counter[str]]], won: str
) -> Counter[str]:
    """On a busy machine one side may sleep through a whole round."""
    seen: Counter[str] = Counter()
    for number in range(ROUNDS):
        seen += await run(place / str(number))
        if {won, "refused"} <= set(seen):
            break
    return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(race_all(Path(sys.argv[1])))))
