"""`mediamill worker` that kills itself, with -9, at a step of putting its work into a bucket."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from mediamill.__main__ import main
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.objects import Objects
from mediamill.worker.source import LocalSource


# setattr: what is put in its place need not fit, nobody comes back from it.
# ruff: noqa: B010
def die() -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def at_put(number: int, *, done: bool) -> Callable[[], None]:
    """In the middle of the object of this number: before it is there, or when it is and nothing names it."""

    def prepare() -> None:
        put, count = Objects.put, 0

        async def put_or_die(objects: Objects, key: str, data: bytes) -> None:
            nonlocal count
            count += 1
            if count == number and not done:
                die()
            await put(objects, key, data)
            if count == number:
                die()

        setattr(Objects, "put", put_or_die)

    return prepare


def when_named() -> None:
    """In the transaction that names a file."""
    name, count = BucketStorage.give_name, 0

    async def name_and_die(*words: Any) -> None:
        nonlocal count
        await name(*words)
        count += 1
        if count == 3:
            die()

    setattr(BucketStorage, "give_name", name_and_die)


def before_the_end() -> None:
    """All is put and named, and the job is not settled."""
    setattr(LocalSource, "finish", lambda *_: die())


def within_the_end() -> None:
    """In the transaction that ends the job: the stream has its place, and nothing is committed."""
    move = BucketStorage.move_folder

    async def move_and_die(*words: Any) -> None:
        await move(*words)
        die()

    setattr(BucketStorage, "move_folder", move_and_die)


STEPS: dict[str, Callable[[], None]] = {
    "before_an_object_is_there": at_put(2, done=False),
    "when_an_object_is_there_and_has_no_name": at_put(2, done=True),
    "within_the_naming": when_named,
    "before_the_end_of_the_job": before_the_end,
    "within_the_end_of_the_job": within_the_end,
}

if __name__ == "__main__":
    STEPS[sys.argv.pop(1)]()
    main()
