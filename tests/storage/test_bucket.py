"""What only a bucket has: objects without names, garbage, faults of its server, machines with a cache each."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from mediamill.cli.check import find_bucket_faults
from mediamill.db.connection import Database
from mediamill.settings import Settings
from mediamill.storage import bucket as bucket_file
from mediamill.storage import cache as cache_file
from mediamill.storage import objects as objects_file
from mediamill.storage import pulse as pulse_file
from mediamill.storage.bucket import PIECE_BYTES, BucketStorage, SentLongAgoError
from mediamill.storage.cache import DamagedObjectError
from mediamill.storage.choose import storage_of
from mediamill.storage.contract import StoredMissingError
from mediamill.storage.examine import examine_bucket
from mediamill.storage.objects import BucketPlace, Objects, new_key
from mediamill.storage.owner import NotOurBucketError, own_bucket
from mediamill.storage.pulse import Pulse
from mediamill.storage.store import queries
from mediamill.storage.sweep import delete_garbage, delete_orphans
from mediamill.storage.wording import BucketAwayError, BucketRefusedError
from tests.conftest import fresh_url, open_database, wait_until
from tests.ports import free_port
from tests.storage.putting import drop, keys, local, put
from tests.storage.s3_server import WEAK_ID, WEAK_SECRET, S3Server

pytestmark = pytest.mark.spec("E23")


@pytest.fixture
def settings(s3_server: S3Server, bucket: str, tmp_path: Path) -> Settings:
    return s3_server.settings(tmp_path / "data", bucket)


@pytest.fixture
def storage(settings: Settings) -> BucketStorage:
    found = storage_of(settings)
    assert isinstance(found, BucketStorage)
    return found


async def test_an_object_that_never_got_a_name_is_deleted_when_it_is_old_and_not_before(
    storage: BucketStorage, database: Database, tmp_path: Path
) -> None:
    await put(storage, database, local(tmp_path, b"named"), "a/named")
    await put(storage, database, local(tmp_path, b"dropped"), "a/dropped")
    await drop(storage, database, "a/dropped")
    await storage.send(local(tmp_path, b"its sender died"))
    assert len(await keys(storage)) == 3
    assert await delete_orphans(database, storage) == 0, "it may be named yet"
    assert await delete_orphans(database, storage, older_than_seconds=-60) == 1
    assert len(await keys(storage)) == 2, "what is named, or waits in the garbage, stays"


async def test_whoever_names_an_object_too_late_is_told_to_put_it_again(
    storage: BucketStorage, database: Database, tmp_path: Path
) -> None:
    sent = await storage.send(local(tmp_path, b"slow"))
    late = replace(sent, at_seconds=sent.at_seconds - bucket_file.LATE_SECONDS - 1)
    assert bucket_file.LATE_SECONDS < bucket_file.ORPHAN_SECONDS
    with pytest.raises(SentLongAgoError):
        async with database.transaction() as connection:
            await storage.give_name(connection, late, "a/b")


async def test_objects_of_dropped_files_stay_for_some_days_and_then_go(
    storage: BucketStorage, database: Database, tmp_path: Path
) -> None:
    await put(storage, database, local(tmp_path, b"one"), "a/one")
    await put(storage, database, local(tmp_path, b"two"), "a/two")
    async with database.transaction() as connection:
        await storage.link_files(connection, "a", "b", ["two"])
    await drop(storage, database, "a")
    assert await delete_garbage(database, storage, 60) == 0
    assert len(await keys(storage)) == 2
    assert await delete_garbage(database, storage, -60) == 1, "the other has a second name"
    assert await storage.open(database, "a/two") is None
    found = await storage.find(database, "b/two")
    assert found.read_bytes() == b"two"


async def test_a_file_put_by_one_machine_is_found_by_another(
    s3_server: S3Server, bucket: str, database: Database, tmp_path: Path
) -> None:
    here, there = (storage_of(s3_server.settings(tmp_path / name, bucket)) for name in ("here", "there"))
    assert isinstance(here, BucketStorage)
    await put(here, database, local(tmp_path, b"shared"), "videos/1/source")
    path = await there.find(database, "videos/1/source")
    assert path.read_bytes() == b"shared"
    assert path.is_relative_to(tmp_path / "there")
    assert not list((tmp_path / "here").glob("videos")), "nothing of it lasts in a data folder"


async def test_a_copy_that_broke_off_goes_on_with_the_next_piece(
    storage: BucketStorage, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join(bytes([number]) * PIECE_BYTES for number in range(3))
    await put(storage, database, local(tmp_path, data), "videos/1/source")
    read, asked = Objects.read, []

    async def break_off(objects: Objects, key: str, first: int, length: int) -> bytes:
        asked.append(key)
        if len(set(asked)) == 3:
            raise BucketAwayError
        return await read(objects, key, first, length)

    monkeypatch.setattr(Objects, "read", break_off)
    with pytest.raises(BucketAwayError):
        await storage.find(database, "videos/1/source")
    first = set(asked)
    asked.clear()

    async def note(objects: Objects, key: str, first: int, length: int) -> bytes:
        asked.append(key)
        return await read(objects, key, first, length)

    monkeypatch.setattr(Objects, "read", note)
    assert (await storage.find(database, "videos/1/source")).read_bytes() == data
    assert len(set(asked)) == 1, "the two that were there are not fetched again"
    assert set(asked) <= first


async def test_a_damaged_object_is_noticed(
    storage: BucketStorage, database: Database, tmp_path: Path
) -> None:
    await put(storage, database, local(tmp_path, b"right"), "a/b")
    [key] = await keys(storage)
    await storage.objects.put(key, b"wrong")
    with pytest.raises(DamagedObjectError):
        await storage.find(database, "a/b")


async def test_an_object_that_somebody_deleted_is_missed(
    storage: BucketStorage, database: Database, tmp_path: Path
) -> None:
    await put(storage, database, local(tmp_path, b"x"), "a/b")
    await storage.objects.delete(list(await keys(storage)))
    with pytest.raises(StoredMissingError):
        await storage.find(database, "a/b")


async def test_two_who_want_the_same_file_fetch_it_once(
    storage: BucketStorage, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(storage, database, local(tmp_path, b"wanted"), "a/b")
    read, asked = Objects.read, []

    async def note(objects: Objects, key: str, first: int, length: int) -> bytes:
        asked.append(key)
        return await read(objects, key, first, length)

    monkeypatch.setattr(Objects, "read", note)
    paths = await asyncio.gather(*(storage.find(database, "a/b") for _ in range(5)))
    assert len(set(paths)) == 1
    assert len(asked) == 1


FAULTS: dict[str, tuple[dict[str, Any], type[Exception], str, str]] = {
    "wrong secret": ({"bucket_secret": SecretStr("no")}, BucketRefusedError, "secret does not fit", "SECRET"),
    "unknown key": ({"bucket_key_id": "nobody"}, BucketRefusedError, "key id is not known", "KEY_ID"),
    "no such bucket": ({"bucket": "mill-nowhere"}, BucketRefusedError, "no such bucket", "MEDIAMILL_BUCKET"),
    "a key that may only read": (
        {"bucket_key_id": WEAK_ID, "bucket_secret": SecretStr(WEAK_SECRET)},
        BucketRefusedError,
        "may not do that",
        "policy",
    ),
    "nobody there": ({"bucket_url": "nowhere"}, BucketAwayError, "does not answer", "MEDIAMILL_BUCKET_URL"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_what_is_wrong_with_a_bucket_is_said_with_what_to_mend(
    settings: Settings, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mediamill.storage.objects.INSIST_SECONDS", 1)
    monkeypatch.setattr("mediamill.storage.objects.MOST_TRIES", 1)
    change, family, why, fix = FAULTS[fault]
    if change.get("bucket_url") == "nowhere":
        change = {"bucket_url": f"http://127.0.0.1:{free_port()}"}
    with pytest.raises(family) as caught:
        await examine_bucket(settings.model_copy(update=change), None)
    error = caught.value
    assert isinstance(error, BucketRefusedError | BucketAwayError)
    assert why in error.message
    assert fix in str(error.fix)
    assert "secret" not in repr(error).replace("the secret does not fit", "")


async def test_a_bucket_that_does_all_that_is_needed_is_left_as_it_was(
    settings: Settings, storage: BucketStorage, database: Database
) -> None:
    facts = await examine_bucket(settings, database)
    assert (facts["bucket"], facts["files"], facts["bytes"]) == (settings.bucket, 0, 0)
    assert [one async for some in storage.objects.list("mediamill-check") for one in some] == []


async def test_a_pulse_tells_whether_the_bucket_answers(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse_file, "WAIT_SECONDS", 60)  # however slow this machine is
    assert await Pulse(storage_of(Settings(data=tmp_path))).facts() is None
    told = await Pulse(storage_of(settings)).facts()
    assert told == {"name": settings.bucket, "state": "ok"}
    refused = settings.model_copy(update={"bucket_secret": SecretStr("no")})
    told = await Pulse(storage_of(refused)).facts()
    assert told is not None
    assert told["state"] == "away"


def test_a_secret_is_not_told_by_the_place_of_a_bucket(settings: Settings) -> None:
    assert settings.bucket_secret is not None
    assert settings.bucket_secret.get_secret_value() not in repr(BucketPlace.of(settings))


def test_every_key_is_new_and_lies_in_a_shard() -> None:
    made = [new_key() for _ in range(100)]
    assert len(set(made)) == 100
    assert all(key.split("/")[1].startswith(key.split("/")[0]) for key in made)


def test_what_was_not_used_for_longest_is_evicted_and_nothing_in_use(storage: BucketStorage) -> None:
    folder = storage.cache.folder
    folder.mkdir(parents=True)
    now = time.time()
    for name, hours in (("old", 9), ("older", 10), ("used", 1)):
        (folder / name).write_bytes(b"x" * 100)
        os.utime(folder / name, (now, now - hours * 3600))
    storage.cache.most_bytes = 200
    assert storage.cache.evict() == 1
    assert sorted(path.name for path in folder.iterdir()) == ["old", "used"]
    storage.cache.most_bytes = 0
    assert storage.cache.evict() == 1
    assert [path.name for path in folder.iterdir()] == ["used"]


async def test_only_the_database_that_owns_a_bucket_deletes_there(
    storage: BucketStorage, database: Database
) -> None:
    assert not await own_bucket(database, storage), "who has just claimed it waits with deleting"
    assert await own_bucket(database, storage), "still ours"
    await storage.objects.put("mediamill-owner", b"another database")
    with pytest.raises(NotOurBucketError) as caught:
        await own_bucket(database, storage)
    assert "another database" in caught.value.message
    assert "mediamill-owner" in str(caught.value.fix)


class MetObjects(Objects):
    """Those of one of two who both find nothing there before either of them goes on."""

    def __init__(self, place: BucketPlace, meeting: asyncio.Barrier) -> None:
        super().__init__(place)
        self._meeting = meeting

    async def read(self, key: str, first: int, length: int) -> bytes:
        try:
            return await super().read(key, first, length)
        except StoredMissingError:
            await self._meeting.wait()
            raise


async def test_of_two_databases_that_claim_a_bucket_at_once_one_gets_it(
    storage: BucketStorage, database: Database, server_url: str, template_url: str
) -> None:
    meeting = asyncio.Barrier(2)
    both = [replace(storage, objects=MetObjects(storage.objects.place, meeting)) for _ in range(2)]
    async with fresh_url(server_url) as url, open_database(url) as other:
        claims = [own_bucket(*each) for each in zip((database, other), both, strict=True)]
        outcomes = await asyncio.gather(*claims, return_exceptions=True)
    assert [each for each in outcomes if not isinstance(each, BaseException)] == [False]
    [refused] = [each for each in outcomes if isinstance(each, BaseException)]
    assert isinstance(refused, NotOurBucketError)


@pytest.mark.parametrize("answer", [501, 200])
async def test_a_bucket_that_cannot_decide_is_owned_by_the_last_who_claimed_it(
    storage: BucketStorage, database: Database, answer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses the condition, or takes no notice of it."""
    monkeypatch.setattr(objects_file, "MOST_TRIES", 0)
    with simple_bucket(answer) as url:
        place = replace(storage.objects.place, url=url)
        simple = replace(storage, objects=Objects(place))
        assert not await own_bucket(database, simple)
        await Objects(place).put_new("mediamill-owner", b"another database")
        with pytest.raises(NotOurBucketError):
            await own_bucket(database, simple)


