"""Databases that have lived: grown through all revisions, filled at each, and what can be read of that today."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID, uuid4

from mediamill.access.audit import list_entries
from mediamill.access.model import Scope
from mediamill.access.sessions import session_caller
from mediamill.access.tokens import token_caller
from mediamill.access.users import list_users
from mediamill.app import all_kinds
from mediamill.conversations.bots import BotConfig, list_bots, start_bot
from mediamill.conversations.configuration import quota_gb
from mediamill.conversations.senders import list_senders
from mediamill.conversations.store import queries as replies
from mediamill.conversations.watch import failed_replies, list_conversations, list_messages
from mediamill.db.connection import Connection
from mediamill.db.migrate import upgrade
from mediamill.engine.attempts import list_ended
from mediamill.engine.browse import browse_dead, browse_jobs
from mediamill.engine.dead import requeue_dead
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import Kinds
from mediamill.engine.model import NewJob
from mediamill.engine.pools import list_pools
from mediamill.engine.rules import Engine
from mediamill.engine.watch import held_owners, overview, show_job
from mediamill.engine.workers import list_workers
from mediamill.inputs.look import list_runs, show_run
from mediamill.intake.look import list_files
from mediamill.intake.proposals import accept, list_proposals
from mediamill.libraries.assets import list_assets, show_asset
from mediamill.libraries.look import list_libraries
from mediamill.search.find import search
from mediamill.search.model import Wanted
from mediamill.settings import Settings
from mediamill.staging.awaited import awaited_among
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.cache import Cache
from mediamill.storage.objects import BucketPlace, Objects
from mediamill.videos.look import list_videos, show_transcript, show_video
from mediamill.videos.playback import find_file
from mediamill.videos.trash import restore_video
from mediamill.videos.upload_store import queries as uploads
from tests.conftest import run_sql
from tests.db.revisions import REVISIONS

DATA = Path(__file__).parent / "data"
FILM, HALF = "00000000-0000-4000-8000-000000000601", "00000000-0000-4000-8000-000000000605"
UNHEARD = "00000000-0000-4000-8000-000000001301"


async def grow(url: str, revision: str) -> None:
    """From nothing to a revision, filled at each step as it was then."""
    for each in REVISIONS[: REVISIONS.index(revision) + 1]:
        await grow_into(url, each)


async def grow_into(url: str, revision: str) -> None:
    """From the revision before it, filled as it was then."""
    await upgrade(url, revision)
    data = DATA / f"{revision}.sql"
    if data.exists():
        await run_sql(url, data.read_text())


async def _jobs(connection: Connection) -> None:
    page = await browse_jobs(connection, owner="old", amount=100)
    jobs = {job["subject_id"]: job for job in page.jobs}
    states = {subject: jobs[subject]["state"] for subject in ("queued-1", "running-1", "scheduled-1")}
    assert states == {"queued-1": "queued", "running-1": "running", "scheduled-1": "scheduled"}
    assert (await show_job(connection, 900001))["result"] == {"content": "done"}
    (dead,) = (await browse_dead(connection, kind="scripted.run")).jobs
    assert (dead["id"], dead["error"]) == (900002, "empty document")
    assert "held" in [owner["owner"] for owner in await held_owners(connection)]
    assert "old worker" in [worker["name"] for worker in await list_workers(connection)]
    assert next(pool for pool in await list_pools(connection) if pool.name == "scripted").concurrency == 7
    kinds = Kinds([all_kinds(Settings()).get("scripted.run")])
    again = await Enqueuer(kinds).enqueue_job(
        connection, NewJob(kind="scripted.run", owner="old", idempotency_key="a key")
    )
    assert again == jobs["queued-1"]["id"]
    assert await requeue_dead(connection, Engine(kinds), [900002]) == [900002]
    failures = "select failures from subject_failures where subject = 'dead-1'"
    assert await connection.fetchval(failures) == 3, "they count for good"


async def _media(connection: Connection) -> None:
    (job,) = (await browse_jobs(connection, kind="media.process", state="queued")).jobs
    assert (job["subject_id"], job["pool"]) == ("media-1", "audio")
    (dead,) = (await browse_dead(connection, kind="media.process")).jobs
    assert dead["id"] == 900003
    pools = {pool.name: pool for pool in await list_pools(connection)}
    assert (pools["audio"].timeout_seconds, pools["audio"].max_attempts) == (
        301,
        2,
    )  # it was edited, and stays
    media = ("video", "image", "documents", "stickers", "corrupt", "unsupported")
    assert {name: pools[name].max_attempts for name in media} == dict.fromkeys(media, 1)


async def _conversations(connection: Connection) -> None:
    [bot] = [bot for bot in await list_bots(connection) if bot["id"] == "old bot"]
    assert bot["config"]["access"]["mode"] == "paired"  # it is on no network, so nothing changes
    assert "groups" not in bot["config"]["reply"]
    (conversation,) = await list_conversations(connection, "old bot")
    assert (conversation["display_name"], conversation["processing"]) == ("Anna", 1)
    messages = await list_messages(connection, "old bot", "chat", "anna")
    assert [(each["id"], each["content"]) for each in messages] == [
        (1, "stored 1"),
        (2, "stored 2"),
        (3, "a caption"),
    ]
    assert messages[2]["media"]["state"] == "waiting"
    failed = await failed_replies(connection, "old bot", "chat", "anna")
    assert [reply["message_id"] for reply in failed] == [2]
    assert await quota_gb(connection) == 12
    await start_bot(connection, "old bot")


async def _runs(connection: Connection) -> None:
    waiting, answered = await list_runs(connection, "old thread")
    assert (answered.answer, answered.state) == ("a cat", "completed")
    assert (await show_run(connection, waiting.run_id)).images_waiting == 1


async def _telegram(connection: Connection) -> None:
    sent = await connection.fetchval("select message_id from telegram_sends where bot_id = 'old bot'")
    waiting = await connection.fetchval("select update_id from telegram_updates where state = 'new'")
    assert (sent, waiting) == (9, 2)


async def _videos(connection: Connection) -> None:
    videos = await list_videos(connection)
    assert {video["slug"] for video in videos} == {"old-film", "old-new"}
    assert [video["slug"] for video in await list_videos(connection, words="lift off")] == ["old-film"]
    film = await show_video(connection, "old-film")
    assert (film["state"], film["qualities"][0]["quality"]) == ("ready", "360p")
    assert (await find_file(connection, UUID(FILM), 77, "master.m3u8")).bytes == 10
    assert (await show_transcript(connection, UUID(FILM)))["captions"] == "WEBVTT"
    trashed = await list_videos(connection, trash=True)
    assert [video["slug"] for video in trashed] == ["old-trash"]
    await restore_video(connection, trashed[0]["id"])
    await uploads.let_go_of_old.run(connection, fingerprint="film", bytes=100)
    again = {"name": "film.mp4", "bytes": 100, "metadata": "{}", "fingerprint": "film", "keep_seconds": 60.0}
    found = await uploads.add_upload.row(connection, id=uuid4(), **again)
    assert found is not None
    assert (found["id"], found["finished_at"]) == (UUID(HALF), None)


async def _libraries(connection: Connection) -> None:
    (library,) = await list_libraries(connection)
    assert library["slug"] == "old-photos"
    listed = (await list_assets(connection, "old-photos"))["assets"]
    assert {asset["rel_path"] for asset in listed} == {"cat.jpg", "film.mp4", "new.jpg"}
    film = next(asset for asset in listed if asset["rel_path"] == "film.mp4")
    assert [scene["description"] for scene in (await show_asset(connection, film["id"]))["scenes"]] == [
        "a giraffe runs"
    ]
    found = await search(connection, Wanted(words="zebra"))
    assert [hit.path for hit in found.hits] == ["cat.jpg"]


async def _intake(connection: Connection) -> None:
    files = (await list_files(connection, Settings(), "old-project"))["files"]
    assert {each["name"]: each["state"] for each in files} == {
        "invoice.pdf": "completed",
        "again.pdf": "completed",
        "new.pdf": "queued",
    }
    (proposal,) = (await list_proposals(connection, "old-project"))["proposals"]
    assert (proposal["field"], proposal["value"]) == ("total", "12.00")
    await accept(connection, proposal["id"])


async def _watching(connection: Connection) -> None:
    (ended,) = [each for each in await list_ended(connection) if each.kind == "old.kind"]
    assert (ended.outcome, ended.count, ended.seconds) == ("completed", 5, 4.0)


async def _access(connection: Connection) -> None:
    assert [(user["name"], user["tokens"]) for user in await list_users(connection)] == [("old ann", 1)]
    caller = await token_caller(connection, "mill_oldtoken-of-ann")
    assert (caller.name, list(caller.scopes)) == ("old camera", [Scope.INGEST])
    session = await session_caller(connection, "an old session", None)
    assert session is not None
    assert session.name == "old ann"
    assert [entry["subject"] for entry in await list_entries(connection)] == ["audio"]


async def _word_pairs(connection: Connection) -> None:
    found = await search(connection, Wanted(words='"quiet okapi"'))
    assert [hit.path for hit in found.hits] == ["new.jpg"]
    assert not (await search(connection, Wanted(words='"okapi quiet"'))).hits


async def _stored(connection: Connection) -> None:
    place = BucketPlace("old", None, "us-east-1", "", None, None, path_style=True)
    storage = BucketStorage(Path("/nowhere"), Objects(place), Cache(Path("/nowhere"), 0))
    assert await storage.sizes(connection, f"videos/{FILM}") == {"source": 15}
    assert await storage.folders(connection, "videos") == [f"videos/{FILM}"]


async def _unheard(connection: Connection) -> None:
    again = {"name": "x.mp4", "bytes": 200, "metadata": "{}", "fingerprint": "unheard", "keep_seconds": 60.0}
    found = await uploads.add_upload.row(connection, id=uuid4(), **again)
    assert found is not None
    assert (found["id"], found["name"]) == (UUID(UNHEARD), "unheard.mp4")


async def _networks(connection: Connection) -> None:
    found = {bot["id"]: BotConfig.model_validate(bot["config"]).access for bot in await list_bots(connection)}
    groups = {bot_id: access.groups for bot_id, access in found.items() if bot_id != "old bot"}
    assert groups == {"old listener": "always", "old shop": "never", "old talker": "always"}
    for bot_id in groups:
        access = found[bot_id]
        limits = (access.messages_per_day, access.media_seconds_per_day, access.tokens_per_day)
        assert (access.mode, limits) == ("open", (0, 0, 0))


async def _late_media(connection: Connection) -> None:
    line = {"bot_id": "old bot", "provider_name": "chat"}
    assert (await replies.find_sender.value(connection, **line, identifiers=["anna"])) is not None
    ben = {**line, "correspondent_id": "ben"}
    add = replies.add_reply
    await add.run(connection, **ben, message_id=4, told="hello", sender_id=None)
    due = await replies.next_reply.row(connection, **ben, answers=True)
    assert due is not None
    past = await replies.past_replies.rows(connection, **ben, notified_order=due["notified_order"], amount=20)
    assert [row["answer"] for row in past] == ["third", "second", "first"]


async def _senders(connection: Connection) -> None:
    found = await list_senders(connection, "old talker")
    assert {each["sender_id"]: each["state"] for each in found} == {"41": "allowed", "42": "pending"}


async def _latest(connection: Connection) -> None:
    await _late_media(connection)
    await _senders(connection)
    await _capture_times(connection)


async def _capture_times(connection: Connection) -> None:
    rows = await connection.fetch(
        "select rel_path, shown_at::text, status, facts ->> 'taken_at' as taken, facts ->> 'taken_from' as origin "
        "from assets join libraries l on l.number = library where l.slug = 'old-times'"
    )
    assert {row["rel_path"]: tuple(row)[1:] for row in rows} == {
        "phone.jpg": ("2024-06-01 00:30:00", "completed", "2024-06-01T00:30:00+02:00", "exif_offset"),
        "camera.jpg": ("2024-06-01 00:30:00", "completed", "2024-06-01T00:30:00", "exif"),
        "wrong.jpg": ("2024-06-01 00:30:00", "completed", "2024-02-31T00:30:00", None),
        "iphone.mov": ("2024-06-01 00:30:00", "completed", "2024-06-01T00:30:00+02:00", "quicktime"),
        "android.mp4": ("2024-05-31 22:30:00", "completed", "2024-05-31T22:30:00+00:00", "container_utc"),
        "canon.cr3": ("2024-07-01 10:00:00", "pending", None, None),
        "shot.png": ("2024-07-01 10:00:00", "completed", None, None),
    }


async def _notified(connection: Connection) -> None:
    carl = {"bot_id": "old bot", "provider_name": "chat", "correspondent_id": "carl"}
    await replies.add_reply.run(
        connection, **carl, message_id=6, told="earlier sent, later heard", sender_id=None
    )
    due = await replies.next_reply.row(connection, **carl, answers=True)
    assert due is not None
    past = await replies.past_replies.rows(
        connection, **carl, notified_order=due["notified_order"], amount=20
    )
    assert [row["answer"] for row in past] == ["to the media"]


async def _awaited(connection: Connection) -> None:
    assert await awaited_among(connection, ["held-by-bridge", "of nobody"]) == {"held-by-bridge"}


async def _stalls(connection: Connection) -> None:
    pools = {pool.name: pool.no_progress_seconds for pool in await list_pools(connection)}
    assert (pools["video"], pools["transcode"]) == (77, 1800)


async def _made_by(connection: Connection) -> None:
    film = await show_video(connection, "old-film")
    assert [quality["worker_name"] for quality in film["qualities"]] == ["old encoder"]


async def _categories(connection: Connection) -> None:
    files = (await list_files(connection, Settings(), "old-project"))["files"]
    assert [each["name"] for each in files if each["category"] == "Invoice"] == ["new.pdf"]


async def _waits(connection: Connection) -> None:
    assert [wait["server"] for wait in (await overview(connection))["waits"]] == ["model.old:443"]


READ: dict[str, Callable[[Connection], Awaitable[None]]] = {
    "0001": _jobs,
    "0002": _media,
    "0003": _conversations,
    "0004": _runs,
    "0005": _telegram,
    "0006": _videos,
    "0007": _libraries,
    "0008": _intake,
    "0009": _watching,
    "0010": _access,
    "0011": _word_pairs,
    "0012": _stored,
    "0013": _unheard,
    "0014": _networks,
    "0015": _latest,
    "0016": _notified,
    "0017": _awaited,
    "0018": _stalls,
    "0019": _made_by,
    "0020": _categories,
    "0021": _waits,
}
