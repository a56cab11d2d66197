"""What a worker and its child processes say to each other: msgpack, each message with its length in front."""

from __future__ import annotations

import struct
from typing import Any, Literal

import msgspec

from mediamill.errors import Wait

HEADER = struct.Struct("<I")
MOST_FILES = 253  # descriptors that go with one message: the kernel's own limit
# A failure (with its traceback, cut by the child) must get through whatever the limit on results is.
FAILURE_ALLOWANCE_BYTES = 500_000

FailureKind = Literal["permanent", "temporary", "not_now", "memory", "output", "elsewhere"]


class Start(msgspec.Struct, frozen=True):
    """Worker to child, on its command line: what to be."""

    processor: str
    declared: str  # where its class is
    mime_types: tuple[str, ...]
    timeout_seconds: float
    descriptor: int  # of the socket
    parent: int  # process id
    memory_bytes: int
    file_bytes: int
    folder: str  # the only one to write to
    programs: bool  # it runs some
    models: str  # the folder of the model files
    landlock: bool  # it is confined by Landlock
    seccomp: bool  # its system calls are filtered


class Work(msgspec.Struct, array_like=True, frozen=True):
    """Worker to child: one attempt at one job. Descriptors of its files come with the first byte, in this order."""

    number: int
    payload: dict[str, Any]
    mime_type: str | None
    file: bytes | None  # a path: names need not be UTF-8
    checkpoint: Any
    attempt: int
    output_bytes: int
    kept: dict[str, dict[str, Any]] = {}
    traced: bool = False  # somebody wants to know when it began and ended
    members: tuple[str, ...] | None = None  # the file is a folder, and these are open
    failed: int = 0  # the file could not be opened: errno


class KeptFile(msgspec.Struct, array_like=True, frozen=True):
    """A finished file that the worker is to take away now."""

    name: str
    path: str  # relative to the scratch folder
    facts: dict[str, Any]


class Spent(msgspec.Struct, array_like=True, frozen=True):
    """When the processor began and ended, by the clock of the child, and what it took."""

    pid: int
    began_ns: int
    ended_ns: int
    cpu_seconds: float


class Report(msgspec.Struct, array_like=True, frozen=True):
    """How far a processor is. What was not told is None."""

    step: str | None = None
    percent: float | None = None
    parts: dict[str, Any] | None = None
    checkpoint: Any = None
    kept: KeptFile | None = None
    spent: Spent | None = None


class Ready(msgspec.Struct, array_like=True, frozen=True, tag=True):
    """Child to worker, once: the processor is loaded. `network`: it asks servers, so it needs a caller."""

    network: bool = False


class Progress(msgspec.Struct, array_like=True, frozen=True, tag=True):
    """Child to worker, any number of times."""

    number: int
    report: Report


class Done(msgspec.Struct, array_like=True, frozen=True, tag=True):
    """Child to worker: the attempt succeeded. `folder`: the scratch folder was made."""

    number: int
    result: dict[str, Any]
    files: dict[str, str]
    folder: bool


class Failed(msgspec.Struct, array_like=True, frozen=True, tag=True):
    """Child to worker: the attempt failed, or (number 0) the processor could not be loaded."""

    number: int
    kind: FailureKind
    message: str
    code: str | None
    fix: str | None
    traceback: str | None
    folder: bool
    notice: str | None = None  # what the sender of the media is told
    mime_type: str | None = None  # the real type, when the job belongs elsewhere
    wait: Wait | None = None  # for what is not there now


FromChild = Ready | Progress | Done | Failed

_encoder = msgspec.msgpack.Encoder()
decode_work = msgspec.msgpack.Decoder(Work).decode
decode_from_child = msgspec.msgpack.Decoder(FromChild).decode


def frame(message: Work | FromChild) -> bytearray:
    """The message as it goes over the socket."""
    out = bytearray(HEADER.size)
    _encoder.encode_into(message, out, HEADER.size)
    HEADER.pack_into(out, 0, len(out) - HEADER.size)
    return out
