"""A command of mediamill that kills itself with -9 at one step of the way of a project file (its first two words)."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

from mediamill.cli import intake as command
from mediamill.cli.command import run
from mediamill.engine import settle
from mediamill.intake import add, jobs, projects, sweep, watch
from mediamill.intake.receive import Arrived
from mediamill.worker import source
from mediamill.worker.remote_source import RemoteSource
from mediamill.worker.run import Runner
from mediamill.worker.source import LocalSource


# setattr: what is put in its place need not fit, nobody comes back from it.
# ruff: noqa: B010
def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str) -> Callable[[], None]:
    """Instead of doing this."""
    return lambda: setattr(owner, name, die)


def after(owner: Any, name: str, when: Callable[..., bool] = lambda *_, **__: True) -> Callable[[], None]:
    """Once this is done, if it was done with such arguments."""
    done = getattr(owner, name)

    async def do_and_die(*args: Any, **more: Any) -> Any:
        result = await done(*args, **more)
        return die() if when(*args, **more) else result

    def die_in_turn(*args: Any, **more: Any) -> Any:
        result = done(*args, **more)
        return die() if when(*args, **more) else result

    return lambda: setattr(owner, name, do_and_die if iscoroutinefunction(done) else die_in_turn)


def half_an_output() -> None:
    """A folder of which one file is removed already."""
    remove = shutil.rmtree

    def remove_some(path: Any, **more: Any) -> None:
        if "outputs" not in Path(path).parts:
            remove(path, **more)
            return
        next(Path(path).iterdir()).unlink()
        die()

    setattr(shutil, "rmtree", remove_some)


def _has_answer(*_: Any, checkpoint: Any = None, **__: Any) -> bool:
    return isinstance(checkpoint, dict) and "answer" in checkpoint


def _is_of(folder: str) -> Callable[..., bool]:
    return lambda path, **_: "intake" in path.parts and folder in path.parts


UPLOAD = {
    "before_the_bytes_have_their_place": before(Arrived, "put_in_place"),
    "when_the_bytes_have_their_place": after(Arrived, "put_in_place"),
    "before_the_commit": after(add, "settle_files"),
    "before_the_answer": before(add, "show_file"),
}
WATCH = {
    "when_the_bytes_have_their_place": after(Arrived, "put_in_place"),
    "before_the_commit": after(watch, "add_arrived"),
    "when_one_is_taken": after(watch._Look, "_add"),
}
WORK = {
    "within_the_claim": after(jobs, "begin"),
    "when_it_is_claimed": before(Runner, "run"),
    "when_the_answer_is_kept": after(LocalSource, "report", _has_answer),
    "when_the_outputs_are_there": after(source, "keep_files"),
    "before_it_is_settled": before(LocalSource, "finish"),
    "within_the_settling": after(settle, "_finish"),
    "when_it_is_settled": after(LocalSource, "finish"),
}
SCAN = {"here": after(LocalSource, "keep"), "far_away": after(RemoteSource, "keep")}
DELETION = {
    "before_the_commit": after(projects, "drop_entries_under"),
    "when_it_is_deleted": before(command, "print_json"),
}
SWEEP = {
    "of_analyses": after(sweep, "drop_orphans"),
    "of_bytes": after(Path, "unlink", _is_of("files")),
    "of_outputs": half_an_output,
    "of_parts": after(Path, "unlink", _is_of("parts")),
}
STEPS = {"upload": UPLOAD, "watch": WATCH, "work": WORK, "scan": SCAN, "deletion": DELETION, "sweep": SWEEP}

if __name__ == "__main__":
    STEPS[sys.argv[1]][sys.argv[2]]()
    sys.exit(run(sys.argv[3:]))