@contextmanager
def simple_bucket(answer: int) -> Iterator[str]:
    """The address of one that keeps objects, and answers a condition in this way."""
    kept: dict[str, bytes] = {}

    class Bucket(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            if answer != 200 and "If-None-Match" in self.headers:
                return self._say(answer, b"<Error><Code>NotImplemented</Code></Error>")
            kept[self.path] = data
            return self._say(200)

        def do_GET(self) -> None:
            data = kept.get(self.path)
            if data is None:
                self._say(404, b"<Error><Code>NoSuchKey</Code></Error>")
            else:
                self._say(206, data)

        def _say(self, status: int, data: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("ETag", '"x"')
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            if status == 206:
                self.send_header("Content-Range", f"bytes 0-{len(data) - 1}/{len(data)}")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.spec("E33")
def test_check_tells_of_the_bucket_and_of_files_that_are_not_in_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.bucket_secret is not None
    given = {name: getattr(settings, name) for name in ("bucket", "bucket_url", "bucket_key_id", "data")}
    for name, value in {**given, "bucket_secret": settings.bucket_secret.get_secret_value()}.items():
        monkeypatch.setenv(f"MEDIAMILL_{name.upper()}", str(value))
    [finding] = asyncio.run(find_bucket_faults(Settings()))
    assert (finding.status, finding.about) == ("ok", "bucket")
    (settings.data / "videos" / "1").mkdir(parents=True)
    (settings.data / "videos" / "1" / "source").write_bytes(b"x")
    [_, left] = asyncio.run(find_bucket_faults(Settings()))
    assert left.status == "fault"
    assert "videos" in left.message
    monkeypatch.setenv("MEDIAMILL_BUCKET_SECRET", "no")
    [refused] = asyncio.run(find_bucket_faults(Settings()))
    assert (refused.status, "secret does not fit" in refused.message) == ("fault", True)


async def test_objects_stay_for_some_days_after_their_last_name_and_not_their_first(
    storage: BucketStorage, database: Database, tmp_path: Path
) -> None:
    await put(storage, database, local(tmp_path, b"twice"), "a/file")
    async with database.transaction() as connection:
        await storage.link_files(connection, "a", "b", ["file"])
    await drop(storage, database, "a")
    async with database.connection() as connection:
        await connection.execute("update stored_garbage set at = at - interval '8 days'")
    await drop(storage, database, "b")
    assert await delete_garbage(database, storage, 7 * 86_400) == 0, "a restored database would miss it"
    assert len(await keys(storage)) == 1


async def test_a_name_that_goes_while_the_garbage_is_looked_at_leaves_its_object_there(
    storage: BucketStorage, database: Database, tmp_path: Path
) -> None:
    """The sweep finds a name, and forgets the object; the name goes before it has forgotten."""
    await put(storage, database, local(tmp_path, b"twice"), "a/file")
    async with database.transaction() as connection:
        await storage.link_files(connection, "a", "b", ["file"])
    await drop(storage, database, "a")
    async with database.transaction() as sweeping:
        assert await queries.old_garbage.rows(sweeping, older_than_seconds=-60.0, batch=10) == []
        dropping = asyncio.create_task(drop(storage, database, "b"))
        await wait_until(lambda: _waits_or_is_done(database, dropping))
    await dropping
    async with database.connection() as connection:
        assert await connection.fetchval("select count(*) from stored_garbage") == 1


async def _waits_or_is_done(database: Database, task: asyncio.Task[None]) -> bool:
    async with database.connection() as connection:
        waiting = await connection.fetchval("select count(*) from pg_locks where not granted")
    return task.done() or waiting > 0


async def test_a_copy_that_a_loss_of_power_left_with_other_bytes_is_not_taken(
    storage: BucketStorage, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_file, "PIECE_BYTES", 1000)
    data = bytes(range(250)) * 10
    await put(storage, database, local(tmp_path, data), "videos/1/source")
    whole = await storage.find(database, "videos/1/source")
    whole.write_bytes(b"")  # it had its name, and nothing of it was on the disk
    assert (await storage.find(database, "videos/1/source")).read_bytes() == data
    whole.unlink()
    whole.with_name(whole.name + ".part").write_bytes(bytes(2000))  # two pieces, of nothing but zeros
    assert (await storage.find(database, "videos/1/source")).read_bytes() == data


async def test_files_that_are_gathered_again_are_those_that_have_the_names_now(
    storage: BucketStorage, database: Database, tmp_path: Path
) -> None:
    await put(storage, database, local(tmp_path, b"first"), "a/b/file")
    assert ((await storage.find_folder(database, "a/b", ["file"])) / "file").read_bytes() == b"first"
    await put(storage, database, local(tmp_path, b"second"), "a/b/file")
    assert ((await storage.find_folder(database, "a/b", ["file"])) / "file").read_bytes() == b"second"
    await drop(storage, database, "a/b/file")
    assert not ((await storage.find_folder(database, "a/b", ["file"])) / "file").exists()


async def test_two_folders_whose_names_look_alike_are_gathered_apart(
    storage: BucketStorage, database: Database, tmp_path: Path
) -> None:
    await put(storage, database, local(tmp_path, b"one"), "a/b-c/file")
    await put(storage, database, local(tmp_path, b"two"), "a/b/c/file")
    one, two = [await storage.find_folder(database, name, ["file"]) for name in ("a/b-c", "a/b/c")]
    assert ((one / "file").read_bytes(), (two / "file").read_bytes()) == (b"one", b"two")


async def test_whoever_is_cut_off_while_a_copy_is_written_leaves_no_thread_that_writes_to_another_file(
    storage: BucketStorage, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(storage, database, local(tmp_path, b"a film"), "videos/1/source")
    write, writes, may_go_on = cache_file._write, threading.Event(), threading.Event()

    def write_to_a_slow_disk(descriptor: int, at: int, data: bytes) -> None:
        writes.set()
        assert may_go_on.wait(60)
        with suppress(OSError):
            write(descriptor, at, data)

    monkeypatch.setattr(cache_file, "_write", write_to_a_slow_disk)
    fetching = asyncio.create_task(storage.find(database, "videos/1/source"))
    await asyncio.to_thread(writes.wait, 60)
    fetching.cancel()
    for _ in range(10):  # it ends now, or waits for the disk
        await asyncio.sleep(0)
    others = [os.open(tmp_path / f"other-{number}", os.O_WRONLY | os.O_CREAT) for number in range(20)]
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    await asyncio.get_running_loop().shutdown_default_executor()
    sizes = [os.fstat(descriptor).st_size for descriptor in others]
    for descriptor in others:
        os.close(descriptor)
    assert sizes == [0] * 20
