"""The system user of the embedded PostgreSQL."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

USERADD = """#!/bin/sh
mkdir "$0.running" || echo overlap >> "$0.log"
echo started >> "$0.log"
sleep 0.02
rmdir "$0.running"
"""
PROGRAM = """
from mediamill.db import root_user
root_user.USER_NAME = "mediamill-test-nobody"
try:
    root_user._find_or_create_user()
except root_user.EmbeddedServerError:
    pass
"""


def test_processes_that_start_together_create_the_user_one_after_the_other(tmp_path: Path) -> None:
    useradd = tmp_path / "useradd"
    useradd.write_text(USERADD)
    useradd.chmod(0o755)
    processes = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
        for _ in range(4)
    ]
    assert [process.wait(60) for process in processes] == [0] * 4
    assert set((tmp_path / "useradd.log").read_text().split()) == {"started"}
