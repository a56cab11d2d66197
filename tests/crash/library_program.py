"""What a server and its worker do for libraries, in one process that tests kill.

`python -m tests.crash.library_program work`, `scan SLUG`, or `empty`.
"""

from __future__ import annotations

import asyncio
import sys

from mediamill.app import App, all_kinds, open_app
from mediamill.libraries.erase import empty_trash
from mediamill.libraries.feed import feed_forever
from mediamill.libraries.jobs import library_kinds
from mediamill.libraries.model import IMAGE
from mediamill.libraries.scan import scan_library
from mediamill.settings import Settings
from mediamill.worker.home import WorkerPlan
from mediamill.worker.local_home import LocalHome
from mediamill.worker.loop import Worker

READY = "the library program is ready"
POOLS = ("library_images", "library_videos", "library_tags")


async def main(verb: str, *words: str) -> None:
    """Do it until it is done, or until somebody kills it."""
    settings = Settings()
    wired = IMAGE in all_kinds(settings).names()
    async with open_app(settings, kinds=() if wired else library_kinds(settings)) as app:
        print(READY, flush=True)
        if verb == "work":
            await work(app)
        elif verb == "scan":
            await scan_library(app.database, settings, words[0])
        else:
            await empty_trash(app.database)


async def work(app: App) -> None:
    """Feed the queue, and work it off."""
    plan = WorkerPlan(name="doomed", pools=POOLS, data_folder=app.settings.data_folder)
    worker = Worker(LocalHome(app.database, app.engine, plan), app.engine, plan)
    await asyncio.gather(worker.run(), feed_forever(app.database, app.enqueuer, app.settings))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
