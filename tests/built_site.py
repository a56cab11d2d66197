"""The site of docs/, built once for a test run, whichever of its worker processes needs it first."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from scripts.site import ROOT, build


def built_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder; fails with what Sphinx complains about."""
    base = tmp_path_factory.getbasetemp()
    place = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    site = place / "site"
    with (place / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (site / "index.html").exists():
            build(ROOT, site)
    return site
