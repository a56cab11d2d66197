"""Attempts to take more than a share of the machine: threads, descriptors, files. The child is ended for them."""

from __future__ import annotations

import os
import threading
import time

from mediamill.processors.contract import ProcessorInput
from mediamill.testing.escape import LIMITS, Attempt, Targets

_PATIENCE_SECONDS = 20.0  # within which somebody should have noticed


def _many_threads(_: Targets, __: ProcessorInput) -> object:
    threading.stack_size(65536)
    release = threading.Event()
    for _each in range(5000):
        threading.Thread(target=release.wait, daemon=True).start()
    time.sleep(_PATIENCE_SECONDS)
    release.set()
    return "5000 threads"


def _many_descriptors(_: Targets, __: ProcessorInput) -> object:
    opened: list[int] = []
    try:
        while len(opened) < 10_000:
            opened += os.pipe()
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return f"{len(opened)} descriptors"


def _many_files(_: Targets, given: ProcessorInput) -> object:
    for number in range(30_000):
        os.close(os.open(given.folder / str(number), os.O_CREAT | os.O_WRONLY))
    time.sleep(_PATIENCE_SECONDS)
    return "30000 files"


NUMBER_ATTEMPTS: dict[str, Attempt] = {
    "many_threads": Attempt("start thousands of threads", LIMITS, _many_threads),
    "many_descriptors": Attempt("open thousands of pipes", LIMITS, _many_descriptors),
    "many_files": Attempt("make thousands of empty files", LIMITS, _many_files),
}
