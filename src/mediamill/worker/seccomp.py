"""A filter on system calls (seccomp-BPF): no sockets, and nothing that only a break-out would need.

Calls that are refused fail with an errno, as if permissions were missing; nothing is killed for trying.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys
from collections.abc import Iterable, Sequence

PR_SET_NO_NEW_PRIVS = 38
SET_MODE_FILTER, GET_ACTION_AVAIL = 1, 2
FLAG_TSYNC = 1  # all threads of the process, also those that libraries have started already
AF_INET, AF_INET6, AF_NETLINK = 2, 10, 16  # netlink: how resolvers learn which addresses there are

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _MACHINE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_X32 = 0x40000000  # the second set of numbers of x86-64

# machine: (audit number, column in the table below, number of seccomp() itself)
_MACHINES = {"x86_64": (0xC000003E, 0, 317), "aarch64": (0xC00000B7, 1, 277)}
_SOCKET = (41, 198)
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # other processes' memory and descriptors
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # ways around a filter, and parts of the kernel that strangers' bytes have no business with
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "syslog": (103, 116),
    # another view of the file system
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    # Landlock does not look at these
    "chown": (92, None),
    "lchown": (94, None),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    # the machine itself, for workers that run as root
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def is_available() -> bool:
    """Can this machine's kernel filter system calls, and do we know their numbers?"""
    machine = _MACHINES.get(platform.machine())
    if sys.platform != "linux" or machine is None:
        return False
    action = ctypes.c_uint32(_ERRNO)
    return bool(_libc().syscall(machine[2], GET_ACTION_AVAIL, 0, ctypes.byref(action)) == 0)


def filter_calls(families: Sequence[int] = ()) -> None:
    """From now on, for all threads and all that they start: sockets of these families only, and no break-out."""
    libc = _libc()
    audit, column, seccomp = _MACHINES[platform.machine()]
    code = b"".join(_program(audit, column, families))
    program = _Program(len(code) // 8, code)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs cannot be set")
    failed = libc.syscall(seccomp, SET_MODE_FILTER, FLAG_TSYNC, ctypes.byref(program))
    if failed != 0:
        raise OSError(ctypes.get_errno(), f"the filter on system calls cannot be set ({failed})")


def _program(audit: int, column: int, families: Sequence[int]) -> Iterable[bytes]:
    yield _step(_LOAD, _MACHINE_AT)
    yield _step(_EQUAL, audit, 1, 0)
    yield _refuse(errno.EPERM)  # a program for another machine has other numbers
    yield _step(_LOAD, _NUMBER_AT)
    yield _step(_AT_LEAST, _X32, 0, 1)
    yield _refuse(errno.ENOSYS)
    for numbers in _REFUSED.values():
        if (number := numbers[column]) is not None:
            yield _step(_EQUAL, number, 0, 1)
            yield _refuse(errno.EPERM)
    yield _step(_EQUAL, _SOCKET[column], 1, 0)
    yield _step(_RETURN, _ALLOW)
    yield _step(_LOAD, _FIRST_ARGUMENT_AT)
    for family in families:
        yield _step(_EQUAL, family, 0, 1)
        yield _step(_RETURN, _ALLOW)
    yield _refuse(errno.EACCES)


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
