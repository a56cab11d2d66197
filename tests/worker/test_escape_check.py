"""What attempts to escape aim at is really there, and how each attempt ended is told as it was."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from mediamill.errors import MediamillError
from mediamill.processors.contract import ProcessorOutput
from mediamill.testing.escape import DATAGRAMS, LIMITS
from mediamill.testing.escape_attempts import ATTEMPTS
from mediamill.worker.escape_check import Outcome, _lay_out, _targets, _try
from mediamill.worker.failures import (
    MemoryLimitError,
    ProcessorCrashedError,
    TooManyThreadsError,
    TooMuchWrittenError,
)
from mediamill.worker.sandbox import SandboxJob

pytestmark = pytest.mark.spec("C26")


def test_every_target_can_be_reached_by_whoever_is_not_confined(tmp_path: Path) -> None:
    home = tmp_path / "scratch" / "1-home"
    with _targets(tmp_path, home) as targets:
        _lay_out(tmp_path, targets)
        assert Path(targets.secret).read_text() == "secret"
        assert Path(targets.secret).parent == Path(targets.folder) == tmp_path / "wanted"
        assert Path(targets.neighbour).read_text() == "neighbour"
        assert Path(targets.neighbour).parents[2] == home, "the folder of another child"
        assert targets.worker == os.getpid()
        with socket.create_connection(("127.0.0.1", targets.port), timeout=30):
            pass
        for address in (targets.unix_socket, f"\0{targets.abstract_socket}"):
            with socket.socket(socket.AF_UNIX) as link:
                link.connect(address)
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                assert sending.sendto(b"x", address + DATAGRAMS) == 1
    assert not Path(targets.unix_socket).exists(), "nothing is left of it"
    (tmp_path / "second").mkdir()
    with _targets(tmp_path / "second", home) as other:
        assert other.abstract_socket != targets.abstract_socket


def test_everything_is_laid_out_anew_for_each_attempt(tmp_path: Path) -> None:
    with _targets(tmp_path, tmp_path / "home") as targets:
        for _ in range(2):
            _lay_out(tmp_path, targets)
            assert [path.name for path in Path(targets.folder).iterdir()] == ["secret.txt"]
            assert (tmp_path / "inbox" / "input.txt").read_text() == "input"
            assert (tmp_path / "inbox" / "other.txt").read_text() == "other"
            Path(targets.secret).write_text("taken")
            (tmp_path / "inbox" / "other.txt").unlink()
            folder = Path(targets.folder)
            (folder / "made").write_text("x")
            (folder / "made folder").mkdir()
            (folder / "link").symlink_to(tmp_path)
        assert tmp_path.exists()


class Played:
    """In the place of a sandbox: what comes of each attempt is given."""

    def __init__(self, end: dict[str, Any] | Exception) -> None:
        self.end = end
        self.jobs: list[SandboxJob] = []

    async def run(self, job: SandboxJob) -> ProcessorOutput:
        self.jobs.append(job)
        if isinstance(self.end, Exception):
            raise self.end
        return ProcessorOutput(self.end)


BY_LIMITS = next(name for name, attempt in ATTEMPTS.items() if attempt.by == LIMITS)
BY_OTHERS = next(name for name, attempt in ATTEMPTS.items() if attempt.by != LIMITS)
ENDS: list[tuple[str, dict[str, Any] | Exception, bool, str]] = [
    (BY_OTHERS, {"refused": True, "said": "EPERM"}, True, "EPERM"),
    (BY_OTHERS, {"refused": False, "said": 7}, False, "7"),
    (BY_OTHERS, ProcessorCrashedError("it died"), False, "it died"),
    (BY_OTHERS, MediamillError("odd"), False, "odd"),
    *[
        (name, error("too much"), name == BY_LIMITS, "too much")
        for name in (BY_LIMITS, BY_OTHERS)
        for error in (TooManyThreadsError, TooMuchWrittenError, MemoryLimitError)
    ],
]


@pytest.mark.parametrize(("name", "end", "refused", "said"), ENDS)
async def test_an_attempt_is_refused_only_if_what_should_refuse_it_did(
    tmp_path: Path, name: str, end: dict[str, Any] | Exception, refused: bool, said: str
) -> None:
    sandbox: Any = Played(end)
    with _targets(tmp_path, tmp_path / "home") as targets:
        found = await _try(sandbox, name, targets, tmp_path, True)
    assert found == Outcome(name, ATTEMPTS[name].what, ATTEMPTS[name].by, refused, said)
    (job,) = sandbox.jobs
    assert (job.payload["attempt"], job.payload["thread"]) == (name, True)
    assert job.payload["targets"]["port"] == targets.port
    assert job.file is not None
    assert job.file.read_text() == "input"
