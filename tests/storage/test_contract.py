"""What every storage does, for both that there are: the data folder, and a bucket on a real S3 server."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

from mediamill.db.connection import Database
from mediamill.settings import Settings
from mediamill.storage.bucket import PIECE_BYTES
from mediamill.storage.choose import storage_of
from mediamill.storage.contract import Storage, StoredMissingError
from tests.conftest import wait_until
from tests.storage.s3_server import S3Server

pytestmark = pytest.mark.spec("E23")


class UndoneError(Exception):
    pass


class Ground:
    """A storage, and a folder in which local files are made."""

    def __init__(self, storage: Storage, database: Database, scratch: Path) -> None:
        self.storage, self.database, self.scratch = storage, database, scratch

    def make(self, data: bytes) -> Path:
        self.scratch.mkdir(parents=True, exist_ok=True)
        path = self.scratch / hashlib.sha256(data).hexdigest()[:20]
        path.write_bytes(data)
        return path

    async def put(self, **files: bytes) -> None:
        for name, data in files.items():
            sent = await self.storage.send(self.make(data))
            async with self.database.transaction() as connection:
                await self.storage.give_name(connection, sent, name.replace("__", "/"))

    async def read(self, name: str, first: int = 0, length: int | None = None) -> bytes | None:
        opened = await self.storage.open(self.database, name)
        if opened is None:
            return None
        try:
            amount = opened.length - first if length is None else length
            return b"".join([chunk async for chunk in opened.chunks(first, amount)])
        finally:
            opened.close()

    async def sizes(self, folder: str) -> dict[str, int]:
        async with self.database.connection() as connection:
            return await self.storage.sizes(connection, folder)


@pytest.fixture(params=["folder", "bucket"])
def ground(request: pytest.FixtureRequest, database: Database, tmp_path: Path) -> Ground:
    settings = Settings(data=tmp_path / "data")
    if request.param == "bucket":
        server: S3Server = request.getfixturevalue("s3_server")
        settings = server.settings(tmp_path / "data", request.getfixturevalue("bucket"))
    return Ground(storage_of(settings), database, tmp_path / "data" / "scratch")


async def test_a_file_that_has_a_name_is_read_whole_and_by_range(ground: Ground) -> None:
    data = random.Random(1).randbytes(PIECE_BYTES + 5_000_001)  # more than one piece of a bucket
    await ground.put(videos__1__source=data)
    assert await ground.read("videos/1/source") == data
    for first, length in ((0, 1), (PIECE_BYTES - 3, 7), (len(data) - 5, 5), (PIECE_BYTES, 5_000_001)):
        assert await ground.read("videos/1/source", first, length) == data[first : first + length]
    found = await ground.storage.find(ground.database, "videos/1/source")
    assert found.read_bytes() == data


async def test_what_is_not_there_is_not_found(ground: Ground) -> None:
    assert await ground.read("videos/1/source") is None
    with pytest.raises((StoredMissingError, FileNotFoundError)):
        (await ground.storage.find(ground.database, "videos/1/source")).read_bytes()
    assert await ground.sizes("videos/1") == {}


async def test_an_empty_file_is_a_file(ground: Ground) -> None:
    await ground.put(kept__001__1__empty=b"")
    assert await ground.read("kept/001/1/empty") == b""
    assert await ground.sizes("kept/001/1") == {"empty": 0}


async def test_a_file_without_a_name_is_seen_by_nobody(ground: Ground) -> None:
    await ground.storage.send(ground.make(b"not yet"))
    assert await ground.sizes("kept/001/1") == {}


async def test_a_name_that_is_given_again_is_that_of_the_new_file(ground: Ground) -> None:
    await ground.put(kept__001__1__a=b"old and longer")
    await ground.put(kept__001__1__a=b"new")
    assert await ground.read("kept/001/1/a") == b"new"
    assert await ground.sizes("kept/001/1") == {"a": 3}


async def test_a_folder_moves_at_once_and_only_what_is_known_comes_along(ground: Ground) -> None:
    await ground.put(
        kept__001__1__a=b"a", kept__001__1__b=b"bb", kept__001__1__odd=b"?", kept__001__10__a=b"x"
    )
    await ground.put(videos__7__1__left=b"left by an attempt that was cut off")
    async with ground.database.transaction() as connection:
        await ground.storage.move_folder(connection, "kept/001/1", "videos/7/1", {"a", "b"})
    assert await ground.sizes("videos/7/1") == {"a": 1, "b": 2}
    assert await ground.sizes("kept/001/1") == {}
    assert await ground.sizes("kept/001/10") == {"a": 1}, "a neighbour whose name begins alike stays"
    assert await ground.read("videos/7/1/b") == b"bb"


async def test_a_move_whose_transaction_was_cut_off_is_undone(ground: Ground) -> None:
    await ground.put(kept__001__1__a=b"a")
    with pytest.raises(UndoneError):  # noqa: PT012
        async with ground.database.transaction() as connection:
            await ground.storage.move_folder(connection, "kept/001/1", "videos/7/1", {"a"})
            raise UndoneError
    await ground.storage.bring_back("kept/001/1", "videos/7/1")
    assert await ground.sizes("kept/001/1") == {"a": 1}
    assert await ground.sizes("videos/7/1") == {}


async def test_a_file_can_have_a_second_name_and_lose_the_first(ground: Ground) -> None:
    await ground.put(videos__7__1__a=b"same bytes", videos__7__1__b=b"other")
    for _ in range(2):  # can be done again
        async with ground.database.transaction() as connection:
            await ground.storage.link_files(connection, "videos/7/1", "kept/002/2", ["a"])
    async with ground.database.transaction() as connection:
        await ground.storage.drop(connection, "videos/7/1")
    await wait_until(lambda: _is_empty(ground, "videos/7/1"))
    assert await ground.sizes("kept/002/2") == {"a": 10}
    assert await ground.read("kept/002/2/a") == b"same bytes"


async def test_what_is_dropped_goes_with_the_transaction_and_not_without(ground: Ground) -> None:
    await ground.put(a__one=b"1", a__two__three=b"3", b__file=b"b", b__file2=b"c")
    with pytest.raises(UndoneError):  # noqa: PT012
        async with ground.database.transaction() as connection:
            await ground.storage.drop(connection, "a", "b/file")
            raise UndoneError
    assert await ground.read("a/two/three") == b"3"
    async with ground.database.transaction() as connection:
        await ground.storage.drop(connection, "a", "b/file")
    await wait_until(lambda: _is_empty(ground, "a/two"))
    await wait_until(lambda: _is_gone(ground, "b/file"))
    assert await ground.read("b/file2") == b"c"


async def test_many_files_get_their_names(ground: Ground) -> None:
    files = {f"derivatives/001/1-1/{number}.txt": ground.make(b"%d" % number) for number in range(5)}
    await ground.storage.put_all(ground.database, files)
    assert await ground.sizes("derivatives/001/1-1") == {f"{number}.txt": 1 for number in range(5)}
    assert not any(path.exists() for path in files.values())


async def test_folders_in_which_nothing_changed_are_found(ground: Ground) -> None:
    await ground.put(kept__001__1__a=b"a", kept__002__2__b=b"b", derivatives__001__1__c=b"c")
    found = [name async for some in ground.storage.old_folders(ground.database, "kept", -60) for name in some]
    assert sorted(found) == ["kept/001/1", "kept/002/2"]
    found = [name async for some in ground.storage.old_folders(ground.database, "kept", 60) for name in some]
    assert found == []


async def test_a_link_is_not_taken_for_a_file(ground: Ground, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    link = ground.make(b"").with_name("link")
    link.symlink_to(tmp_path / "secret")
    with pytest.raises(OSError):  # noqa: PT012 - one of them refuses it
        sent = await ground.storage.send(link)
        async with ground.database.transaction() as connection:
            await ground.storage.give_name(connection, sent, "a/b")
    assert await ground.read("a/b") is None


async def test_folder_is_moved_and_not_copied(tmp_path: Path, database: Database) -> None:
    ground = Ground(storage_of(Settings(data=tmp_path)), database, tmp_path / "scratch")
    path = ground.make(b"large")
    inode = path.stat().st_ino
    sent = await ground.storage.send(path)
    async with database.transaction() as connection:
        await ground.storage.give_name(connection, sent, "videos/1/source")
    assert (tmp_path / "videos/1/source").stat().st_ino == inode


async def _is_empty(ground: Ground, folder: str) -> bool:
    return not await ground.sizes(folder)


async def _is_gone(ground: Ground, name: str) -> bool:
    return await ground.read(name) is None
