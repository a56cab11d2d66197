"""Attempts by system calls: the network, processes, memory that stays, parts of the kernel.

Those that get through do no harm: they call with arguments that make no sense, or that change nothing.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from mediamill.processors.contract import ProcessorInput
from mediamill.testing.escape import (
    AT_FDCWD,
    DATAGRAMS,
    EITHER,
    LANDLOCK,
    SECCOMP,
    Attempt,
    Targets,
    call,
    calls,
    read,
)


def _connect(family: int, address: Any, kind: int = socket.SOCK_STREAM) -> object:
    with socket.socket(family, kind) as link:
        link.settimeout(20)
        link.connect(address)
    return "connected"


def _send(address: str) -> object:
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return ours.sendto(b"x", address)


def _fork() -> object:
    if (pid := os.fork()) == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


def _clone(flags: int) -> object:
    if call((56, 220), flags | signal.SIGCHLD) == 0:
        os._exit(0)
    return "cloned"


def _run(command: list[str]) -> object:
    return subprocess.run(command, capture_output=True, check=True).stdout  # noqa: S603


def _exec_memfd(_: Targets, __: ProcessorInput) -> object:
    descriptor = os.memfd_create("program")
    os.write(descriptor, Path(sys.executable).resolve().read_bytes())
    return _run([f"/proc/self/fd/{descriptor}", "-c", "print(1)"])


def _raise_limit() -> object:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    return call((302, 261), 0, resource.RLIMIT_DATA, struct.pack("qq", hard, hard), 0)


_SIGNAL = struct.pack("iii116x", 0, 0, -1)  # queued by a process
_NOBODYS = 0x6D696C6C  # a key that nobody uses

CALL_ATTEMPTS: dict[str, Attempt] = {
    # -- the network
    "tcp": Attempt(
        "connect to a server on this machine",
        EITHER,
        lambda t, _: _connect(socket.AF_INET, ("127.0.0.1", t.port)),
        since=4,
    ),
    "udp": Attempt(
        "send a datagram",
        SECCOMP,
        lambda t, _: _connect(socket.AF_INET, ("127.0.0.1", t.port), socket.SOCK_DGRAM),
    ),
    "tcp6": Attempt(
        "the same by IPv6",
        SECCOMP,
        lambda t, _: _connect(socket.AF_INET6, ("::1", t.port), socket.SOCK_DGRAM),
    ),
    "unix": Attempt(
        "connect to a socket in a folder", SECCOMP, lambda t, _: _connect(socket.AF_UNIX, t.unix_socket)
    ),
    "abstract": Attempt(
        "connect to an abstract socket",
        EITHER,
        lambda t, _: _connect(socket.AF_UNIX, "\0" + t.abstract_socket),
        since=6,
    ),
    "unix_datagram": Attempt(
        "send a datagram to a socket in a folder", SECCOMP, lambda t, _: _send(t.unix_socket + DATAGRAMS)
    ),
    "abstract_datagram": Attempt(
        "send a datagram to an abstract socket",
        EITHER,
        lambda t, _: _send("\0" + t.abstract_socket + DATAGRAMS),
        since=6,
    ),
    "listen": Attempt(
        "listen", EITHER, lambda _, __: socket.create_server(("127.0.0.1", 0)).close(), since=4
    ),
    "raw": Attempt(
        "open a raw socket", SECCOMP, lambda _, __: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close()
    ),
    "packet": Attempt("open a packet socket", SECCOMP, calls(41, 198, 17, 3, 0)),
    "netlink": Attempt(
        "ask for the machine's addresses",
        SECCOMP,
        lambda _, __: socket.socket(16, socket.SOCK_RAW, 0).close(),
    ),
    "vsock": Attempt("open a socket to the host", SECCOMP, calls(41, 198, 40, 1, 0)),
    "alg": Attempt("open a socket to the kernel's ciphers", SECCOMP, calls(41, 198, 38, 5, 0)),
    "pair": Attempt("make a pair of sockets other than to itself", SECCOMP, calls(53, 199, 2, 1, 0, 0)),
    "io_uring": Attempt("set up an io_uring", SECCOMP, calls(425, 425, 1, 0)),
    # -- processes
    "fork": Attempt("fork", SECCOMP, lambda _, __: _fork()),
    "vfork": Attempt("vfork", EITHER, lambda _, __: _run([sys.executable, "-c", "print(1)"])),
    "exec": Attempt("become another program", SECCOMP, calls(59, 221, b"/nowhere", 0, 0)),
    "execveat": Attempt("become a program by a descriptor", SECCOMP, calls(322, 281, -1, b"", 0, 0, 0x1000)),
    "memfd": Attempt("keep a program in memory", SECCOMP, lambda _, __: os.close(os.memfd_create("program"))),
    "exec_memfd": Attempt("run a program from memory", SECCOMP, _exec_memfd),
    "clone_user": Attempt(
        "clone into new namespaces", SECCOMP, lambda _, __: _clone(0x10000000 | 0x20000000)
    ),
    "clone3": Attempt("clone by a newer call", SECCOMP, calls(435, 435, 0, 0)),
    "unshare": Attempt("get capabilities in a namespace of its own", SECCOMP, calls(272, 97, 0x10000000)),
    "setns": Attempt("enter another namespace", SECCOMP, calls(308, 268, -1, 0)),
    "setsid": Attempt("leave its session", SECCOMP, calls(112, 157)),
    "environ": Attempt(
        "read the worker's environment", LANDLOCK, lambda t, _: read(f"/proc/{t.worker}/environ")
    ),
    "memory": Attempt(
        "open the worker's memory",
        LANDLOCK,
        lambda t, _: os.close(os.open(f"/proc/{t.worker}/mem", os.O_RDONLY)),
    ),
    "maps": Attempt("read the worker's maps", LANDLOCK, lambda t, _: read(f"/proc/{t.worker}/maps")),
    "descriptors": Attempt(
        "list what the worker has open", LANDLOCK, lambda t, _: list(Path(f"/proc/{t.worker}/fd").iterdir())
    ),
    "processes": Attempt(
        "list the processes of the machine", LANDLOCK, lambda _, __: list(Path("/proc").iterdir())
    ),
    "ptrace": Attempt("trace the worker", SECCOMP, lambda t, _: call((101, 117), 2, t.worker, 0, 0)),
    "read_memory": Attempt(
        "read the worker's memory", SECCOMP, lambda t, _: call((310, 270), t.worker, 0, 0, 0, 0, 0)
    ),
    "write_memory": Attempt("write to it", SECCOMP, lambda t, _: call((311, 271), t.worker, 0, 0, 0, 0, 0)),
    "pidfd": Attempt("get a handle on the worker", SECCOMP, lambda t, _: os.close(os.pidfd_open(t.worker))),
    "pidfd_getfd": Attempt("take a descriptor of the worker", SECCOMP, calls(438, 438, -1, 0, 0)),
    "kcmp": Attempt(
        "compare itself with the worker",
        EITHER,
        lambda t, _: call((312, 272), os.getpid(), t.worker, 0, 0, 0),
    ),
    "kill": Attempt("signal the worker", EITHER, lambda t, _: os.kill(t.worker, 0), since=6),
    "kill_all": Attempt("signal everybody", SECCOMP, lambda _, __: os.kill(-1, 0)),
    "sigqueue": Attempt(
        "signal the worker by another call",
        EITHER,
        lambda t, _: call((129, 138), t.worker, signal.SIGURG, _SIGNAL),
        since=6,
    ),
    "signal_by_file": Attempt(
        "have the kernel signal the worker when a file changes",
        SECCOMP,
        lambda t, _: fcntl.fcntl(0, fcntl.F_SETOWN, t.worker),
    ),
    "prlimit": Attempt(
        "take the worker's limits away",
        SECCOMP,
        lambda t, _: resource.prlimit(t.worker, resource.RLIMIT_CORE),
    ),
    "raise_limit": Attempt("raise its own limits", SECCOMP, lambda _, __: _raise_limit()),
    "priority": Attempt(
        "slow the worker down", SECCOMP, lambda t, _: os.setpriority(os.PRIO_PROCESS, t.worker, 0)
    ),
    "affinity": Attempt(
        "tie the worker to one core",
        SECCOMP,
        lambda t, _: os.sched_setaffinity(t.worker, os.sched_getaffinity(0)),
    ),
    "scheduler": Attempt(
        "take the processor for itself",
        SECCOMP,
        lambda _, __: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(0)),
    ),
    "ioprio": Attempt("change who uses the disk first", SECCOMP, calls(251, 30, 1, 0, 0)),
    "setuid": Attempt("become another user", SECCOMP, lambda _, __: os.setuid(os.getuid())),
    "dumpable": Attempt("let others trace it", SECCOMP, calls(157, 167, 4, 1)),
    "not_die_with_worker": Attempt("outlive the worker", SECCOMP, calls(157, 167, 1, 0)),
    # -- memory that stays, and parts of the kernel
    "shmget": Attempt("make shared memory that stays", SECCOMP, calls(29, 194, _NOBODYS, 4096, 0)),
    "semget": Attempt("make semaphores that stay", SECCOMP, calls(64, 190, _NOBODYS, 1, 0)),
    "msgget": Attempt("make a message queue that stays", SECCOMP, calls(68, 186, _NOBODYS, 0)),
    "mq_open": Attempt("the same by the newer call", SECCOMP, calls(240, 180, b"nobodys", os.O_RDWR, 0, 0)),
    "mlockall": Attempt("keep the machine's memory for itself", SECCOMP, calls(151, 230, 1)),
    "userfaultfd": Attempt("handle its own page faults", SECCOMP, calls(323, 282, 0)),
    "bpf": Attempt("load a program into the kernel", SECCOMP, calls(321, 280, 0, 0, 0)),
    "perf": Attempt("count events of others", SECCOMP, calls(298, 241, 0, 0, -1, -1, 0)),
    "keys": Attempt("use the kernel's keys", SECCOMP, calls(250, 219, 0, -3, 0)),
    "syslog": Attempt("read the kernel's log", SECCOMP, calls(103, 116, 10, 0, 0)),
    "module": Attempt("load a kernel module", SECCOMP, calls(175, 105, 0, 0, b"")),
    "kexec": Attempt("start another kernel", SECCOMP, calls(246, 104, 0, 0, 0, 0xFFFF)),
    "reboot": Attempt("restart the machine", SECCOMP, calls(169, 142, 0, 0, 0, 0)),
    "swapon": Attempt("swap to a file", SECCOMP, calls(167, 224, b"/nowhere", 0)),
    "clock": Attempt("set the machine's clock", SECCOMP, calls(227, 112, 0, 0)),
    "hostname": Attempt("rename the machine", SECCOMP, calls(170, 161, 0, -1)),
    "quota": Attempt("change quotas", SECCOMP, calls(179, 60, 0, 0, 0, 0)),
    "personality": Attempt("make all memory executable", SECCOMP, calls(135, 92, 0xFFFFFFFF)),
    "inotify": Attempt("watch files change", SECCOMP, calls(294, 26, 0)),
    "fanotify": Attempt("watch all files", SECCOMP, calls(300, 262, 0, 0)),
    "mount": Attempt("mount a file system", SECCOMP, calls(165, 40, 0, 0, 0, 0, 0)),
    "umount": Attempt("unmount one", SECCOMP, calls(166, 39, b"/nowhere", 0)),
    "chroot": Attempt("change its root", SECCOMP, calls(161, 51, b"/nowhere")),
    "pivot_root": Attempt("change everybody's root", SECCOMP, calls(155, 41, b"/nowhere", b"/nowhere")),
    "open_tree": Attempt("take a tree of files along", SECCOMP, calls(428, 428, AT_FDCWD, b"/", 1)),
    "fsopen": Attempt("open a file system", SECCOMP, calls(430, 430, b"tmpfs", 0)),
    "seccomp": Attempt("set a filter of its own", SECCOMP, calls(317, 277, 1, 0, 0)),
    "terminal": Attempt("type into a terminal", SECCOMP, calls(16, 29, 0, 0x5412, b"x")),
    "ports": Attempt("reach the machine's ports", SECCOMP, calls(172, None, 3)),
    "fallocate": Attempt("reserve disk space that nobody counts", SECCOMP, calls(285, 47, -1, 0, 0, 1)),
    "x32": Attempt("call by the other set of numbers", SECCOMP, calls(0x40000000 + 39, None)),
    "unknown": Attempt("call what the next kernel brings", SECCOMP, calls(600, 600)),
}
