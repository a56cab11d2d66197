"""Ways out of a child process, each to be tried by the hostile processor (hostile.py).

What counts as refused is an error that says so; any other error means that the kernel listened. Attempts that get
through do no harm: they touch what was put there to be touched, or call with arguments that make no sense.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import resource
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mediamill.processors.contract import ProcessorInput

By = Literal["landlock", "seccomp"]
# EXDEV is what Landlock says to links and renames that leave a folder.
REFUSED = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EXDEV})
_COLUMN = 0 if platform.machine() == "x86_64" else 1
AT_FDCWD, RENAME_EXCHANGE = -100, 2


@dataclass(frozen=True, slots=True)
class Targets:
    """What is outside of the child, put there for it to want."""

    secret: str  # a file of its user
    folder: str  # which it lies in
    neighbour: str  # a file of another child
    worker: int  # process id
    port: int  # somebody listens, on loopback
    unix_socket: str  # likewise
    abstract_socket: str  # likewise


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way out: what it does, and what should keep it from that."""

    what: str
    by: tuple[By, ...]  # any of them will do
    act: Callable[[Targets, ProcessorInput], object]


# -- how they are done


def _call(numbers: tuple[int | None, int | None], *arguments: Any) -> int:
    """A system call by its number, as the C library may not have it."""
    number = numbers[_COLUMN]
    if number is None:
        raise OSError(errno.ENOSYS, "this machine has no such call")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = libc.syscall(ctypes.c_long(number), *wide, *[ctypes.c_long(0)] * (6 - len(wide)))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(result)


def _calls(x86: int | None, arm: int | None, *arguments: Any) -> Callable[[Targets, ProcessorInput], int]:
    return lambda _targets, _given: _call((x86, arm), *arguments)


def _read(path: Path | str) -> str:
    return Path(path).read_text(errors="replace")[:20]


def _in(given: ProcessorInput, name: str) -> Path:
    return given.folder / name


def _read_by_link(targets: Targets, given: ProcessorInput) -> str:
    link = _in(given, "link")
    link.symlink_to(targets.secret)
    return _read(link)


def _hard_link(targets: Targets, given: ProcessorInput) -> str:
    os.link(targets.secret, _in(given, "hard"))
    return _read(_in(given, "hard"))


def _exchange(targets: Targets, given: ProcessorInput) -> str:
    _in(given, "mine").write_text("mine")
    mine = os.fsencode(_in(given, "mine"))
    _call((316, 276), AT_FDCWD, mine, AT_FDCWD, os.fsencode(targets.secret), RENAME_EXCHANGE)
    return _read(_in(given, "mine"))


def _open_for(flags: int) -> Callable[[Targets, ProcessorInput], object]:
    return lambda targets, _given: os.close(os.open(targets.secret, flags))


def _reopen_input(_: Targets, given: ProcessorInput) -> object:
    descriptor = getattr(given.file, "descriptor", None)
    os.close(os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR))
    return "opened"


def _fchmod(targets: Targets, _: ProcessorInput) -> object:
    del targets
    with Path(os.__file__).open("rb") as readable:
        os.fchmod(readable.fileno(), stat.S_IMODE(os.fstat(readable.fileno()).st_mode))
    return "changed"


def _connect(family: int, address: Any, kind: int = socket.SOCK_STREAM) -> object:
    with socket.socket(family, kind) as link:
        link.settimeout(20)
        link.connect(address)
    return "connected"


def _fork() -> object:
    if (pid := os.fork()) == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


def _clone(flags: int) -> object:
    if _call((56, 220), flags | signal.SIGCHLD) == 0:
        os._exit(0)
    return "cloned"


def _run(command: list[str]) -> object:
    return subprocess.run(command, capture_output=True, check=True).stdout  # noqa: S603


def _exec_memfd(_: Targets, __: ProcessorInput) -> object:
    descriptor = os.memfd_create("program")
    os.write(descriptor, Path(sys.executable).resolve().read_bytes())
    return _run([f"/proc/self/fd/{descriptor}", "-c", "print(1)"])


