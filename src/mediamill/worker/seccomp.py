"""A filter on system calls (seccomp-BPF): what a decoder needs is allowed, everything else is refused.

A list of what is forbidden ages: each kernel adds calls. So this is the list of what is allowed. A refused call fails
with an errno, as if a permission were missing; nothing is killed for trying. Calls that are newer than this list
do not seem to exist (ENOSYS), so that libraries fall back on older ones.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterable, Iterator

PR_SET_NO_NEW_PRIVS = 38
SET_MODE_FILTER, GET_ACTION_AVAIL = 1, 2
FLAG_TSYNC = 1  # all threads of the process, also those that libraries have started already

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN, _AND, _JUMP = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54, 0x05
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16
_X32 = 0x40000000  # the second set of numbers of x86-64
_NEWEST = 462  # the last call that this list was made with

# machine: (audit number, column in the tables below, number of seccomp() itself)
_MACHINES = {"x86_64": (0xC000003E, 0, 317), "aarch64": (0xC00000B7, 1, 277)}
# name, number on x86-64, number on ARM64
_ALLOWED = """
# memory
brk 12 214; mmap 9 222; munmap 11 215; mprotect 10 226; mremap 25 216; madvise 28 233; mincore 27 232;
msync 26 227; membarrier 324 283; get_mempolicy 239 236
# descriptors
read 0 63; write 1 64; readv 19 65; writev 20 66; pread64 17 67; pwrite64 18 68; preadv 295 69;
pwritev 296 70; preadv2 327 286; pwritev2 328 287; close 3 57; close_range 436 436; lseek 8 62; dup 32 23;
dup2 33 -; dup3 292 24; sendfile 40 71; copy_file_range 326 285; fsync 74 82;
fdatasync 75 83; sync_file_range 277 84; readahead 187 213; fadvise64 221 223; pipe 22 -; pipe2 293 59;
eventfd 284 -; eventfd2 290 19; timerfd_create 283 85; timerfd_settime 286 86; timerfd_gettime 287 87
# waiting
poll 7 -; ppoll 271 73; select 23 -; pselect6 270 72; epoll_create 213 -; epoll_create1 291 20;
epoll_ctl 233 21; epoll_wait 232 -; epoll_pwait 281 22; epoll_pwait2 441 441
# files, as far as Landlock allows; no hard links: a file that was taken has no second name to be changed by
open 2 -; openat 257 56; openat2 437 437; creat 85 -; stat 4 -; lstat 6 -; fstat 5 80; newfstatat 262 79;
statx 332 291; statfs 137 43; fstatfs 138 44; access 21 -; faccessat 269 48; faccessat2 439 439;
readlink 89 -; readlinkat 267 78; getdents 78 -; getdents64 217 61; getcwd 79 17; chdir 80 49;
fchdir 81 50; mkdir 83 -; mkdirat 258 34; rmdir 84 -; unlink 87 -; unlinkat 263 35; rename 82 -;
renameat 264 38; renameat2 316 276; symlink 88 -; symlinkat 266 36;
truncate 76 45; ftruncate 77 46; umask 95 166
# threads
futex 202 98; futex_waitv 449 449; set_tid_address 218 96; set_robust_list 273 99; get_robust_list 274 100;
rseq 334 293; sched_yield 24 124; sched_getaffinity 204 123; sched_getparam 143 121;
sched_getscheduler 145 120; sched_get_priority_max 146 125; sched_get_priority_min 147 126; getcpu 309 168;
gettid 186 178; arch_prctl 158 -; exit 60 93; exit_group 231 94; restart_syscall 219 128
# signals to itself
rt_sigaction 13 134; rt_sigprocmask 14 135; rt_sigreturn 15 139; rt_sigpending 127 136;
rt_sigtimedwait 128 137; rt_sigsuspend 130 133; sigaltstack 131 132; pause 34 -; alarm 37 -;
getitimer 36 102; setitimer 38 103
# time
clock_gettime 228 113; clock_getres 229 114; clock_nanosleep 230 115; nanosleep 35 101;
gettimeofday 96 169; time 201 -; times 100 153
# what it is itself
getpid 39 172; getppid 110 173; getuid 102 174; geteuid 107 175; getgid 104 176; getegid 108 177;
getgroups 115 158; getresuid 118 148; getresgid 120 150; getpgrp 111 -; getpgid 121 155; getsid 124 156;
getpriority 140 141; getrlimit 97 163; getrusage 98 165; sysinfo 99 179; uname 63 160; getrandom 318 278
# the connection to the worker
sendto 44 206; recvfrom 45 207; sendmsg 46 211; recvmsg 47 212; shutdown 48 210; getsockopt 55 209;
getsockname 51 204; getpeername 52 205
"""
# For processors that declare that they run programs: those may do what the processor may.
_FOR_PROGRAMS = """
fork 57 -; vfork 58 -; execve 59 221; wait4 61 260; waitid 247 95; setpgid 109 154; setsid 112 157;
kill 62 129; tgkill 234 131; flock 73 32
"""
# For a process that may have sockets: to look up names and to connect, never to listen.
_FOR_NETWORK = "connect 42 203; bind 49 200; setsockopt 54 208; sendmmsg 307 269"
# Allowed depending on their arguments.
_CLONE, _CLONE3, _PRLIMIT, _PRCTL = (56, 220), (435, 435), (302, 261), (157, 167)
_IOCTL, _SOCKETPAIR, _KILL, _TGKILL, _SOCKET = (16, 29), (53, 199), (62, 129), (234, 131), (41, 198)
_FCNTL = (72, 25)
_CLONE_THREAD, _CLONE_NEW = 0x00010000, 0x7E020000  # a thread; new namespaces
_PRCTLS = (15, 16, 0x53564D41)  # a thread's name, and that of a piece of memory
# Duplicate; flags of descriptors and files; who holds a lock; seals. No leases, locks or signals: they reach others.
_FCNTLS = (0, 1030, 1, 2, 3, 4, 5, 36, 1032, 1034)
_LOCKS = (6, 7, 37, 38)
# Is this a terminal, how much can be read, do not block, close on exec.
_IOCTLS = (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
_ORDERS = (0x5400, 0x8900)  # to terminals and sockets: never, whatever drivers of graphics cards are asked
_AF_UNIX = 1
_STREAMS, _DATAGRAMS = (tuple(kind | flags for flags in (0, 0o4000, 0o2000000, 0o2004000)) for kind in (1, 2))
_PROTOCOLS = (0, 6, 17)  # TCP and UDP; not Multipath TCP, whose ports Landlock does not look at


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def is_available() -> bool:
    """Can this machine's kernel filter system calls, and do we know their numbers?"""
    machine = _MACHINES.get(platform.machine())
    if sys.platform != "linux" or machine is None:
        return False
    action = ctypes.c_uint32(_ERRNO)
    return bool(_libc().syscall(machine[2], GET_ACTION_AVAIL, 0, ctypes.byref(action)) == 0)


