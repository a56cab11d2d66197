"""What a child process may do besides computing: read its libraries and models, use a folder of its own, little else.

Strangers' bytes meet large libraries here. Whoever takes over such a library finds no network, no file but the one
that is being processed, no other process, and no place to write to but a folder that goes with the child. A kernel
without these means runs the children all the same, and `describe_confinement` says what is missing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import site
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mediamill.worker import seccomp
from mediamill.worker.landlock import Allowed, landlock_version, restrict
from mediamill.worker.process_namespace import has_namespaces

if TYPE_CHECKING:
    from mediamill.settings import Settings

log = logging.getLogger(__name__)

_SINKS = ("null", "zero", "full", "random", "urandom")
_GRAPHICS = ("kfd", "dri", "nvidia*")
# What the dynamic linker, the C library, fonts, time zones and colour profiles are looked for in.
_SYSTEM = (
    *("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/local/lib"),
    *("/usr/share", "/usr/local/share", "/usr/local/cuda", "/opt/rocm"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/timezone"),
    *("/etc/fonts", "/etc/OpenCL", "/etc/vulkan"),
)
# How many cores and how much memory there are. Of control groups only the limits: they tell of all processes.
_MACHINE = (
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/filesystems"),
    *("/proc/sys/vm/overcommit_memory", "/proc/sys/vm/max_map_count", "/proc/driver/nvidia"),
    *("/sys/devices/system", "/sys/kernel/mm/transparent_hugepage"),
    *(f"/sys/fs/cgroup/{name}" for name in ("cpu.max", "cpuset.cpus.effective", "memory.max", "memory.high")),
    *(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us" for name in ("quota", "period")),
    *("/sys/fs/cgroup/cpuset/cpuset.cpus", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
# What the process itself is like. Not the rest of /proc/self, which tells of the machine's connections and mounts.
_ITSELF = tuple(
    Path("/proc/self", name)
    for name in ("maps", "status", "stat", "statm", "limits", "cgroup", "environ", "auxv", "fd")
)
_PROGRAMS = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin")


def confine_files(folder: Path, models: Path, *, programs: bool = False) -> None:
    """Before the processor is loaded, as libraries start threads: it sees only what it needs, and writes only here.

    `programs`: it runs some, so those of the system may be run.
    """
    code = [Path(sys.prefix), Path(sys.base_prefix), *map(Path, filter(None, sys.path))]
    code += [Path(sys.executable).resolve().parent.parent, Path(site.getuserbase())]
    read = [*code, *map(Path, (*_SYSTEM, *_MACHINE)), *_ITSELF, models]
    run = [*map(Path, (*_PROGRAMS, *_SYSTEM)), Path(sys.prefix), Path(sys.base_prefix)]
    _hold_open(_ITSELF)
    restrict(Allowed(read, run if programs else (), [folder], _devices(_SINKS) + _devices(_GRAPHICS)))


def confine_calls(*, programs: bool = False) -> None:
    """Before the first job, for all threads: only the system calls that decoding needs."""
    seccomp.filter_calls(programs=programs, devices=bool(_devices(_GRAPHICS)))


def is_landlocked(settings: Settings | None = None) -> bool:
    """Does the kernel confine by Landlock, and is it not switched off by setting?"""
    return bool(landlock_version()) and (settings or _settings()).sandbox_landlock


def is_filtered(settings: Settings | None = None) -> bool:
    """Are the system calls of children filtered?"""
    return seccomp.is_available() and (settings or _settings()).sandbox_seccomp


def _settings() -> Settings:
    from mediamill.settings import Settings  # a child, which starts for every few jobs, does without

    return Settings()


def find_gaps() -> list[str]:
    """What children on this machine could do because the kernel lacks the means to keep them from it."""
    from mediamill.processors.registry import plugins_with_programs  # likewise

    version, settings, gaps = landlock_version(), _settings(), []
    if not is_landlocked(settings):
        why = "switched off by setting" if version else "this kernel has no Landlock"
        gaps.append(f"children can read and write all files of their user ({why})")
    elif version < 6:
        gaps.append(f"children can reach more than on a newer kernel (Landlock {version}; 6 has all)")
    if not is_filtered(settings):
        why = "switched off by setting" if seccomp.is_available() else "no seccomp here"
        gaps.append(f"children can use every system call, the network too ({why})")
    if (names := plugins_with_programs()) and not has_namespaces():
        gaps.append(f"programs that {', '.join(names)} starts may outlive it (no PID namespaces here)")
    return gaps


def describe_confinement() -> str:
    """What is in force on this machine, in words."""
    return (
        "; ".join(find_gaps()) or f"confined to their own file, by Landlock {landlock_version()} and seccomp"
    )


@cache
def log_confinement() -> None:
    """Once per process."""
    log.info("children: %s", describe_confinement())


def _hold_open(paths: Iterable[Path]) -> None:
    """For good. A file of /proc that the kernel forgets is another one when it is looked up again."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.open(path, os.O_PATH)


@cache
def _devices(names: tuple[str, ...]) -> list[Path]:
    """Looked for once, as a confined process cannot."""
    return [found for name in names for found in Path("/dev").glob(name)]
