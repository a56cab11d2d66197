"""A command in a terminal of its own: what is typed goes in, what is shown comes out."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

_STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """80 columns, 24 rows."""

    def __init__(self, *words: str, environment: dict[str, str]) -> None:
        self._line, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mediamill", *words],
            env={**environment, "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.raw = ""

    @property
    def shown(self) -> str:
        """All that was ever shown, without what steers the terminal."""
        return _STEERING.sub("", self.raw)

    def type(self, text: str) -> None:
        """As fingers do."""
        os.write(self._line, text.encode())

    def until(self, text: str, limit_seconds: float = 120) -> None:
        """Until this was shown, since the last time that was waited for."""
        end = time.monotonic() + limit_seconds
        while text not in self.shown:
            assert time.monotonic() < end, self.shown[-3000:]
            if not self._read():
                break
        assert text in self.shown, self.shown[-3000:]

    def until_gone(self) -> int:
        """Its exit code."""
        while self._read():
            pass
        return self.process.wait(60)

    def close(self) -> None:
        """Whatever it does."""
        self.process.kill()
        self.process.wait(60)
        os.close(self._line)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._line], [], [], 0.2)
        if not ready:
            return True
        try:
            got = os.read(self._line, 65_536)
        except OSError:  # the other end is closed
            return False
        self.raw += got.decode(errors="replace")
        return bool(got)
