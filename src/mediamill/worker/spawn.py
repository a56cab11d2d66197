"""Starts a child process as an operating system sees it, and tells how it ended.

To be called by the event loop's own thread: the kernel ends a child together with the thread that started it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from mediamill.processors.contract import CALLER, NO_CALLER
from mediamill.processors.models.servers import model_servers, placeholder_keys
from mediamill.processors.settings import GIVEN
from mediamill.settings import Settings
from mediamill.worker.confine import is_filtered, is_landlocked
from mediamill.worker.messages import Start
from mediamill.worker.process_tree import MARK

# The settings that processors read.
PROCESSOR_SETTINGS = (
    *("speech", "speech_model", "speech_language", "vision", "vision_model"),
    *("video", "video_model", "text", "text_model"),
    *("embedding", "embedding_model", "library_read_text", "agent_context_tokens", "processor_threads"),
    *("openai_url", "gemini_url", "moondream_url"),
    *("model_timeout_seconds", "text_limit_characters", "document_pages", "document_ocr_pages"),
    *("stub_image_seconds", "stub_audio_seconds", "stub_video_seconds"),
)
# What of the worker's environment a child gets: what processors and their libraries go by, no secrets.
_PASSED_ON = {
    *("PATH", "LANG", "LANGUAGE", "TZ", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH"),
    *("SOURCE_DATE_EPOCH", "MALLOC_ARENA_MAX"),
    *(f"MEDIAMILL_{name}".upper() for name in PROCESSOR_SETTINGS),
}
_PASSED_ON_PREFIXES = (
    *("LC_", "OMP_", "OPENBLAS_", "MKL_", "ORT_", "VIPS_"),
    *("CUDA_", "NVIDIA_", "HIP_", "ROCR_", "LIBVA_"),  # which graphics card, and its driver
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one attempt may use."""

    timeout_seconds: float
    memory_bytes: int
    output_bytes: int = 1_000_000  # largest result, report or checkpoint
    file_bytes: int = 64 << 30  # largest file that a processor may write
    written_bytes: int = 64 << 30  # all that it may write

    def for_input(self, input_bytes: int) -> Limits:
        """A small file gives no reason to write very much."""
        return replace(self, written_bytes=min(self.written_bytes, (2 << 30) + 20 * input_bytes))


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """How a child is started."""

    processor: str
    declared: str  # as `module:Class`
    mark: str
    limits: Limits
    start_seconds: float
    folder: Path  # its own, and the only one that it may write to; it goes when the child goes
    mime_types: tuple[str, ...] = ()
    programs: bool = False  # it may run some
    paces: Path | None = None  # where callers share when a model server may be asked next

    @property
    def temporary_folder(self) -> Path:
        """For what libraries put aside; emptied after each job."""
        return self.folder / "tmp"

    @property
    def alone(self) -> bool:
        """Can it not start any process?"""
        return not self.programs and is_filtered()


@dataclass(frozen=True, slots=True)
class Started:
    """A child: our end of its socket and the pipe with all that it prints, which do not block.

    `callers`: the end of another socket that is for its caller, if there are servers that it could ask.
    """

    process: subprocess.Popen[bytes]
    link: socket.socket
    noise: int
    callers: socket.socket | None


def start_child(plan: ChildPlan) -> Started:
    """Start it; what it needs to know is on its command line."""
    settings = Settings()  # once: it takes some milliseconds of the event loop
    ours, theirs = socket.socketpair()
    callers, asking = socket.socketpair() if model_servers(settings) else (None, None)
    noise, noise_in = os.pipe()
    handed = [end.fileno() for end in (theirs, asking) if end is not None]
    try:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            _command(plan, theirs.fileno(), settings),
            stdin=subprocess.DEVNULL,
            stdout=noise_in,
            stderr=noise_in,
            pass_fds=handed,
            start_new_session=True,
            env=_environment(plan, asking, settings),
        )
    except BaseException:
        ours.close()
        os.close(noise)
        if callers is not None:
            callers.close()
        raise
    finally:
        theirs.close()
        if asking is not None:
            asking.close()
        os.close(noise_in)
    ours.setblocking(False)
    os.set_blocking(noise, False)
    return Started(process, ours, noise, callers)


def _command(plan: ChildPlan, descriptor: int, settings: Settings) -> list[str]:
    # -P: the folder that the worker was started in must not shadow modules; -u: last words are not lost.
    limits = plan.limits
    start = Start(
        plan.processor,
        plan.declared,
        plan.mime_types,
        limits.timeout_seconds,
        descriptor,
        os.getpid(),
        limits.memory_bytes,
        limits.file_bytes,
        str(plan.folder),
        plan.programs,
        str(settings.models_folder),
        is_landlocked(settings),
        is_filtered(settings),
    )
    return [sys.executable, "-P", "-u", "-m", "mediamill.worker.child", msgspec.json.encode(start).decode()]


def _environment(plan: ChildPlan, asking: socket.socket | None, settings: Settings) -> dict[str, str]:
    """By a list, so that no secret of this or any other program is in it."""
    named = _PASSED_ON | {name.strip() for name in settings.sandbox_environment.split(",")}
    passed_on = {
        name: value
        for name, value in os.environ.items()
        if name in named or name.startswith(_PASSED_ON_PREFIXES)
    }
    own = {
        "TMPDIR": str(plan.temporary_folder),
        "HOME": str(plan.temporary_folder),
        "MEDIAMILL_MODELS": str(settings.models_folder),
        CALLER: NO_CALLER if asking is None else str(asking.fileno()),
        GIVEN: msgspec.json.encode({name: getattr(settings, name) for name in PROCESSOR_SETTINGS}).decode(),
        MARK: plan.mark,
    }
    return {**passed_on, **placeholder_keys(settings), **own}


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
