"""Attempts to get at files: to read, write, link, list or change them, and to use devices."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from mediamill.media.source_file import InputFile
from mediamill.processors.contract import ProcessorInput
from mediamill.testing.escape import (
    AT_FDCWD,
    EITHER,
    LANDLOCK,
    RENAME_EXCHANGE,
    SECCOMP,
    Attempt,
    Targets,
    call,
    calls,
    read,
)


def _in(given: ProcessorInput, name: str) -> Path:
    return given.folder / name


def _read_by_link(targets: Targets, given: ProcessorInput) -> str:
    link = _in(given, "link")
    link.symlink_to(targets.secret)
    return read(link)


def _hard_link(targets: Targets, given: ProcessorInput) -> str:
    os.link(targets.secret, _in(given, "hard"))
    return read(_in(given, "hard"))


def _link_own(_: Targets, given: ProcessorInput) -> object:
    _in(given, "first").write_text("mine")
    os.link(_in(given, "first"), _in(given, "second"))
    return "linked"


def _link_input(_: Targets, given: ProcessorInput) -> object:
    found, linked = f"/proc/self/fd/{_descriptor(given)}", _in(given, "linked")
    return call((265, 37), AT_FDCWD, found.encode(), AT_FDCWD, os.fsencode(linked), 0x400)  # follows links


def _descriptor(given: ProcessorInput) -> int:
    assert isinstance(given.file, InputFile)
    return given.file.take_descriptor()


def _lease(given: ProcessorInput) -> object:
    return fcntl.fcntl(_descriptor(given), fcntl.F_SETLEASE, fcntl.F_RDLCK)


def _lock(given: ProcessorInput) -> object:
    fcntl.flock(_descriptor(given), fcntl.LOCK_EX | fcntl.LOCK_NB)
    return "locked"


def _exchange(targets: Targets, given: ProcessorInput) -> str:
    _in(given, "mine").write_text("mine")
    mine = os.fsencode(_in(given, "mine"))
    call((316, 276), AT_FDCWD, mine, AT_FDCWD, os.fsencode(targets.secret), RENAME_EXCHANGE)
    return read(_in(given, "mine"))


def _open_for(flags: int) -> Callable[[Targets, ProcessorInput], object]:
    return lambda targets, _given: os.close(os.open(targets.secret, flags))


def _reopen_input(_: Targets, given: ProcessorInput) -> object:
    os.close(os.open(f"/proc/self/fd/{_descriptor(given)}", os.O_RDWR))
    return "opened"


def _fchmod(targets: Targets, _: ProcessorInput) -> object:
    del targets
    with Path(os.__file__).open("rb") as readable:
        os.fchmod(readable.fileno(), stat.S_IMODE(os.fstat(readable.fileno()).st_mode))
    return "changed"


def _write_new(folder: str | Path) -> object:
    path = Path(folder, f"hostile-{os.getpid()}")
    try:
        path.write_text("x")
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
    return path


def _models() -> Path:
    """Or where they would be."""
    wanted = Path(os.environ["MEDIAMILL_MODELS"])
    return next(folder for folder in (wanted, *wanted.parents) if folder.is_dir())


def _first(*paths: str) -> str:
    found = next(filter(os.path.exists, paths), None)
    if found is None:
        raise OSError(errno.ENOSYS, "this machine has no such file")
    return found


def _open(*paths: str) -> object:
    """For writing, and no more."""
    os.close(os.open(_first(*paths), os.O_WRONLY))
    return "opened"


_GROUPS = tuple(f"/sys/fs/cgroup{below}/cgroup.procs" for below in ("", "/cpu", "/memory", "/pids"))
_DEVICES = ("/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/tty")


FILE_ATTEMPTS: dict[str, Attempt] = {
    # -- files of others
    "read": Attempt("read a file of its user", LANDLOCK, lambda t, _: read(t.secret)),
    "read_by_link": Attempt("read one by a link in its own folder", LANDLOCK, _read_by_link),
    "read_by_root": Attempt(
        "read one by /proc/self/root", LANDLOCK, lambda t, _: read(f"/proc/self/root{t.secret}")
    ),
    "read_by_worker": Attempt(
        "read one by the worker's /proc/…/root",
        LANDLOCK,
        lambda t, _: read(f"/proc/{t.worker}/root{t.secret}"),
    ),
    "read_by_dots": Attempt(
        "read one by .. from its own folder",
        LANDLOCK,
        lambda t, g: read(Path(*[".."] * len(g.folder.parts), *Path(t.secret).parts[1:])),
    ),
    "read_neighbour": Attempt("read what another child has made", LANDLOCK, lambda t, _: read(t.neighbour)),
    "list_folder": Attempt(
        "list a folder of its user", LANDLOCK, lambda t, _: list(Path(t.folder).iterdir())
    ),
    "list_children": Attempt(
        "list the folders of other children", LANDLOCK, lambda _, g: list(g.folder.parent.parent.iterdir())
    ),
    "list_neighbours": Attempt(
        "list the folder that its file came from",
        LANDLOCK,
        lambda _, g: list(Path(str(g.file)).parent.iterdir()),
    ),
    "read_passwords": Attempt("read /etc/passwd", LANDLOCK, lambda _, __: read("/etc/passwd")),
    "hard_link": Attempt("hard-link one into its own folder", EITHER, _hard_link),
    "second_name": Attempt("give its own file a second name", SECCOMP, _link_own),
    "link_input": Attempt("link its input into its own folder", EITHER, _link_input),
    "lease": Attempt("hold up whoever opens a file", SECCOMP, lambda _, g: _lease(g)),
    "lock": Attempt("lock its input against others", SECCOMP, lambda _, g: _lock(g)),
    "rename_in": Attempt(
        "move one into its own folder", LANDLOCK, lambda t, g: Path(t.secret).rename(_in(g, "moved"))
    ),
    "exchange": Attempt("exchange one for its own", LANDLOCK, _exchange),
    "open_handle": Attempt("open a file by its handle", SECCOMP, calls(304, 265, 0, 0, 0)),
    # -- writing
    "write": Attempt("write to a file of its user", LANDLOCK, _open_for(os.O_WRONLY)),
    "append": Attempt("append to one", LANDLOCK, _open_for(os.O_WRONLY | os.O_APPEND)),
    "truncate": Attempt("truncate one", LANDLOCK, lambda t, _: os.truncate(t.secret, 0), since=3),
    "unlink": Attempt("delete one", LANDLOCK, lambda t, _: Path(t.secret).unlink()),
    "create": Attempt("create one", LANDLOCK, lambda t, _: _write_new(t.folder)),
    "make_folder": Attempt("make a folder", LANDLOCK, lambda t, _: Path(t.folder, "new").mkdir()),
    "make_link": Attempt("make a link", LANDLOCK, lambda t, _: Path(t.folder, "l").symlink_to(t.secret)),
    "make_pipe": Attempt("make a named pipe", EITHER, lambda t, _: os.mkfifo(Path(t.folder, "pipe"))),
    "write_tmp": Attempt("write to /tmp", LANDLOCK, lambda _, __: _write_new("/tmp")),  # noqa: S108
    "write_shm": Attempt("write to /dev/shm", LANDLOCK, lambda _, __: _write_new("/dev/shm")),  # noqa: S108
    "write_code": Attempt(
        "write beside our own code", LANDLOCK, lambda _, __: _write_new(Path(__file__).parent)
    ),
    "write_python": Attempt(
        "write into the Python environment", LANDLOCK, lambda _, __: _write_new(sys.prefix)
    ),
    "write_models": Attempt("write beside the models", LANDLOCK, lambda _, __: _write_new(_models())),
    "write_input": Attempt("open its own input for writing", LANDLOCK, _reopen_input),
    "device_node": Attempt(
        "make a device in its own folder",
        EITHER,
        lambda _, g: os.mknod(_in(g, "disk"), stat.S_IFBLK | 0o600, os.makedev(254, 0)),
    ),
    "device": Attempt(
        "open a disk or the machine's memory",
        LANDLOCK,
        lambda _, __: os.close(os.open(_first(*_DEVICES), os.O_RDONLY)),
    ),
    # -- what the system tells and takes by files
    "processes_by_cgroup": Attempt(
        "list the processes of the machine by control groups", LANDLOCK, lambda _, __: read(_first(*_GROUPS))
    ),
    "connections": Attempt(
        "list the machine's connections", LANDLOCK, lambda _, __: read("/proc/self/net/unix")
    ),
    "connections_by_thread": Attempt(
        "the same by one of its threads", LANDLOCK, lambda _, __: read("/proc/thread-self/net/unix")
    ),
    "mounts": Attempt("list what is mounted", LANDLOCK, lambda _, __: read("/proc/self/mountinfo")),
    "oom_score": Attempt(
        "have others killed when memory is short", LANDLOCK, lambda _, __: _open("/proc/self/oom_score_adj")
    ),
    "core_pattern": Attempt(
        "have the kernel start a program", LANDLOCK, lambda _, __: _open("/proc/sys/kernel/core_pattern")
    ),
    "sysrq": Attempt(
        "send the kernel a command",
        LANDLOCK,
        lambda _, __: _open("/proc/sysrq-trigger", "/proc/sys/vm/drop_caches"),
    ),
    # -- modes, owners, times, attributes
    "chmod": Attempt(
        "make a file executable for all, with its owner's rights",
        SECCOMP,
        lambda t, _: Path(t.secret).chmod(0o4777),
    ),
    "fchmod": Attempt("the same by a descriptor", SECCOMP, _fchmod),
    "fchmodat2": Attempt("the same by a newer call", SECCOMP, calls(452, 452, AT_FDCWD, b"/nowhere", 0)),
    "chown": Attempt(
        "give a file to somebody else", SECCOMP, lambda t, _: os.chown(t.secret, os.getuid(), os.getgid())
    ),
    "utime": Attempt("set the times of a file", SECCOMP, lambda t, _: os.utime(t.secret, (1, 1))),
    "setxattr": Attempt(
        "set an attribute of a file", SECCOMP, lambda t, _: os.setxattr(t.secret, b"user.x", b"x")
    ),
    "setxattrat": Attempt(
        "the same by a newer call", SECCOMP, calls(463, 463, AT_FDCWD, b"/nowhere", 0, b"user.x", 0, 0)
    ),
}
