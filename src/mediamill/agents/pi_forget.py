"""Deletes what pi remembers of threads that nobody has used for long: their session files hold texts and images."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import time
from datetime import timedelta
from pathlib import Path

from mediamill.agents.pi_setup import pi_folder
from mediamill.agents.pi_thread import lock_folder
from mediamill.settings import Settings

NAME = re.compile(r"[0-9a-f]{64}")

log = logging.getLogger(__name__)


async def forget_threads_forever(settings: Settings) -> None:
    """Now and then, for as long as the server runs."""
    older_than = timedelta(days=settings.pi_thread_keep_days)
    while True:
        await asyncio.to_thread(forget_old_threads, settings, older_than)
        await asyncio.sleep(settings.janitor_seconds)


def forget_old_threads(settings: Settings, older_than: timedelta) -> int:
    """Delete the folders of threads without a run for so long; how many. It blocks: call it in a thread.

    A thread whose pi process lives holds its lock and is left alone. Who comes back later begins anew, with the history
    that the caller has.
    """
    folder = pi_folder(settings)
    before = time.time() - older_than.total_seconds()
    if not folder.is_dir():
        return 0
    return sum(_forget(each, before) for each in folder.iterdir() if NAME.fullmatch(each.name))


def _forget(folder: Path, before: float) -> bool:
    try:
        if _used_at(folder) >= before or (lock := lock_folder(folder)) is None:
            return False
    except OSError as error:
        log.warning("a thread of pi could not be looked at: %s", error)
        return False
    try:
        if _used_at(folder) >= before:  # somebody was faster than the lock
            return False
        shutil.rmtree(folder)
    except OSError as error:
        log.warning("a thread of pi could not be deleted: %s", error)
        return False
    finally:
        os.close(lock)
    return True


def _used_at(folder: Path) -> float:
    """When a run of it last began or ended."""
    files = [folder / "runs.json", folder / "session.jsonl"]
    times = [file.stat().st_mtime for file in files if file.exists()]
    return max(times, default=folder.stat().st_mtime)
