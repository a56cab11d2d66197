"""What a child process may do besides computing: read files, write in its sandbox's folder, little else.

Strangers' bytes meet large libraries here. Whoever takes over such a library finds no network, no place to
write to, no other process to reach. A kernel without these means runs the children all the same, and `told` says so.
"""

from __future__ import annotations

import contextlib
import logging
from functools import cache
from pathlib import Path
from typing import Any

from mediamill.settings import Settings
from mediamill.worker import seccomp
from mediamill.worker.landlock import allow_writes, landlock_version

log = logging.getLogger(__name__)

_DEVICES = ("null", "zero", "full", "kfd", "dri", "nvidia*")  # what programs throw away, and graphics cards


def confine_files(folder: Path) -> None:
    """Before the processor is loaded, as libraries start threads: writes go to the sandbox's folder only.

    And to the folder of the models, as a processor may fetch its model when it is made.
    """
    if landlock_version():
        models = Settings().models_folder
        with contextlib.suppress(OSError):
            models.mkdir(parents=True, exist_ok=True)
        allow_writes([folder, models], _devices(), alone=True)


def confine(processor: Any, folder: Path) -> None:
    """Before the first job: the models are there, and the network is for those who declare it."""
    if landlock_version():
        allow_writes([folder], _devices())
    if seccomp.is_available():
        network = getattr(processor, "network", False) is True
        # Not unix sockets either, as one of them leads to the database.
        seccomp.filter_calls((seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK) if network else ())


def told() -> str:
    """What is in force on this machine, in words."""
    version = landlock_version()
    network = "no network unless declared" if seccomp.is_available() else "network (no seccomp here)"
    files = f"no writes outside (Landlock {version})" if version else "writes anywhere (no Landlock here)"
    return f"{network}, {files}"


@cache
def tell_once() -> None:
    """In the log, once per process."""
    log.info("children: %s", told())


def _devices() -> list[Path]:
    return [found for name in _DEVICES for found in Path("/dev").glob(name)]
