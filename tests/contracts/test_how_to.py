"""The example for authors of processors runs as it stands in the guide."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mediamill.testing.conformance import MediaConformance

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "processor.md"
EXAMPLE = re.compile(r"<!-- example: (\S+) -->\n```python\n(.*?)```", re.DOTALL)


@pytest.mark.spec("C25")
def test_the_processor_of_the_guide_passes_the_suite(tmp_path: Path) -> None:
    examples = EXAMPLE.findall(GUIDE.read_text())
    assert [name for name, _ in examples] == ["subtitles.py", "test_subtitles.py"]
    for name, code in examples:
        (tmp_path / name).write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_subtitles.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    cases = [name for name in dir(MediaConformance) if name.startswith("test_")]
    assert f"{len(cases) + 1} passed" in done.stdout
