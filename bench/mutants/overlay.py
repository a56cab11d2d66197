"""Shows one file with a fault to this process and to every process that it starts, and to nobody else.

The faulty file is mounted over the real one in a mount namespace of this process. Children get it however they are
started: with an environment of their own, confined, or from a pool of warm ones.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path

_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000


def lay_over(path: Path, source: str, folder: Path) -> None:
    """`folder` takes the faulty file and the bytecode of its neighbours; it must be empty."""
    _enter_namespace()
    faulty = folder / path.name
    faulty.write_text(source)
    faulty.chmod(path.stat().st_mode)
    compiled = path.parent / "__pycache__"
    if compiled.is_dir():
        # Bytecode of the fault must not be seen by others, and that of the real file not by us.
        ours = folder / "__pycache__"
        shutil.copytree(compiled, ours, ignore=shutil.ignore_patterns(f"{path.stem}.*"))
        folder.chmod(0o755)
        _mount(str(ours), str(compiled), _BIND)
    _mount(str(faulty), str(path), _BIND)


def _enter_namespace() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_NEW_MOUNTS) != 0:
        if libc.unshare(_NEW_MOUNTS | _NEW_USER) != 0:
            raise OSError(ctypes.get_errno(), "this system gives no mount namespace")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _mount("none", "/", _RECURSIVE | _PRIVATE)


def _mount(what: str, where: str, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(what.encode(), where.encode(), None, ctypes.c_ulong(flags), None) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), where)
