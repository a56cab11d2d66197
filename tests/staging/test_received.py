"""Files that come by HTTP: whoever sends one goes away in the middle, and nobody else's file is touched."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from mediamill.staging.received import receive

LONG = bytes(100 << 20)  # long enough to be hashed and written for a while


async def test_a_sender_that_is_cut_off_within_a_chunk_leaves_no_thread_that_writes_to_another_file(
    tmp_path: Path,
) -> None:
    part, sent = tmp_path / "part", asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        sent.set()
        yield LONG

    async def take() -> None:
        async with receive(part, chunks(), limit_bytes=1 << 40):
            pass

    taking = asyncio.create_task(take())
    await sent.wait()
    await asyncio.sleep(0)  # the thread has begun
    taking.cancel()
    with suppress(asyncio.CancelledError):
        await taking
    others = [os.open(tmp_path / f"other-{number}", os.O_WRONLY | os.O_CREAT, 0o600) for number in range(20)]
    await asyncio.get_running_loop().shutdown_default_executor()  # whatever was at work is done
    sizes = [os.fstat(descriptor).st_size for descriptor in others]
    for descriptor in others:
        os.close(descriptor)
    assert sizes == [0] * 20
    assert not part.exists()
