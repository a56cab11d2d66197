"""A child that exchanges its files for links while the worker takes or removes them gains nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.worker.harness import as_user, needs_root
from tests.worker.racing import TRIES, WHAT, race_all

REPOSITORY = Path(__file__).parents[2]


async def test_nothing_from_outside_is_taken_or_removed(tmp_path: Path) -> None:
    check(await race_all(tmp_path))


@needs_root
def test_nothing_from_outside_is_taken_or_removed_for_an_ordinary_user() -> None:
    with as_user() as (folder, options):
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder)}
        command = [sys.executable, "-m", "tests.worker.racing", str(folder / "races")]
        done = subprocess.run(
            command,
            env={**environment, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            cwd=folder,
            **options,
        )
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout))


def check(seen: Mapping[str, Mapping[str, int]]) -> None:
    for what in WHAT:
        assert set(seen[what]) == {"mine", "refused"}, seen  # both, or nothing was raced
        assert sum(seen[what].values()) % TRIES == 0
    assert set(seen["results"]) <= {"mine", "refused"}
    assert {"True", "refused"} <= set(seen["removal"]) <= {"True", "False", "refused"}
    assert sum(seen["removal"].values()) % TRIES == 0
