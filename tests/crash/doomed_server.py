"""`mediamill up` that kills itself with -9 at one step of the end of an upload, which is its argument."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mediamill.cli.command import run
from mediamill.staging import parts
from mediamill.staging.resumable import Part
from mediamill.videos import upload
from mediamill.videos.upload import Uploads


# setattr: what is put in its place need not fit, nobody comes back from it.
# ruff: noqa: B010, B009
def die(*_: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def before_it_is_looked_at() -> None:
    setattr(parts, "sniff", die)


def before_it_is_moved() -> None:
    setattr(Part, "_move", die)


def before_it_has_its_name() -> None:
    setattr(Path, "replace", die)


def when_it_has_its_name() -> None:
    replace = Path.replace

    def replace_and_die(path: Path, target: Any) -> None:
        replace(path, target)
        if "uploads" in path.parts:
            die()

    setattr(Path, "replace", replace_and_die)


def before_the_video_is_inserted() -> None:
    setattr(upload, "add_video", die)


def before_the_commit() -> None:
    add_video = getattr(upload, "add_video")

    async def add_and_die(*args: Any) -> None:
        await add_video(*args)
        die()

    setattr(upload, "add_video", add_and_die)


def before_the_answer() -> None:
    register = Uploads._register

    async def register_and_die(self: Uploads, row: Any) -> None:
        await register(self, row)
        die()

    setattr(Uploads, "_register", register_and_die)


STEPS: dict[str, Callable[[], None]] = {
    step.__name__: step
    for step in (
        before_it_is_looked_at,
        before_it_is_moved,
        before_it_has_its_name,
        when_it_has_its_name,
        before_the_video_is_inserted,
        before_the_commit,
        before_the_answer,
    )
}

if __name__ == "__main__":
    STEPS[sys.argv[1]]()
    sys.exit(run(["up", "--workers", "0"]))
