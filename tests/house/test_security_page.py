"""docs/security.md says what a child cannot do, and names the attempt that shows it."""

from __future__ import annotations

import re
from pathlib import Path

from mediamill.testing.escape_attempts import ATTEMPTS

PAGE = Path(__file__).parents[2] / "docs" / "security.md"


def test_the_security_page_names_each_attempt_once_and_no_other() -> None:
    section = PAGE.read_text().partition("## Inside a child process")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(ATTEMPTS)
