"""Loads the record of requirements for every test run, and orders the tests for runs on several cores."""

from __future__ import annotations

import os
import shutil

import pytest

pytest_plugins = ["tests.spec_plugin"]

# The folders of the tests are in memory where there is room: databases are made in many of them, and a disk would be
# waited for at each of their thousands of writes. Only those of failed tests are kept.
MEMORY = "/dev/shm"  # noqa: S108 - pytest makes a folder in it that is only ours
ROOM_BYTES = 8 * 1024**3


def _has_room(folder: str) -> bool:
    """For files that may be run, too."""
    if not os.access(folder, os.W_OK) or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(folder).free > ROOM_BYTES


if _has_room(MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)

# Longest first. A run with workers (-n 3 --dist worksteal) gives each a share of the list in this order, and who is
# done takes from the end of another's: what comes last must be short, so that all end together.
# The plans are first because all of them measure one database, which each would fill if they were shared out.
SLOW_FOLDERS = (
    "tests/plans/",
    "tests/stories/",
    "tests/crash/",
    "tests/whatsapp/",
    "tests/ui/",
    "tests/cli/",
)


def _slowness(item: pytest.Item) -> int:
    for place, folder in enumerate(SLOW_FOLDERS):
        if item.nodeid.startswith(folder):
            return place
    return len(SLOW_FOLDERS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only for workers: whoever runs tests in one process wants the quick answers first."""
    if hasattr(config, "workerinput"):
        items.sort(key=_slowness)
