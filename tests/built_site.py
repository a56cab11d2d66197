"""The site of docs/, built once for a test run, whichever of its worker processes needs it first."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from scripts.site import ROOT, build
from tests.files_of_a_run import common_folder


def built_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder; fails with what Sphinx complains about."""
    place = common_folder(tmp_path_factory)
    site = place / "site"
    with (place / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (site / "index.html").exists():
            build(ROOT, site)
    return site
