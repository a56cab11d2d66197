"""Servers with something on them to be seen: each `fill_…` says where, by the names that paths of pages use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mediamill.access import users
from mediamill.access.audit import note
from mediamill.access.model import ADMIN, HERE, Caller, Scope
from mediamill.access.tokens import create_token
from mediamill.conversations.model import Sender
from mediamill.engine import workers
from mediamill.engine.model import Command, WorkerState
from mediamill.libraries.trash import remove_library
from mediamill.videos.again import retranscode_video
from mediamill.videos.trash import delete_video
from tests.access.people import PASSWORD
from tests.api.serving import Served
from tests.intake.played import Ground as Desk
from tests.ui.busy import add_worker, fill, lay_out
from tests.ui.filming import fill_videos, show_film, some_parts
from tests.ui.papering import FIELDS, fill_project
from tests.ui.picturing import RTL, many_rows, picture_library
from tests.ui.searching import teach, tell
from tests.ui.talking import ANN, BEN, Talking, fill_family, gate, knock
from tests.videos.played import Ground

Places = dict[str, Any]


async def fill_nothing(served: Served, folder: Path) -> Places:
    """As it is after the installation."""
    return {}


async def fill_jobs(served: Served, folder: Path) -> Places:
    """A day's work."""
    await fill(served.database)
    return {"running": await served.one("select max(id) from jobs where state = 'running'")}


async def fill_system(served: Served, folder: Path) -> Places:
    """A day's work on the pools of the installation, and some files."""
    await fill(served.database, pools=False)
    lay_out(served)
    return {}


async def fill_workers(served: Served, folder: Path) -> Places:
    """One idle, one paused, one disabled with a hostile name, one at work."""
    hardware: dict[str, Any] = {"gpu": True, "encoders": ["h264_nvenc", "libx264"]}
    await add_worker(served, "attic-nas", WorkerState.IDLE, encoders=["libx264"])
    await add_worker(served, "old-laptop", WorkerState.PAUSED)
    hostile = "<b>a-worker-with-a-name-that-goes-on-and-on-and-on</b>" * 2
    disabled = await add_worker(served, hostile, WorkerState.IDLE, **hardware)
    async with served.database.transaction() as connection:
        await workers.disable_worker(connection, disabled)
        await workers.give_command(connection, disabled, Command.FORENSIC_DUMP)
    ground = Ground.on(served.database, served.app.state.deps.settings.data_folder)
    await ground.add("Birthday, uncut")
    (job,) = await ground.claim("atelier:4121")
    await ground.report(job, percent=41.0, parts=some_parts())
    return {}


async def fill_bots(served: Served, folder: Path) -> Places:
    """Bots in every state, a group that talks, and strangers who want to."""
    talking = Talking(served)
    await talking.create("anna", by="openai", providers={"whatsapp": {}, "chat": {}})
    await talking.create("demo", by="echo")
    await talking.create("a-very-long-name-of-a-bot-that-goes-on-and-on-until-its-enough", runs=False)
    await talking.create("office", by="pi", providers={"whatsapp": {}})
    await talking.tell_status("whatsapp", {"state": "pairing", "qr": "2@" + 200 * "x"})
    await talking.tell_status("chat", {"state": "connected"})
    await talking.tell_status("chat", {"state": "connected"}, "demo")
    failed = {"state": "failed", "detail": "Node.js is not there and cannot be fetched: no network"}
    await talking.tell_status("whatsapp", failed, "office")
    await fill_family(talking)
    await talking.write("Hello", correspondent="49123@s.whatsapp.net", name="Luis", ago_seconds=4000)
    await _fill_senders(talking)
    return {}


async def _fill_senders(talking: Talking) -> None:
    for bot_id, mode in (("shop", "paired"), ("hotline", "open")):
        await talking.create(bot_id, runs=False, providers={"whatsapp": {}}, access={"mode": mode})
    cy, nameless = Sender("491703333333@s.whatsapp.net", "Cy"), Sender("491704444444@s.whatsapp.net")
    for sender in (ANN, BEN, cy, nameless):
        await knock(talking, sender)
    for state, who in (("allowed", ANN), ("blocked", cy)):
        await talking.served.run(
            "update senders set state = $1, code = null, expires_at = null where sender_id = $2",
            state,
            who.identifier,
        )
    async with talking.served.database.transaction() as connection:
        await gate(talking).count(connection, ANN, 75)


