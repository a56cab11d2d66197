"""The system user that the embedded PostgreSQL runs as. It refuses to run as root, so root lends it the user
`mediamill-db` and lets that user alone pass the folders on its way by an ACL entry, never by a wider mode.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import shutil
import struct
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mediamill.errors import UnavailableError

USER_NAME = "mediamill-db"
OTHER_WAY = "choose another MEDIAMILL_DATA or run as an ordinary user"

# The layout of the extended attribute is part of the kernel's interface (linux/posix_acl_xattr.h).
_ACL = "system.posix_acl_access"
_VERSION = struct.pack("<I", 2)
_ENTRY = struct.Struct("<HHI")
_USER_OBJ, _USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 1, 2, 4, 8, 16, 32
_NOBODY = 0xFFFFFFFF
_READ, _SEARCH = 4, 1


class EmbeddedServerError(UnavailableError):
    """The embedded database cannot be used."""

    code = "embedded_database"


@dataclass(frozen=True)
class Account:
    """Who runs the server and owns its files; `switch` says that this is not ourselves."""

    uid: int
    gid: int
    switch: bool

    def process_options(self) -> dict[str, Any]:
        """Arguments that make `subprocess` run a program as this user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.switch else {}

    def own(self, path: Path) -> None:
        """Give a file or folder that we made to this user."""
        if self.switch:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def server_account(cluster: Path) -> Account:
    """The owner of an existing cluster; for a new one ourselves, or `mediamill-db` if we are root."""
    uid = os.geteuid()
    found = cluster.stat() if cluster.exists() else None
    owner = found.st_uid if found else None
    if uid != 0:
        if owner not in (None, uid):
            raise EmbeddedServerError(
                f"The database in {cluster} belongs to user {owner}, but this process runs as user {uid}.",
                fix=f"run as user {owner}, or choose another MEDIAMILL_DATA",
            )
        return Account(uid, os.getegid(), switch=False)
    if owner == 0:
        raise EmbeddedServerError(
            f"The database in {cluster} belongs to root, and PostgreSQL refuses to run as root.",
            fix=f"run: chown -R {USER_NAME}: '{cluster}' (after: useradd --system {USER_NAME})",
        )
    if found:
        return Account(found.st_uid, found.st_gid, switch=True)
    user = _find_or_create_user()
    return Account(user.pw_uid, user.pw_gid, switch=True)


def open_way(paths: Iterable[Path], account: Account) -> None:
    """Let the account pass every folder above these (absolute, resolved) paths."""
    if not account.switch:
        return
    for path in paths:
        for folder in reversed(path.parents):
            if not _allows(folder, account, _SEARCH):
                _grant_search(folder, account)


def check_readable(program: Path, account: Account) -> None:
    """Complain early if the account cannot run this program; its whole package then has narrow modes."""
    if account.switch and not _allows(program, account, _READ | _SEARCH):
        raise EmbeddedServerError(
            f"The user {USER_NAME} may not run {program}.",
            fix="install mediamill with umask 022, or run as an ordinary user",
        )


def _find_or_create_user() -> pwd.struct_passwd:
    complaint = ""
    for _attempt in range(20):  # another program may hold the lock of the password file
        with _one_process_at_a_time():
            try:
                return pwd.getpwnam(USER_NAME)
            except KeyError:
                complaint = _create_user()
        if "lock" in complaint:
            time.sleep(0.2)
    raise EmbeddedServerError(
        f"PostgreSQL refuses to run as root, and its user {USER_NAME} could not be created: {complaint}",
        fix=f"run as an ordinary user, or create a system user named {USER_NAME}",
    )


@contextmanager
def _one_process_at_a_time() -> Iterator[None]:
    """useradd's own lock is not enough: of three processes that started at once, one was left with a user id that
    another's useradd had replaced.
    """
    folder = os.open("/etc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _create_user() -> str:
    program = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        return "there is no program `useradd`"
    options = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    done = subprocess.run(  # noqa: S603 - fixed arguments
        [program, *options, "--shell", "/usr/sbin/nologin", USER_NAME],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return (done.stderr or done.stdout).strip()


def _read_acl(path: Path) -> list[tuple[int, int, int]]:
    try:
        raw = os.getxattr(path, _ACL)
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.EOPNOTSUPP):
            raise
        mode = path.stat().st_mode
        return [
            (_USER_OBJ, mode >> 6 & 7, _NOBODY),
            (_GROUP_OBJ, mode >> 3 & 7, _NOBODY),
            (_OTHER, mode & 7, _NOBODY),
        ]
    return [(tag, bits, who) for tag, bits, who in _ENTRY.iter_unpack(raw[len(_VERSION) :])]


def _effective(acl: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The entries with the mask worked into them, and without it."""
    mask = next((bits for tag, bits, _ in acl if tag == _MASK), 7)
    group_class = (_USER, _GROUP_OBJ, _GROUP)
    return [(tag, bits & mask if tag in group_class else bits, who) for tag, bits, who in acl if tag != _MASK]


def _allows(path: Path, account: Account, wanted: int) -> bool:
    """The kernel's rule: owner, else named user, else any group, else the others."""
    found = path.stat()
    acl = _effective(_read_acl(path))
    owner = [bits for tag, bits, _ in acl if tag == _USER_OBJ and found.st_uid == account.uid]
    named = [bits for tag, bits, who in acl if tag == _USER and who == account.uid]
    groups = [
        bits
        for tag, bits, who in acl
        if (tag == _GROUP_OBJ and found.st_gid == account.gid) or (tag == _GROUP and who == account.gid)
    ]
    others = [bits for tag, bits, _ in acl if tag == _OTHER]
    return any(bits & wanted == wanted for bits in owner or named or groups or others)


def _grant_search(folder: Path, account: Account) -> None:
    """Add `user:<account>:--x`. The mask must grow for it; the others keep what they had in effect before."""
    acl = _effective(_read_acl(folder))
    had = next((bits for tag, bits, who in acl if tag == _USER and who == account.uid), 0)
    acl = [entry for entry in acl if not (entry[0] == _USER and entry[2] == account.uid)]
    acl.append((_USER, had | _SEARCH, account.uid))
    mask = 0
    for tag, bits, _ in acl:
        mask |= bits if tag in (_USER, _GROUP_OBJ, _GROUP) else 0
    acl.append((_MASK, mask, _NOBODY))
    try:
        os.setxattr(folder, _ACL, _VERSION + b"".join(_ENTRY.pack(*entry) for entry in sorted(acl)))
    except OSError as error:
        raise EmbeddedServerError(
            f"The database's user may not pass {folder}, and its file system takes no ACL: {error.strerror}.",
            fix=OTHER_WAY,
        ) from error
