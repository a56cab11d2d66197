"""Where the worker processes of a test run share what takes long to make."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def common_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in all processes of the run, and gone after it."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
