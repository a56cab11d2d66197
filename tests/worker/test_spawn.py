"""How a child is started: its environment by a list, its limits, and how its end is worded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from mediamill.processors.contract import CALLER, NO_CALLER
from mediamill.processors.settings import GIVEN as GIVEN_SETTINGS
from mediamill.settings import Settings
from mediamill.worker.confine import is_filtered, is_landlocked
from mediamill.worker.messages import Start
from mediamill.worker.process_tree import MARK
from mediamill.worker.spawn import (
    PROCESSOR_SETTINGS,
    ChildPlan,
    Limits,
    _command,
    _environment,
    describe_end,
    open_pidfd,
)

PLAN = ChildPlan("scripted", "a.b:C", "m.1", Limits(7, 64 << 20), 30, Path("/scratch/1"), ("a/b",))
# What of a worker's environment a child gets, and what it must not.
GIVEN = {
    *("PATH", "LANG", "LANGUAGE", "TZ", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH"),
    *("SOURCE_DATE_EPOCH", "MALLOC_ARENA_MAX", "LC_ALL", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    *("MKL_NUM_THREADS", "ORT_LOGGING", "VIPS_CONCURRENCY", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "LIBVA_DRIVER_NAME", "MEDIAMILL_SPEECH"),
    *("MEDIAMILL_STUB_IMAGE_SECONDS", "MEDIAMILL_TEXT_LIMIT_CHARACTERS", "MEDIAMILL_OPENAI_URL", "PLUGIN_A"),
}
KEPT_BACK = {
    *(
        "MEDIAMILL_DATABASE_URL",
        "MEDIAMILL_ADMIN_SECRET",
        "AWS_SECRET_ACCESS_KEY",
        "HTTPS_PROXY",
        "GITHUB_TOKEN",
    ),
    *("MY_LC_ALL", "path", "LD_PRELOAD", "SSH_AUTH_SOCK", "PLUGIN_C"),
}


def test_a_child_gets_what_libraries_go_by_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    values = {
        "MEDIAMILL_SPEECH": "local",
        "MEDIAMILL_STUB_IMAGE_SECONDS": "7",
        "MEDIAMILL_TEXT_LIMIT_CHARACTERS": "7000",
        "MEDIAMILL_OPENAI_URL": "http://a/v1",
        "MEDIAMILL_DATABASE_URL": "postgresql://h/x",
        "MEDIAMILL_SANDBOX_ENVIRONMENT": "PLUGIN_A, PLUGIN_B",
    }
    for name in GIVEN | KEPT_BACK | set(values):
        monkeypatch.setenv(name, values.get(name, "x"))
    found = _environment(PLAN, None, Settings())
    own = {"TMPDIR": "/scratch/1/tmp", "HOME": "/scratch/1/tmp", CALLER: NO_CALLER, MARK: "m.1"}
    own["MEDIAMILL_MODELS"] = str(Settings().models_folder)
    assert {name: found[name] for name in own} == own
    assert set(found) - set(own) == GIVEN | {GIVEN_SETTINGS}
    assert set(msgspec.json.decode(found[GIVEN_SETTINGS])) == set(PROCESSOR_SETTINGS)


def test_every_setting_that_processors_read_is_one() -> None:
    assert set(PROCESSOR_SETTINGS) <= set(Settings.model_fields)
    assert len(set(PROCESSOR_SETTINGS)) == len(PROCESSOR_SETTINGS)


def test_what_a_child_is_to_be_is_on_its_command_line() -> None:
    *python, start = _command(replace(PLAN, programs=True), 5, Settings())
    assert python == [sys.executable, "-P", "-u", "-m", "mediamill.worker.child"]
    assert msgspec.json.decode(start, type=Start) == Start(
        *("scripted", "a.b:C", ("a/b",), 7, 5, os.getpid(), 64 << 20, 64 << 30, "/scratch/1", True),
        *(str(Settings().models_folder), is_landlocked(), is_filtered()),
    )


def test_a_small_file_gives_no_reason_to_write_much() -> None:
    limits = Limits(7, 1)
    assert (limits.output_bytes, limits.file_bytes, limits.written_bytes) == (1_000_000, 64 << 30, 64 << 30)
    assert limits.for_input(0) == replace(limits, written_bytes=2 << 30)
    assert limits.for_input(1 << 20) == replace(limits, written_bytes=(2 << 30) + (20 << 20))
    assert limits.for_input(1 << 40) == limits
    assert replace(limits, written_bytes=5).for_input(9).written_bytes == 5


def test_a_child_that_can_start_nothing_is_looked_at_alone() -> None:
    assert PLAN.alone is is_filtered()
    assert not replace(PLAN, programs=True).alone


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise SystemExit(3)", "ended by itself with exit code 3"),
        ("", "ended by itself with exit code 0"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by SIGKILL (the machine may be out of memory)"),
        ("import os; os.kill(os.getpid(), 15)", "was ended by SIGTERM"),
        (
            f"import os; os.kill(os.getpid(), {signal.SIGRTMIN + 3})",
            f"was ended by signal {signal.SIGRTMIN + 3}",
        ),
    ],
)
def test_the_end_of_a_child_is_worded(code: str, said: str) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", code]) as process:
        pidfd = open_pidfd(process.pid)
        assert pidfd is not None
        assert describe_end(pidfd) == said
    assert describe_end(pidfd) == "ended", "somebody else has reaped it"
    os.close(pidfd)
    assert open_pidfd(process.pid) is None, "there is no such process"
