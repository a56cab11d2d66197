"""No library behind the processors keeps accounts of its own or reports to its makers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_inference_library_leaves_no_trace(tmp_path: Path) -> None:
    folders = {"TMPDIR": tmp_path, "HOME": tmp_path, "XDG_CACHE_HOME": tmp_path / "cache"}
    kept = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    subprocess.run(
        [sys.executable, "-c", "import mediamill.processors, onnxruntime"],
        env={**kept, **{name: str(path) for name, path in folders.items()}},
        check=True,
    )
    assert list(tmp_path.rglob("*")) == []