def filter_calls(*, programs: bool = False, devices: bool = False, families: Iterable[int] = ()) -> None:
    """From now on, for all threads and all that they start, only these calls.

    `programs`: also new processes. `devices`: also what drivers of graphics cards are asked. `families`: sockets of
    these address families, and to connect them.
    """
    libc = _libc()
    audit, column, seccomp = _MACHINES[platform.machine()]
    code = b"".join(_program(audit, column, programs, devices, tuple(families)))
    program = _Program(len(code) // 8, code)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs cannot be set")
    failed = libc.syscall(seccomp, SET_MODE_FILTER, FLAG_TSYNC, ctypes.byref(program))
    if failed != 0:
        raise OSError(ctypes.get_errno(), f"the filter on system calls cannot be set ({failed})")


def _program(
    audit: int, column: int, programs: bool, devices: bool, families: tuple[int, ...]
) -> Iterator[bytes]:
    yield _step(_LOAD, _MACHINE_AT)
    yield _step(_EQUAL, audit, 1, 0)
    yield _refuse(errno.EPERM)  # a program for another machine has other numbers
    yield _step(_LOAD, _NUMBER_AT)
    yield _step(_AT_LEAST, _X32, 0, 1)
    yield _refuse(errno.ENOSYS)
    allowed = _ALLOWED + (_FOR_PROGRAMS if programs else "") + (_FOR_NETWORK if families else "")
    for number in _numbers(allowed, column):
        yield _step(_EQUAL, number, 0, 1)
        yield _step(_RETURN, _ALLOW)
    yield from _when(
        _CLONE[column], [_has_no_bit(0, _CLONE_NEW), *([] if programs else [_has_bit(0, _CLONE_THREAD)])]
    )
    yield from _when(
        _PRLIMIT[column], [_is_one_of(0, (0,)), _is_one_of(2, (0,)), _is_one_of(2, (0,), upper=True)]
    )
    yield from _when(_FCNTL[column], [_is_one_of(1, _FCNTLS + (_LOCKS if programs else ()))])
    yield from _when(_PRCTL[column], [_is_one_of(0, _PRCTLS)])
    yield from _when(_IOCTL[column], [_is_one_of(1, _IOCTLS, or_no=_ORDERS if devices else ())])
    # No pair of datagram sockets: one end of it could send to any other socket that has a path.
    yield from _when(_SOCKETPAIR[column], [_is_one_of(0, (_AF_UNIX,)), _is_one_of(1, _STREAMS)])
    sockets = [_is_one_of(0, families), _is_one_of(1, _STREAMS + _DATAGRAMS), _is_one_of(2, _PROTOCOLS)]
    yield from _when(_SOCKET[column], sockets, errno.EACCES)
    for number in (_KILL[column], _TGKILL[column]):
        yield from _when(number, [_is_one_of(0, (os.getpid(),))])
    yield _step(_EQUAL, _CLONE3[column], 1, 0)  # its flags lie in memory, where no filter can look
    yield _step(_AT_LEAST, _NEWEST + 1, 0, 1)
    yield _refuse(errno.ENOSYS)
    yield _refuse(errno.EPERM)


def _numbers(table: str, column: int) -> Iterator[int]:
    for line in table.splitlines():
        for call in line.partition("#")[0].split(";"):
            numbers = call.split()[1:]
            if numbers and numbers[column] != "-":
                yield int(numbers[column])


def _when(number: int, tests: list[list[bytes]], otherwise: int = errno.EPERM) -> Iterator[bytes]:
    """One call, allowed if its arguments pass all tests. Who passes one jumps over the refusal behind it."""
    body = [step for test in tests for step in (*test, _refuse(otherwise))] + [_step(_RETURN, _ALLOW)]
    yield _step(_EQUAL, number, 0, len(body))
    yield from body


def _is_one_of(
    argument: int, values: tuple[int, ...], *, upper: bool = False, or_no: tuple[int, ...] = ()
) -> list[bytes]:
    """The lower (or upper) half of an argument; little-endian, as both machines are.

    `or_no`: or any value whose second byte is none of these.
    """
    load = _step(_LOAD, _ARGUMENTS_AT + 8 * argument + (4 if upper else 0))
    rest = [_step(_EQUAL, kind, len(or_no) - at, 0) for at, kind in enumerate(or_no)]
    more = [_step(_AND, 0xFF00), *rest, _step(_JUMP, 1)] if or_no else []
    count = len(values) + len(more)
    return [load, *(_step(_EQUAL, value, count - at, 0) for at, value in enumerate(values)), *more]


def _has_bit(argument: int, bits: int) -> list[bytes]:
    return [_step(_LOAD, _ARGUMENTS_AT + 8 * argument), _step(_ANY_BIT, bits, 1, 0)]


def _has_no_bit(argument: int, bits: int) -> list[bytes]:
    return [_step(_LOAD, _ARGUMENTS_AT + 8 * argument), _step(_ANY_BIT, bits, 0, 1)]


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    # Variadic: without types, Python passes C ints, and a pointer would lose its upper half.
    libc.syscall.argtypes = (ctypes.c_long, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_void_p)
    libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
    return libc
