"""Hands a password to PostgreSQL's own programs: not by their arguments or environment, which others can read."""

from __future__ import annotations

from contextlib import AbstractContextManager

from mediamill.environment import secret_file


def passfile(password: str) -> AbstractContextManager[int]:
    """A descriptor for `pass_fds`, in the format of libpq's password file; it is good for any server and role."""
    escaped = password.replace("\\", "\\\\").replace(":", "\\:")
    return secret_file(f"*:*:*:*:{escaped}\n".encode())


def passfile_environment(descriptor: int) -> dict[str, str]:
    """What tells a program with this descriptor to read its password there."""
    return {"PGPASSFILE": f"/proc/self/fd/{descriptor}"}
