"""The bridge's own tests, in Node.js: each file is a test here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

BRIDGE = Path(__file__).resolve().parents[2] / "bridges" / "whatsapp"
FILES = sorted(path.relative_to(BRIDGE) for path in BRIDGE.glob("test/**/*.test.mjs"))


@pytest.mark.spec("C20", "C21", "C41", "C42", "C43")
@pytest.mark.parametrize("file", FILES, ids=str)
@pytest.mark.timeout(600)
def test_the_bridges_own_tests_pass(file: Path) -> None:
    assert (BRIDGE / "node_modules").is_dir(), "make .tools/.stamp-bridge installs the bridge's packages"
    run = subprocess.run(
        ["node", "--test", "--test-reporter=tap", str(file)],
        cwd=BRIDGE,
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-5_000:]


def test_there_are_tests_of_the_bridge() -> None:
    assert len(FILES) >= 9
