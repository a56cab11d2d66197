from __future__ import annotations

import asyncio

from mediamill.api.inbox import StoringRoom


async def test_as_many_bytes_are_stored_at_once_as_there_is_room_for_in_order_of_arrival() -> None:
    room, stored, most = StoringRoom(10), [], 0
    taken = 0

    async def store(name: str, size: int) -> None:
        nonlocal taken, most
        async with room.take(size):
            stored.append(name)
            taken += size
            most = max(most, taken)
            await asyncio.sleep(0)
            taken -= size

    sizes = {"a": 4, "b": 6, "large": 10, "c": 1, "d": 1, "last": 10}
    tasks = [asyncio.create_task(store(name, size)) for name, size in sizes.items()]
    async with asyncio.timeout(30):
        await asyncio.gather(*tasks)
    assert stored == list(sizes)
    assert most == 10


async def test_somebody_who_stops_waiting_keeps_nobody_else_waiting() -> None:
    room = StoringRoom(10)
    async with room.take(10):
        waiting = [asyncio.create_task(_take(room)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        waiting[1].cancel()
        await asyncio.wait(waiting[:2])
    async with asyncio.timeout(30):
        await waiting[2]


async def _take(room: StoringRoom) -> None:
    async with room.take(10):
        pass
