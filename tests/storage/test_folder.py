"""The data folder as storage: what a row will speak of is on the disk before, its name included."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stories.tracing import can_trace

PUTTER = """
import asyncio, sys
from pathlib import Path
from mediamill.storage.folder import FolderStorage
work, data = Path(sys.argv[1]), Path(sys.argv[2])
files = {f"made/{folder}/{name}": work / f"{folder}-{name}" for folder in "ab" for name in ("one", "two")}
asyncio.run(FolderStorage(data).put_all(None, files))
"""


@pytest.mark.spec("E11")
def test_files_are_on_the_disk_before_they_are_named_and_their_names_after_that(tmp_path: Path) -> None:
    if not can_trace():
        pytest.skip("strace is not there, or not allowed")
    work, data, log = tmp_path / "work", tmp_path / "data", tmp_path / "calls"
    work.mkdir()
    for folder in "ab":
        for name in ("one", "two"):
            (work / f"{folder}-{name}").write_bytes(b"bytes")
    calls = "trace=fsync,?fdatasync,?rename,?renameat,?renameat2"
    words = ["strace", "-f", "-y", "-e", calls, "-o", str(log)]
    subprocess.run([*words, sys.executable, "-c", PUTTER, work, data], check=True, timeout=120)
    lines = [line for line in log.read_text().splitlines() if str(tmp_path) in line]
    for folder in "ab":
        named = []
        for name in ("one", "two"):
            synced = _first(lines, rf"fsync\(.*work/{folder}-{name}>")
            named.append(_first(lines, rf"rename.*made/{folder}/{name}"))
            assert synced < named[-1]
        assert _first(lines, rf"fsync\(.*made/{folder}>") > max(named)


def _first(lines: list[str], pattern: str) -> int:
    return next(number for number, line in enumerate(lines) if re.search(pattern, line))
