"""Every test run: one environment on every machine, the record of requirements, and an order for several cores."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.spec_plugin"]

# Tests, and the processes that they start, see these variables of the machine and no others. Settings of mediamill,
# Python, Node.js or a registry that happen to be there must not decide whether a test passes.
PASSED_ON = (
    *("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "CI", "MEDIAMILL_TEST_DATABASE_URL"),
    *("CHROMIUM", "REDIS_SERVER", "PROMTOOL", "POSTGRES16", "PGBOUNCER", "S3_SERVER", "ALL_SCREENSHOTS"),
)
for _name in [name for name in os.environ if name not in PASSED_ON and not name.startswith("PYTEST_")]:
    del os.environ[_name]

# The folders of the tests are in memory where there is room: databases are made in many of them, and a disk would be
# waited for at each of their thousands of writes. Only those of failed tests are kept.
MEMORY = "/dev/shm"  # noqa: S108 - pytest makes a folder in it that is only ours
ROOM_BYTES = 8 * 1024**3
PLACE = "mill-"  # short, for the sockets of databases are below it, and their paths are bounded
KEPT_SECONDS = 24 * 3600


def _has_room(folder: str) -> bool:
    """For files that may be run, too."""
    if not os.access(folder, os.W_OK) or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(folder).free > ROOM_BYTES


def _make_place() -> str:
    """A folder of this run's own: each run of pytest closes its user's common folder to other users, and so to the
    databases that another run of root has below it.
    """
    parent = Path(MEMORY if _has_room(MEMORY) else tempfile.gettempdir())
    for old in parent.glob(f"{PLACE}*"):
        with suppress(FileNotFoundError):  # another run has just removed it
            if time.time() - old.stat().st_mtime > KEPT_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
    return tempfile.mkdtemp(prefix=PLACE, dir=parent)


_place = None if "PYTEST_DEBUG_TEMPROOT" in os.environ else _make_place()
if _place is not None:  # workers get it from whoever started them
    os.environ["PYTEST_DEBUG_TEMPROOT"] = _place

# How long an example takes says how busy the machine is, no more.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Longest first. They use a browser, kill processes, walk whole stories, encode media, run models or start programs.
# `make test-quick` leaves them out; a run in several processes begins with them.
SLOW = (
    "tests/machines/",
    "tests/api/test_schemathesis",
    "tests/stories/",
    "tests/crash/",
    "tests/plans/",
    "tests/ui/",
    "tests/processors/",
    "tests/whatsapp/",
    "tests/cli/",
    "tests/agents/",
    "tests/backup/",
    "tests/bench/",
    "tests/mcp/",
    "tests/pooler/",
    "tests/races/",
    "tests/worker/",
    "tests/contracts/test_processors",
    "tests/api/test_login",
    "tests/api/test_server_memory",
    "tests/intake/test_hardening",
    "tests/libraries/test_real_tagger",
    "tests/videos/test_real_worker",
    "tests/db/test_embedded",
    "tests/db/test_migrat",
    "tests/db/test_roles",
    "tests/db/test_upgrade",
    "tests/deploy/test_proxies",
    "tests/engine/test_lifecycle_machine",
    "tests/conversations/test_queue_machine",
    "tests/inputs/test_images_machine",
    "tests/house/test_site",
    "tests/test_files",
)


@pytest.fixture(scope="session", autouse=True)
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a command keeps in the home folder by default is not looked for, or left, in that of the developer."""
    os.environ["HOME"] = str(tmp_path_factory.mktemp("home"))
    os.environ.pop(
        "PYTEST_DEBUG_TEMPROOT", None
    )  # a pytest that a test runs would close this run's folder to others


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out the tests of SLOW (conftest.py)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --quick, slow tests are not even imported, unless they are named on the command line."""
    place = Path(os.path.relpath(collection_path, config.rootpath)).as_posix()
    slow = f"{place}/" if collection_path.is_dir() else place
    named = tuple(name.rstrip("/") for name in config.args if name.startswith("tests/"))
    left_out = config.option.quick and slow.startswith(SLOW) and not place.startswith(named)
    return True if left_out else None


def pytest_collection_finish() -> None:
    """All modules and tests stay until the end: the collector of garbage need not look through them each time."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only for workers: whoever runs tests in one process wants the quick answers first."""
    if hasattr(config, "workerinput"):
        items[:] = _shared_out(items, config.workerinput["workercount"])


def _slowness(item: pytest.Item) -> int:
    return next((place for place, path in enumerate(SLOW) if item.nodeid.startswith(path)), len(SLOW))


def _shared_out(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Long ones first, and at once in all workers, so that what is left at the end is short.

    A worker begins with an equal share of the list (--dist worksteal), and who is done takes from the end of another's.
    Files stay whole where they can: their tests share databases, servers and models.
    """
    files: dict[str, list[pytest.Item]] = {}
    for item in sorted(items, key=_slowness):
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    room = -(-len(items) // workers)
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    rest: list[pytest.Item] = []
    for number, tests in enumerate(files.values()):
        share = shares[number % workers]
        fits = _slowness(tests[0]) < len(SLOW) and len(share) + len(tests) <= room
        (share if fits else rest).extend(tests)
    left = iter(rest)
    for share in shares:
        share.extend(islice(left, room - len(share)))
    return [item for share in shares for item in share]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(exitstatus: int) -> Iterator[None]:
    """What failed tests left is kept for a day."""
    yield
    if _place is not None and exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(_place, ignore_errors=True)
