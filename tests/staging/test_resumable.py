"""The part file: whatever ends a writer, what is there is a beginning of what was sent."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mediamill.staging import resumable
from mediamill.staging.append import append
from mediamill.staging.quota import StorageFullError
from mediamill.staging.resumable import (
    BeyondLengthError,
    ChecksumMismatchError,
    DiskFailedError,
    OddPartError,
    OffsetMismatchError,
    PartMissingError,
    UploadLockedError,
    create_part,
    hold_part,
    part_facts,
    part_path,
)
from tests.conftest import wait_until

MEGABYTE = 1 << 20


async def chunks(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def broken(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
    raise ConnectionResetError("the sender has gone")


def content(folder: Path, upload_id: UUID) -> bytes:
    return part_path(folder, upload_id).read_bytes()


def size(folder: Path, upload_id: UUID) -> int | None:
    facts = part_facts(folder, upload_id)
    return None if facts is None else facts.size


@pytest.fixture
async def part_id(tmp_path: Path) -> UUID:
    upload_id = uuid4()
    await create_part(tmp_path, upload_id)
    return upload_id


async def send(folder: Path, upload_id: UUID, source: AsyncIterator[Any], offset: int, **more: Any) -> int:
    with hold_part(folder, upload_id) as part:
        return await append(part, source, offset=offset, **{"length": 100 * MEGABYTE, **more})


@pytest.mark.spec("V1")
async def test_chunks_gather_behind_each_other(tmp_path: Path, part_id: UUID) -> None:
    assert await send(tmp_path, part_id, chunks(b"a" * 700_000, b"", b"b" * 700_000), 0) == 1_400_000
    assert await send(tmp_path, part_id, chunks(b"c"), 1_400_000) == 1_400_001
    assert content(tmp_path, part_id) == b"a" * 700_000 + b"b" * 700_000 + b"c"
    assert part_path(tmp_path, part_id).stat().st_mode & 0o777 == 0o600
    assert part_path(tmp_path, part_id).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.spec("V1")
async def test_a_sender_who_breaks_off_leaves_every_byte_that_came(tmp_path: Path, part_id: UUID) -> None:
    with pytest.raises(ConnectionResetError):
        await send(tmp_path, part_id, broken(b"a" * 1_500_000, b"bc"), 0)
    assert content(tmp_path, part_id) == b"a" * 1_500_000 + b"bc"
    await send(tmp_path, part_id, chunks(b"d"), 1_500_002)
    assert content(tmp_path, part_id)[-3:] == b"bcd"


async def test_a_writer_that_is_cancelled_leaves_what_came_and_lets_go(tmp_path: Path, part_id: UUID) -> None:
    waiting = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"x" * 2_500_000
        waiting.set()
        await asyncio.Event().wait()

    writer = asyncio.create_task(send(tmp_path, part_id, endless(), 0))
    await waiting.wait()
    writer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writer
    assert size(tmp_path, part_id) == 2_500_000
    assert await send(tmp_path, part_id, chunks(b"y"), 2_500_000) == 2_500_001


@pytest.mark.parametrize("offset", [0, 4, 6])
async def test_a_chunk_that_begins_elsewhere_changes_nothing(
    tmp_path: Path, part_id: UUID, offset: int
) -> None:
    await send(tmp_path, part_id, chunks(b"12345"), 0)
    with pytest.raises(OffsetMismatchError, match="has 5 bytes"):
        await send(tmp_path, part_id, chunks(b"x"), offset)
    assert content(tmp_path, part_id) == b"12345"


async def test_more_than_was_announced_is_cut_off(tmp_path: Path, part_id: UUID) -> None:
    await send(tmp_path, part_id, chunks(b"12345"), 0, length=8)
    with pytest.raises(BeyondLengthError):
        await send(tmp_path, part_id, chunks(b"67", b"89"), 5, length=8)
    assert content(tmp_path, part_id) == b"12345"
    large = 5 * MEGABYTE
    with pytest.raises(BeyondLengthError):
        await send(tmp_path, part_id, chunks(b"x" * large, b"x"), 5, length=5 + large)
    assert content(tmp_path, part_id) == b"12345"


async def test_two_writers_never_write_at_once(tmp_path: Path, part_id: UUID) -> None:
    with hold_part(tmp_path, part_id) as part:
        with pytest.raises(UploadLockedError), hold_part(tmp_path, part_id):
            pass
        program = (
            "import sys; from pathlib import Path; from uuid import UUID\n"
            "from mediamill.staging.resumable import hold_part\n"
            "with hold_part(Path(sys.argv[1]), UUID(sys.argv[2])): pass"
        )
        other = [sys.executable, "-c", program, str(tmp_path), str(part_id)]
        done = await asyncio.to_thread(subprocess.run, other, capture_output=True, text=True, check=False)
        assert "UploadLockedError" in done.stderr
        await append(part, chunks(b"mine"), offset=0, length=10)
    assert (await asyncio.to_thread(subprocess.run, other, check=False)).returncode == 0


async def test_whoever_waited_for_a_part_that_was_moved_or_deleted_does_not_get_it(
    tmp_path: Path, part_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_open = resumable._open

    def open_then(step: Callable[[], object]) -> Callable[[Path], int]:
        def opened(path: Path) -> int:
            descriptor = really_open(path)
            step()
            return descriptor

        return opened

    path = part_path(tmp_path, part_id)
    monkeypatch.setattr(resumable, "_open", open_then(lambda: path.rename(tmp_path / "moved")))
    with pytest.raises(PartMissingError), hold_part(tmp_path, part_id):
        pass
    (tmp_path / "moved").rename(path)
    monkeypatch.setattr(resumable, "_open", open_then(path.unlink))
    with pytest.raises(PartMissingError), hold_part(tmp_path, part_id):
        pass


@pytest.mark.parametrize("kind", ["symlink", "hard link", "fifo", "folder"])
async def test_what_is_no_file_of_ours_is_refused(tmp_path: Path, kind: str) -> None:
    upload_id, elsewhere = uuid4(), tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    path = part_path(tmp_path, upload_id)
    path.parent.mkdir()
    match kind:
        case "symlink":
            path.symlink_to(elsewhere)
        case "hard link":
            path.hardlink_to(elsewhere)
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
    with pytest.raises(OddPartError):
        await send(tmp_path, upload_id, chunks(b"x"), 8)
    with pytest.raises(OddPartError):
        part_facts(tmp_path, upload_id)
    assert elsewhere.read_bytes() == b"precious"


async def test_a_part_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    upload_id = uuid4()
    with pytest.raises(PartMissingError):
        await send(tmp_path, upload_id, chunks(b"x"), 0)
    assert part_facts(tmp_path, upload_id) is None
    await create_part(tmp_path, upload_id)
    with pytest.raises(DiskFailedError):  # never twice
        await create_part(tmp_path, upload_id)


@pytest.mark.spec("V1")
async def test_a_chunk_with_a_wrong_checksum_is_cut_off(tmp_path: Path, part_id: UUID) -> None:
    right, wrong = hashlib.sha256(b"ab" * MEGABYTE).digest(), hashlib.sha256(b"else").digest()
    await send(tmp_path, part_id, chunks(b"first"), 0)
    with pytest.raises(ChecksumMismatchError):
        await send(tmp_path, part_id, chunks(b"ab" * MEGABYTE), 5, checksum=wrong)
    assert content(tmp_path, part_id) == b"first"
    await send(tmp_path, part_id, chunks(b"ab" * MEGABYTE), 5, checksum=right)
    assert size(tmp_path, part_id) == 5 + 2 * MEGABYTE
    assert len(list(part_path(tmp_path, part_id).parent.iterdir())) == 1  # no note is left


async def test_a_chunk_with_a_checksum_that_breaks_off_does_not_count(tmp_path: Path, part_id: UUID) -> None:
    await send(tmp_path, part_id, chunks(b"first"), 0)
    with pytest.raises(ConnectionResetError):
        await send(tmp_path, part_id, broken(b"x" * 3 * MEGABYTE), 5, checksum=b"0" * 32)
    assert content(tmp_path, part_id) == b"first"


async def test_a_chunk_with_a_checksum_whose_writer_was_killed_does_not_count(
    tmp_path: Path, part_id: UUID
) -> None:
    await send(tmp_path, part_id, chunks(b"first"), 0)
    program = (
        "import asyncio, os, signal, sys; from pathlib import Path; from uuid import UUID\n"
        "from mediamill.staging.append import append\n"
        "from mediamill.staging.resumable import hold_part\n"
        "async def chunks():\n"
        "    for _ in range(5): yield b'x' * (1 << 20)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "async def main():\n"
        "    with hold_part(Path(sys.argv[1]), UUID(sys.argv[2])) as part:\n"
        "        await append(part, chunks(), offset=5, length=10**8, checksum=b'0' * 32)\n"
        "asyncio.run(main())"
    )
    doomed = [sys.executable, "-c", program, str(tmp_path), str(part_id)]
    assert (await asyncio.to_thread(subprocess.run, doomed, check=False)).returncode == -9
    assert part_path(tmp_path, part_id).stat().st_size > 5
    assert size(tmp_path, part_id) == 5
    await send(tmp_path, part_id, chunks(b"second"), 5)
    assert content(tmp_path, part_id) == b"firstsecond"
    assert size(tmp_path, part_id) == 11


async def test_a_disk_that_gets_full_keeps_what_it_has(
    tmp_path: Path, part_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, really_write = 0, os.write

    def write(descriptor: int, pieces: Any) -> int:
        nonlocal written
        if written >= 2 * MEGABYTE:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = really_write(
            descriptor, b"".join(pieces)[: 700 * 1024]
        )  # a disk takes what it can, which may be a part
        written += done
        return done

    monkeypatch.setattr(os, "writev", write)
    with pytest.raises(StorageFullError, match="full") as caught:
        await send(tmp_path, part_id, chunks(*(bytes([n]) * MEGABYTE for n in range(9))), 0)
    assert caught.value.fix is not None
    monkeypatch.undo()
    there = content(tmp_path, part_id)
    whole = b"".join(bytes([n]) * MEGABYTE for n in range(9))
    assert 2 * MEGABYTE <= len(there) < len(whole)
    assert whole.startswith(there)
    await send(tmp_path, part_id, chunks(whole[len(there) :]), len(there))
    assert content(tmp_path, part_id) == whole


async def test_what_would_not_fit_is_refused_before_it_comes(tmp_path: Path, part_id: UUID) -> None:
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("it was read")
        yield b""

    with pytest.raises(StorageFullError, match="fit on the disk"):
        await send(tmp_path, part_id, never(), 0, length=1 << 60)


async def test_a_disk_that_fails_is_told_as_such(
    tmp_path: Path, part_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DiskFailedError, match="Input/output error"):
        await send(tmp_path, part_id, chunks(b"x"), 0)


async def test_the_sender_is_read_ahead_by_one_piece_and_no_more(
    tmp_path: Path, part_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, given, really_write = asyncio.Event(), 0, os.writev
    loop, go_on = asyncio.get_running_loop(), asyncio.Event()

    def slow(descriptor: int, pieces: Any) -> int:
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(60)
        return really_write(descriptor, pieces)

    async def source() -> AsyncIterator[bytes]:
        nonlocal given
        for _ in range(20):
            given += MEGABYTE
            yield b"x" * MEGABYTE
            stopped.set()

    monkeypatch.setattr(os, "writev", slow)
    writer = asyncio.create_task(send(tmp_path, part_id, source(), 0))
    await stopped.wait()

    async def asleep() -> bool:
        return given == 2 * MEGABYTE

    await wait_until(asleep)
    for _ in range(50):
        await asyncio.sleep(0)
    assert given == 2 * MEGABYTE
    go_on.set()
    assert await writer == 20 * MEGABYTE


# An inflow: a thread takes it.


class Tap:
    """So many bytes in each turn."""

    def __init__(self, content: bytes, turn: int) -> None:
        self.content, self.turn = content, turn
        self.left, self._of_this_turn = len(content), turn

    def read_into(self, buffer: memoryview) -> int:
        got = min(len(buffer), self._of_this_turn, self.left)
        at = len(self.content) - self.left
        buffer[:got] = self.content[at : at + got]
        self.left -= got
        self._of_this_turn -= got
        return got

    async def turns(self, *before: bytes) -> AsyncIterator[bytes | Tap]:
        for piece in before:
            yield piece
        while self.left:
            self._of_this_turn = self.turn
            yield self


WATER = bytes(range(256)) * 9 * 1024


@pytest.mark.spec("V1")
@pytest.mark.parametrize("turn", [700_000, 1 << 30])
async def test_an_inflow_comes_behind_what_has_gathered(tmp_path: Path, part_id: UUID, turn: int) -> None:
    assert await send(tmp_path, part_id, Tap(WATER, turn).turns(b"first", b"second"), 0) == 11 + len(WATER)
    assert content(tmp_path, part_id) == b"firstsecond" + WATER


@pytest.mark.spec("V1")
async def test_an_inflow_is_held_to_its_checksum(tmp_path: Path, part_id: UUID) -> None:
    with pytest.raises(ChecksumMismatchError):
        await send(tmp_path, part_id, Tap(WATER, MEGABYTE).turns(b"a"), 0, checksum=b"0" * 32)
    assert content(tmp_path, part_id) == b""
    right = hashlib.sha256(b"a" + WATER).digest()
    await send(tmp_path, part_id, Tap(WATER, MEGABYTE).turns(b"a"), 0, checksum=right)
    assert content(tmp_path, part_id) == b"a" + WATER


async def test_an_inflow_that_is_too_long_is_not_begun(tmp_path: Path, part_id: UUID) -> None:
    tap = Tap(WATER, MEGABYTE)
    with pytest.raises(BeyondLengthError):
        await send(tmp_path, part_id, tap.turns(b"a"), 0, length=len(WATER))
    assert tap.left == len(WATER)
    assert content(tmp_path, part_id) == b""


async def test_an_inflow_that_breaks_off_leaves_every_byte_that_came(tmp_path: Path, part_id: UUID) -> None:
    tap = Tap(WATER, MEGABYTE)

    async def broken_turns() -> AsyncIterator[bytes | Tap]:
        async for turn in tap.turns(b"a"):
            if tap.left <= MEGABYTE:
                raise ConnectionResetError
            yield turn

    with pytest.raises(ConnectionResetError):
        await send(tmp_path, part_id, broken_turns(), 0)
    assert content(tmp_path, part_id) == b"a" + WATER[: -tap.left]


async def test_a_disk_that_gets_full_keeps_what_came_of_an_inflow(
    tmp_path: Path, part_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_write = os.write

    def write(descriptor: int, piece: Any) -> int:
        if size(tmp_path, part_id) == MEGABYTE:
            raise OSError(errno.ENOSPC, "No space left on device")
        return really_write(descriptor, piece[: 1 << 17])  # a disk takes what it can, which may be a part

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(StorageFullError, match="full"):
        await send(tmp_path, part_id, Tap(WATER, 1 << 30).turns(), 0)
    assert content(tmp_path, part_id) == WATER[:MEGABYTE]


async def test_a_writer_that_is_cancelled_waits_for_the_turn_of_its_thread(
    tmp_path: Path, part_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, begun, go_on, really_write = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event(), os.write

    def slow(descriptor: int, piece: Any) -> int:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(60)
        return really_write(descriptor, piece)

    monkeypatch.setattr(os, "write", slow)
    writer = asyncio.create_task(send(tmp_path, part_id, Tap(WATER, MEGABYTE).turns(), 0))
    await begun.wait()
    writer.cancel()
    await asyncio.sleep(0)
    assert not writer.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await writer
    assert content(tmp_path, part_id) == WATER[:MEGABYTE]


class PartMachine(RuleBasedStateMachine):
    """Against plain bytes: chunks come whole, break off, lie about their checksum, or begin in a wrong place."""

    LENGTH = 4000

    def __init__(self) -> None:
        super().__init__()
        self.model = b""

    @initialize()
    def begin(self) -> None:
        import tempfile

        self.holder = tempfile.TemporaryDirectory()
        self.folder, self.part_id = Path(self.holder.name), uuid4()
        asyncio.run(create_part(self.folder, self.part_id))

    @rule(
        pieces=st.lists(st.binary(max_size=700), max_size=4),
        shift=st.sampled_from([0, 0, 0, 0, -1, 1]),
        breaks=st.booleans(),
        checksum=st.sampled_from([None, None, "right", "wrong"]),
    )
    def send(self, pieces: list[bytes], shift: int, breaks: bool, checksum: str | None) -> None:
        whole = b"".join(pieces)
        digest = hashlib.sha256(whole).digest() if checksum == "right" else b"0" * 32
        source, at = (broken if breaks else chunks)(*pieces), max(len(self.model) + shift, 0)
        try:
            asyncio.run(
                send(self.folder, self.part_id, source, at, length=self.LENGTH, checksum=checksum and digest)
            )
            assert at == len(self.model)
            assert not breaks
            assert checksum != "wrong"
            self.model += whole
        except OffsetMismatchError:
            assert at != len(self.model)
        except BeyondLengthError:
            assert len(self.model) + len(whole) > self.LENGTH
        except ChecksumMismatchError:
            assert checksum == "wrong"
        except ConnectionResetError:
            if checksum is None:
                self.model += whole

    @rule(note=st.booleans())
    def kill_the_writer(self, note: bool) -> None:
        """As a crash leaves it: some bytes more, and with a checksum the note of where they began."""
        if len(self.model) == self.LENGTH:
            return
        with hold_part(self.folder, self.part_id) as part, part.path.open("ab") as file:
            file.write(b"!")
        if note:
            part.path.with_name(part.path.name + ".unchecked").write_text(str(len(self.model)))
        else:
            self.model += b"!"

    @invariant()
    def what_is_told_is_there(self) -> None:
        if hasattr(self, "folder"):
            assert size(self.folder, self.part_id) == len(self.model)
            assert content(self.folder, self.part_id).startswith(self.model)

    def teardown(self) -> None:
        if hasattr(self, "holder"):
            self.holder.cleanup()


PartMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=15)
TestPartMachine = PartMachine.TestCase
