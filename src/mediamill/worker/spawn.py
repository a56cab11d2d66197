"""Starts a child process as an operating system sees it, and tells how it ended.

To be called by the event loop's own thread: the kernel ends a child together with the thread that started it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import msgspec
from pydantic import SecretStr

from mediamill.settings import FOR_PROCESSORS, Settings
from mediamill.worker.messages import Start
from mediamill.worker.process_tree import MARK

_SECRETS = {
    f"MEDIAMILL_{name}".upper()
    for name, field in Settings.model_fields.items()
    if SecretStr in (field.annotation, *get_args(field.annotation))
    and field.json_schema_extra != FOR_PROCESSORS
}
# What is not good without a secret goes with it, or no processor could read its settings.
_KEPT_BACK = _SECRETS | {"MEDIAMILL_QUEUE_MODE"}
_KEPT_BACK_PREFIXES = ("OTEL_", "AWS_")  # whom traces are sent to; keys of a bucket


@dataclass(frozen=True, slots=True)
class Limits:
    """What one attempt may use."""

    timeout_seconds: float
    memory_bytes: int
    output_bytes: int = 1_000_000  # largest result, report or checkpoint
    file_bytes: int = 64 << 30  # largest file that a processor may write


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """How a child is started."""

    processor: str
    mark: str
    limits: Limits
    start_seconds: float
    folder: Path  # the only one that it may write to
    mime_types: tuple[str, ...] = ()

    @property
    def temporary_folder(self) -> Path:
        """For what libraries put aside; it goes when the child goes."""
        return self.folder / f"tmp-{self.mark}"


def start_child(plan: ChildPlan) -> tuple[subprocess.Popen[bytes], socket.socket, int]:
    """The process, our end of its socket, and the pipe with all that it prints; both do not block."""
    ours, theirs = socket.socketpair()
    noise, noise_in = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            _command(plan, theirs.fileno()),
            stdin=subprocess.DEVNULL,
            stdout=noise_in,
            stderr=noise_in,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
            env=_environment(plan),
        )
    except BaseException:
        ours.close()
        os.close(noise)
        raise
    finally:
        theirs.close()
        os.close(noise_in)
    ours.setblocking(False)
    os.set_blocking(noise, False)
    return process, ours, noise


def _command(plan: ChildPlan, descriptor: int) -> list[str]:
    # -P: the folder that the worker was started in must not shadow modules; -u: last words are not lost.
    limits = plan.limits
    start = Start(
        plan.processor,
        plan.mime_types,
        limits.timeout_seconds,
        descriptor,
        os.getpid(),
        limits.memory_bytes,
        limits.file_bytes,
        str(plan.folder),
    )
    told = msgspec.json.encode(start).decode()
    return [sys.executable, "-P", "-u", "-m", "mediamill.worker.child", told]


def _environment(plan: ChildPlan) -> dict[str, str]:
    """The worker's, without its secrets: a processor sees files, no database, no bucket, nor who is sent traces."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.upper() not in _KEPT_BACK and not name.upper().startswith(_KEPT_BACK_PREFIXES)
    }
    return {**kept, MARK: plan.mark, "TMPDIR": str(plan.temporary_folder)}


def open_pidfd(pid: int) -> int | None:
    """Without one (no Linux, no more descriptors), only the closed socket tells that a child has died."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def describe_end(pidfd: int) -> str:
    try:
        status = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:  # somebody else in this process has reaped it
        status = None
    if status is None:
        return "ended"
    if status.si_code == os.CLD_EXITED:
        return f"ended by itself with exit code {status.si_status}"
    try:
        name = signal.Signals(status.si_status).name
    except ValueError:
        name = f"signal {status.si_status}"
    hint = " (the machine may be out of memory)" if name == "SIGKILL" else ""
    return f"was ended by {name}{hint}"