async def fill_access(served: Served, folder: Path) -> Places:
    """Users, tokens and a page of audit, with names as long as they may be."""
    async with served.database.transaction() as connection:
        eve = await users.add_user(connection, "eve", PASSWORD, [Scope.ADMIN])
        for user in ("ann", "a-name-that-goes-on-and-on-and-on-and-on@the-end.example"):
            await users.add_user(connection, user, PASSWORD, [Scope.READ, Scope.INGEST])
        await users.disable_user(connection, "ann")
        maker = Caller("user", "eve", frozenset(Scope), eve)
        for what, scope in (
            ("the camera in the hall", "ingest"),
            ("prometheus", "read"),
            ("<b>" * 30, "admin"),
        ):
            await create_token(connection, what, [scope], days=90, made_by=maker)
        for number in range(12):
            subject = f"audio-{number}"
            await note(connection, ADMIN, "pool.change", subject, address="203.0.113.9", outcome="200")
        await note(connection, None, "login.failed", "<script>" * 20, address="2001:db8::1")
        await note(connection, HERE, "dead.purge", "x" * 200, address="127.0.0.1", outcome="422")
    return {}


async def fill_libraries(served: Served, folder: Path) -> Places:
    """Three in use, one of them being scanned and one paused; three in the trash, one of them being erased."""
    await picture_library(served, folder / "photos", "<script>window.hurt=1</script> & family")
    await many_rows(served, folder / "many", 3_000, name="Everything since 1998")
    await many_rows(served, folder / "old", 50, name="The long and winding name of a library of old slides")
    await served.run(
        "update assets set status = case when id % 9 = 0 then 'failed' when id % 3 = 0 then 'pending' else 'proxied' "
        "end where library = 2 and id % 2 = 0"
    )
    await served.run(
        "update libraries set scan_status = 'scanning', "
        'scan_counts = \'{"folders": 312, "files": 48211, "new": 5120}\' where number = 2'
    )
    await served.run("update libraries set is_active = false where number = 3")
    long = "A library with a very long name that nobody would ever type on a phone"
    for title in ("Old slides <b>", long, "Gone"):
        slug = await many_rows(served, folder / title[:5], 40, name=title)
        async with served.database.transaction() as connection:
            await remove_library(connection, slug)
    await served.client.post("/trash/gone/erase")
    return {}


async def fill_pictures(served: Served, folder: Path) -> Places:
    """A library to look through, and what is found in it."""
    made = await picture_library(served, folder / "photos", pictures=160)
    await teach(served, made)
    await tell(served)
    ids = made["ids"]
    alike = next(id_ for path, id_ in ids.items() if path.startswith("2024/"))
    shown = {"image": ids[RTL], "film": made["film"], "failed": ids["broken.jpg"]}
    return {"slug": made["slug"], "alike": alike, **shown}


async def fill_projects(served: Served, folder: Path) -> Places:
    """A project with a file in each state, an empty one with a hostile name, and one whose folder is away."""
    desk = Desk.on(served.database, served.app.state.deps.settings.data_folder)
    await desk.project(fields=FIELDS, description="What we have to pay", watch_path=str(folder))
    await desk.project("<script>window.hurt=1</script> meters", fields=())
    await desk.project("Contracts of the last fifty years, with everything that belongs to them", fields=())
    ids = await fill_project(desk)
    await desk.run("update projects set watch_error = 'the share is away' where slug like 'contracts%'")
    for field, verb in (("invoice_number", "accept"), ("order_number", "reject")):
        number = await desk.proposal(ids["invoice"], field)
        await served.client.post(f"/api/proposals/{number}/{verb}")
    entered = {"field": "order_number", "value": "HB-78"}
    await served.client.post(f"/api/files/{ids['sheet']}/values", json=entered)
    return dict(ids)


async def fill_films(served: Served, folder: Path) -> Places:
    """A video in each state, one of them to be made again, and one in the trash."""
    ground = Ground.on(served.database, served.app.state.deps.settings.data_folder)
    gone = await show_film(ground, "The harbour, first try", category="Travel")
    async with ground.database.transaction() as connection:
        await delete_video(connection, gone)
    ids = await fill_videos(ground)
    async with ground.database.transaction() as connection:
        await retranscode_video(connection, ground.enqueuer, ground.settings, ids["tall"], ["360p"])
    return dict(ids)
