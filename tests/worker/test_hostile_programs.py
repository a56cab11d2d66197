"""Processors that may run programs: what they start does not outlive them, and they reach no more than others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mediamill.worker import confine, seccomp
from mediamill.worker.confine import find_gaps
from mediamill.worker.escape_check import try_escapes
from mediamill.worker.landlock import landlock_version
from tests.worker.harness import QUICK, add_plugin, as_user, needs_root

REPOSITORY = Path(__file__).parents[2]
HOSTILE = "hostile-programs = mediamill.testing.hostile:HostileProcessor [programs]"
# What running programs takes; the programs are those of the system.
ALLOWED = {"fork", "vfork", "exec", "lock", "setsid"}


def run_straying(plugin: Path, folder: Path, *words: str, **options: Any) -> dict[str, Any]:
    own = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.worker.straying", str(folder), *words],
        env={**own, "PYTHONPATH": f"{plugin}{os.pathsep}{REPOSITORY}"},
        capture_output=True,
        text=True,
        cwd=folder,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("user", "words"),
    [
        (False, ()),
        pytest.param(True, (), marks=needs_root),
        pytest.param(True, ("no-namespaces",), marks=needs_root),
    ],
)
def test_programs_do_not_outlive_the_child_that_started_them(user: bool, words: tuple[str, ...]) -> None:
    """One by a double fork with a session and an empty environment of its own, a hundred of them, and a fork bomb."""
    with as_user() as (folder, options):
        plugin = add_plugin(folder, HOSTILE)
        told = run_straying(plugin, folder, *words, **(options if user else {}))
    assert told.pop("namespaces") is False or not words
    assert {how: found["left"] for how, found in told.items()} == {"one": 0, "hundred": 0, "bomb": 0}
    assert told["hundred"]["seen"] >= 100


@pytest.mark.skipif(
    landlock_version() < 6 or not seccomp.is_available(), reason="needs Landlock 6 and seccomp"
)
async def test_a_processor_that_runs_programs_reaches_no_more_than_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = add_plugin(tmp_path, HOSTILE)
    monkeypatch.syspath_prepend(str(plugin))
    monkeypatch.setenv("PYTHONPATH", str(plugin), prepend=os.pathsep)
    (tmp_path / "place").mkdir()
    names = [name for name in QUICK if name not in ALLOWED]
    outcomes = await try_escapes(tmp_path / "place", names=names, processor="hostile-programs")
    got = {one.name: one.said for one in outcomes if not one.refused}
    # In a namespace of its own there is no such process, and to signal everybody is to signal nobody.
    assert {name: said for name, said in got.items() if "No such process" not in said} == {}


def test_a_plugin_whose_programs_may_outlive_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confine, "has_namespaces", lambda: False)
    before = find_gaps()
    monkeypatch.syspath_prepend(str(add_plugin(tmp_path, HOSTILE)))
    (told,) = set(find_gaps()) - set(before)
    assert told == "programs that hostile-programs starts may outlive it (no PID namespaces here)"
    monkeypatch.setattr(confine, "has_namespaces", lambda: True)
    assert find_gaps() == before