def _write_new(folder: str | Path) -> object:
    path = Path(folder, f"hostile-{os.getpid()}")
    try:
        path.write_text("x")
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
    return path


def _raise_limit() -> object:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    return hard


def _path(name: str) -> bytes:
    return os.fsencode(name)


_LANDLOCK: tuple[By, ...] = ("landlock",)
_SECCOMP: tuple[By, ...] = ("seccomp",)
_EITHER: tuple[By, ...] = ("landlock", "seccomp")
_devices = ("/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/nvme0n1")


def _first_device() -> str:
    return next((name for name in _devices if Path(name).exists()), "/dev/tty")


ATTEMPTS: dict[str, Attempt] = {
    # -- files of others
    "read": Attempt("read a file of its user", _LANDLOCK, lambda t, _: _read(t.secret)),
    "read_by_link": Attempt("read one by a link in its own folder", _LANDLOCK, _read_by_link),
    "read_by_root": Attempt(
        "read one by /proc/self/root", _LANDLOCK, lambda t, _: _read(f"/proc/self/root{t.secret}")
    ),
    "read_by_worker": Attempt(
        "read one by the worker's /proc/…/root",
        _LANDLOCK,
        lambda t, _: _read(f"/proc/{t.worker}/root{t.secret}"),
    ),
    "read_by_dots": Attempt(
        "read one by .. from its own folder",
        _LANDLOCK,
        lambda t, g: _read(Path(*[".."] * len(g.folder.parts), *Path(t.secret).parts[1:])),
    ),
    "read_neighbour": Attempt("read what another child has made", _LANDLOCK, lambda t, _: _read(t.neighbour)),
    "list_folder": Attempt(
        "list a folder of its user", _LANDLOCK, lambda t, _: list(Path(t.folder).iterdir())
    ),
    "list_children": Attempt(
        "list the folders of other children", _LANDLOCK, lambda _, g: list(g.folder.parent.parent.iterdir())
    ),
    "list_neighbours": Attempt(
        "list the folder that its file came from",
        _LANDLOCK,
        lambda _, g: list(Path(str(g.file)).parent.iterdir()),
    ),
    "read_passwords": Attempt("read /etc/passwd", _LANDLOCK, lambda _, __: _read("/etc/passwd")),
    "hard_link": Attempt("hard-link one into its own folder", _LANDLOCK, _hard_link),
    "rename_in": Attempt(
        "move one into its own folder", _LANDLOCK, lambda t, g: Path(t.secret).rename(_in(g, "moved"))
    ),
    "exchange": Attempt("exchange one for its own", _LANDLOCK, _exchange),
    "open_handle": Attempt("open a file by its handle", _SECCOMP, _calls(304, 265, 0, 0, 0)),
    # -- writing
    "write": Attempt("write to a file of its user", _LANDLOCK, _open_for(os.O_WRONLY)),
    "append": Attempt("append to one", _LANDLOCK, _open_for(os.O_WRONLY | os.O_APPEND)),
    "truncate": Attempt("truncate one", _LANDLOCK, lambda t, _: os.truncate(t.secret, 0)),
    "unlink": Attempt("delete one", _LANDLOCK, lambda t, _: Path(t.secret).unlink()),
    "create": Attempt("create one", _LANDLOCK, lambda t, _: _write_new(t.folder)),
    "make_folder": Attempt("make a folder", _LANDLOCK, lambda t, _: Path(t.folder, "new").mkdir()),
    "make_link": Attempt("make a link", _LANDLOCK, lambda t, _: Path(t.folder, "l").symlink_to(t.secret)),
    "make_pipe": Attempt("make a named pipe", _EITHER, lambda t, _: os.mkfifo(Path(t.folder, "pipe"))),
    "write_tmp": Attempt("write to /tmp", _LANDLOCK, lambda _, __: _write_new("/tmp")),  # noqa: S108
    "write_shm": Attempt("write to /dev/shm", _LANDLOCK, lambda _, __: _write_new("/dev/shm")),  # noqa: S108
    "write_code": Attempt(
        "write beside our own code", _LANDLOCK, lambda _, __: _write_new(Path(__file__).parent)
    ),
    "write_python": Attempt(
        "write into the Python environment", _LANDLOCK, lambda _, __: _write_new(sys.prefix)
    ),
    "write_input": Attempt("open its own input for writing", _LANDLOCK, _reopen_input),
    "device_node": Attempt(
        "make a device in its own folder",
        _EITHER,
        lambda _, g: os.mknod(_in(g, "disk"), stat.S_IFBLK | 0o600, os.makedev(254, 0)),
    ),
    "device": Attempt(
        "open a disk or the machine's memory",
        _LANDLOCK,
        lambda _, __: os.close(os.open(_first_device(), os.O_RDONLY)),
    ),
    # -- modes, owners, times, attributes
    "chmod": Attempt(
        "make a file executable for all, with its owner's rights",
        _SECCOMP,
        lambda t, _: Path(t.secret).chmod(0o4777),
    ),
    "fchmod": Attempt("the same by a descriptor", _SECCOMP, _fchmod),
    "fchmodat2": Attempt("the same by a newer call", _SECCOMP, _calls(452, 452, AT_FDCWD, b"/nowhere", 0)),
    "chown": Attempt(
        "give a file to somebody else", _SECCOMP, lambda t, _: os.chown(t.secret, os.getuid(), os.getgid())
    ),
    "utime": Attempt("set the times of a file", _SECCOMP, lambda t, _: os.utime(t.secret, (1, 1))),
    "setxattr": Attempt(
        "set an attribute of a file", _SECCOMP, lambda t, _: os.setxattr(t.secret, b"user.x", b"x")
    ),
    "setxattrat": Attempt(
        "the same by a newer call", _SECCOMP, _calls(463, 463, AT_FDCWD, b"/nowhere", 0, b"user.x", 0, 0)
    ),
    # -- the network
    "tcp": Attempt(
        "connect to a server on this machine",
        _EITHER,
        lambda t, _: _connect(socket.AF_INET, ("127.0.0.1", t.port)),
    ),
    "udp": Attempt(
        "send a datagram",
        _SECCOMP,
        lambda t, _: _connect(socket.AF_INET, ("127.0.0.1", t.port), socket.SOCK_DGRAM),
    ),
    "tcp6": Attempt(
        "the same by IPv6",
        _SECCOMP,
        lambda t, _: _connect(socket.AF_INET6, ("::1", t.port), socket.SOCK_DGRAM),
    ),
    "unix": Attempt(
        "connect to a socket in a folder", _SECCOMP, lambda t, _: _connect(socket.AF_UNIX, t.unix_socket)
    ),
    "abstract": Attempt(
        "connect to an abstract socket",
        _EITHER,
        lambda t, _: _connect(socket.AF_UNIX, "\0" + t.abstract_socket),
    ),
    "listen": Attempt("listen", _EITHER, lambda _, __: socket.create_server(("127.0.0.1", 0)).close()),
    "raw": Attempt(
        "open a raw socket", _SECCOMP, lambda _, __: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close()
    ),
    "packet": Attempt("open a packet socket", _SECCOMP, _calls(41, 198, 17, 3, 0)),
    "netlink": Attempt(
        "ask for the machine's addresses",
        _SECCOMP,
        lambda _, __: socket.socket(16, socket.SOCK_RAW, 0).close(),
    ),
    "vsock": Attempt("open a socket to the host", _SECCOMP, _calls(41, 198, 40, 1, 0)),
    "alg": Attempt("open a socket to the kernel's ciphers", _SECCOMP, _calls(41, 198, 38, 5, 0)),
    "pair": Attempt("make a pair of sockets other than to itself", _SECCOMP, _calls(53, 199, 2, 1, 0, 0)),
    "io_uring": Attempt("set up an io_uring", _SECCOMP, _calls(425, 425, 1, 0)),
    # -- processes
    "fork": Attempt("fork", _SECCOMP, lambda _, __: _fork()),
    "vfork": Attempt("vfork", _SECCOMP, lambda _, __: _run([sys.executable, "-c", "print(1)"])),
    "exec": Attempt("become another program", _EITHER, _calls(59, 221, b"/nowhere", 0, 0)),
    "execveat": Attempt("become a program by a descriptor", _EITHER, _calls(322, 281, -1, b"", 0, 0, 0x1000)),
    "memfd": Attempt(
        "keep a program in memory", _SECCOMP, lambda _, __: os.close(os.memfd_create("program"))
    ),
    "exec_memfd": Attempt("run a program from memory", _SECCOMP, _exec_memfd),
    "clone_user": Attempt(
        "clone into new namespaces", _SECCOMP, lambda _, __: _clone(0x10000000 | 0x20000000)
    ),
    "clone3": Attempt("clone by a newer call", _SECCOMP, _calls(435, 435, 0, 0)),
    "unshare": Attempt("get capabilities in a namespace of its own", _SECCOMP, _calls(272, 97, 0x10000000)),
    "setns": Attempt("enter another namespace", _SECCOMP, _calls(308, 268, -1, 0)),
    "setsid": Attempt("leave its session", _SECCOMP, _calls(112, 157)),
    "environ": Attempt(
        "read the worker's environment", _LANDLOCK, lambda t, _: _read(f"/proc/{t.worker}/environ")
    ),
    "memory": Attempt(
        "open the worker's memory",
        _LANDLOCK,
        lambda t, _: os.close(os.open(f"/proc/{t.worker}/mem", os.O_RDONLY)),
    ),
    "maps": Attempt("read the worker's maps", _LANDLOCK, lambda t, _: _read(f"/proc/{t.worker}/maps")),
    "descriptors": Attempt(
        "list what the worker has open", _LANDLOCK, lambda t, _: list(Path(f"/proc/{t.worker}/fd").iterdir())
    ),
    "processes": Attempt(
        "list the processes of the machine", _LANDLOCK, lambda _, __: list(Path("/proc").iterdir())
    ),
    "ptrace": Attempt("trace the worker", _SECCOMP, lambda t, _: _call((101, 117), 16, t.worker, 0, 0)),
    "read_memory": Attempt(
        "read the worker's memory", _SECCOMP, lambda t, _: _call((310, 270), t.worker, 0, 0, 0, 0, 0)
    ),
    "write_memory": Attempt("write to it", _SECCOMP, lambda t, _: _call((311, 271), t.worker, 0, 0, 0, 0, 0)),
    "pidfd": Attempt("get a handle on the worker", _SECCOMP, lambda t, _: os.close(os.pidfd_open(t.worker))),
    "pidfd_getfd": Attempt("take a descriptor of the worker", _SECCOMP, _calls(438, 438, -1, 0, 0)),
    "kcmp": Attempt(
        "compare itself with the worker",
        _SECCOMP,
        lambda t, _: _call((312, 272), os.getpid(), t.worker, 0, 0, 0),
    ),
    "kill": Attempt("signal the worker", _EITHER, lambda t, _: os.kill(t.worker, 0)),
    "kill_all": Attempt("signal everybody", _EITHER, lambda _, __: os.kill(-1, 0)),
    "sigqueue": Attempt(
        "signal the worker by another call",
        _EITHER,
        lambda t, _: _call((129, 138), t.worker, signal.SIGURG, bytes(128)),
    ),
    "prlimit": Attempt(
        "take the worker's limits away",
        _SECCOMP,
        lambda t, _: resource.prlimit(t.worker, resource.RLIMIT_CORE),
    ),
    "raise_limit": Attempt("raise its own limits", _SECCOMP, lambda _, __: _raise_limit()),
    "priority": Attempt(
        "slow the worker down", _SECCOMP, lambda t, _: os.setpriority(os.PRIO_PROCESS, t.worker, 0)
    ),
    "affinity": Attempt(
        "tie the worker to one core",
        _SECCOMP,
        lambda t, _: os.sched_setaffinity(t.worker, os.sched_getaffinity(0)),
    ),
    "scheduler": Attempt(
        "take the processor for itself",
        _SECCOMP,
        lambda _, __: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
    ),
    "ioprio": Attempt("change who uses the disk first", _SECCOMP, _calls(251, 30, 1, 0, 0)),
    "setuid": Attempt("become another user", _SECCOMP, lambda _, __: os.setuid(os.getuid())),
    "dumpable": Attempt("let others trace it", _SECCOMP, _calls(157, 167, 4, 1)),
    "not_die_with_worker": Attempt("outlive the worker", _SECCOMP, _calls(157, 167, 1, 0)),
    # -- memory that stays, and parts of the kernel
    "shmget": Attempt("make shared memory that stays", _SECCOMP, _calls(29, 194, 0, 4096, 0o600)),
    "semget": Attempt("make semaphores that stay", _SECCOMP, _calls(64, 190, 0, 1, 0o600)),
    "msgget": Attempt("make a message queue that stays", _SECCOMP, _calls(68, 186, 0, 0o600)),
    "mq_open": Attempt(
        "the same by the newer call", _SECCOMP, _calls(240, 180, b"hostile", os.O_CREAT | os.O_RDWR, 0o600, 0)
    ),
    "mlockall": Attempt("keep the machine's memory for itself", _SECCOMP, _calls(151, 230, 1)),
    "userfaultfd": Attempt("handle its own page faults", _SECCOMP, _calls(323, 282, 0)),
    "bpf": Attempt("load a program into the kernel", _SECCOMP, _calls(321, 280, 0, 0, 0)),
    "perf": Attempt("count events of others", _SECCOMP, _calls(298, 241, 0, 0, -1, -1, 0)),
    "keys": Attempt("use the kernel's keys", _SECCOMP, _calls(250, 219, 0, -3, 0)),
    "syslog": Attempt("read the kernel's log", _SECCOMP, _calls(103, 116, 10, 0, 0)),
    "module": Attempt("load a kernel module", _SECCOMP, _calls(175, 105, 0, 0, b"")),
    "kexec": Attempt("start another kernel", _SECCOMP, _calls(246, 104, 0, 0, 0, 0)),
    "reboot": Attempt("restart the machine", _SECCOMP, _calls(169, 142, 0, 0, 0, 0)),
    "swapon": Attempt("swap to a file", _SECCOMP, _calls(167, 224, b"/nowhere", 0)),
    "clock": Attempt("set the machine's clock", _SECCOMP, _calls(227, 112, 0, 0)),
    "hostname": Attempt("rename the machine", _SECCOMP, _calls(170, 161, 0, -1)),
    "quota": Attempt("change quotas", _SECCOMP, _calls(179, 60, 0, 0, 0, 0)),
    "personality": Attempt("make all memory executable", _SECCOMP, _calls(135, 92, 0xFFFFFFFF)),
    "inotify": Attempt("watch files change", _SECCOMP, _calls(294, 26, 0)),
    "fanotify": Attempt("watch all files", _SECCOMP, _calls(300, 262, 0, 0)),
    "mount": Attempt("mount a file system", _SECCOMP, _calls(165, 40, 0, 0, 0, 0, 0)),
    "umount": Attempt("unmount one", _SECCOMP, _calls(166, 39, b"/nowhere", 0)),
    "chroot": Attempt("change its root", _SECCOMP, lambda _, g: os.chroot(g.folder)),
    "pivot_root": Attempt("change everybody's root", _SECCOMP, _calls(155, 41, b"/nowhere", b"/nowhere")),
    "open_tree": Attempt("take a tree of files along", _SECCOMP, _calls(428, 428, AT_FDCWD, b"/", 1)),
    "fsopen": Attempt("open a file system", _SECCOMP, _calls(430, 430, b"tmpfs", 0)),
    "seccomp": Attempt("set a filter of its own", _SECCOMP, _calls(317, 277, 1, 0, 0)),
    "terminal": Attempt("type into a terminal", _SECCOMP, _calls(16, 29, 0, 0x5412, b"x")),
    "ports": Attempt("reach the machine's ports", _SECCOMP, _calls(172, None, 3)),
    "fallocate": Attempt("reserve disk space that nobody counts", _SECCOMP, _calls(285, 47, -1, 0, 0, 1)),
    "x32": Attempt("call by the other set of numbers", _SECCOMP, _calls(0x40000000 + 39, None)),
    "unknown": Attempt("call what the next kernel brings", _SECCOMP, _calls(600, 600)),
}
