"""Who may read what mediamill writes: this user alone, whatever the umask of the shell that started it."""

from __future__ import annotations

import errno
import logging
import os
import stat
from pathlib import Path

log = logging.getLogger(__name__)

PRIVATE_UMASK = 0o077
_ACL = "system.posix_acl_access"


def expand(path: str) -> str:
    """`~/scans` is in the home folder of the user who runs this; a user that nobody knows stays as it is."""
    try:
        return os.fspath(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError:
        return path


def keep_private(folder: Path) -> None:
    """For processes that stay: close the data folder to others, and make all new files readable by this user only."""
    os.umask(PRIVATE_UMASK)
    tighten(folder)


def tighten(folder: Path) -> None:
    """Take other users' access to this folder away; what lies below it is then out of their reach.

    Entries of an access control list name users one by one, so they are left as they are.
    """
    if not folder.is_dir():
        return
    found = folder.stat()
    mode = stat.S_IMODE(found.st_mode)
    private = mode & ~(stat.S_IRWXO if _has_acl(folder) else PRIVATE_UMASK)
    if mode == private:
        return
    if os.geteuid() not in (0, found.st_uid):
        log.info("%s belongs to another user; its mode %04o is left as it is", folder, mode)
        return
    folder.chmod(private)
    log.warning("%s was open to other users (mode %04o); its mode is now %04o", folder, mode, private)


def _has_acl(folder: Path) -> bool:
    """In such a folder the group bits of the mode are a mask over the list, not the group's rights."""
    if not hasattr(os, "getxattr"):
        return False
    try:
        os.getxattr(folder, _ACL)
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.EOPNOTSUPP):
            return False
        raise
    return True
