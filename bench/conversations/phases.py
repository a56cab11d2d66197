"""The measurements. Each prints nothing and returns its figures."""

from __future__ import annotations

import asyncio
import time
from statistics import median, quantiles
from typing import Any

import psutil

from bench.conversations.ground import Ground


async def measure_delay(ground: Ground, texts: int) -> dict[str, Any]:
    """How long a text takes from the door to its callback: alone, and behind a video that takes a minute."""
    [alone, behind] = await ground.run_bots(2)
    for _ in range(10):  # warm: connections, plans
        await ground.say(alone, "warm")
        await ground.say(behind, "warm")
    guids = [ground.stage(100_000) for _ in range(8)]
    for guid in guids:
        await ground.send_media(behind, guid, "video/mp4")
    spent: dict[str, list[float]] = {alone: [], behind: []}
    for number in range(texts):
        for bot_id, times in spent.items():  # in turns: other load of the machine hits both
            began = time.monotonic()
            message = await ground.say(bot_id, f"text {number}")
            times.append(ground.finished[bot_id, message.id] - began)
    return {
        "texts": texts,
        "alone_ms": _spread(spent[alone]),
        "behind_video_ms": _spread(spent[behind]),
        "added_p50_ms": round(1000 * (median(spent[behind]) - median(spent[alone])), 3),
        "videos_still_processing": sum(1 for _ in ground.queues(behind).placeholders()),
    }


async def measure_burst(ground: Ground, bots: int, each: int, size_bytes: int) -> dict[str, Any]:
    """Media messages all at once, the same number for every bot; worked on when all are there."""
    names = await ground.run_bots(bots)
    work = [(name, ground.stage(size_bytes)) for _ in range(each) for name in names]
    me = psutil.Process()
    before, peak = me.memory_info().rss, [0]
    watching = asyncio.create_task(_watch(me, peak))
    await ground.hold(names, on=True)
    began = time.monotonic()
    messages = await asyncio.gather(*(ground.send_media(name, guid) for name, guid in work))
    accepted = time.monotonic() - began
    await ground.hold(names, on=False)
    keys = [(name, message.id) for (name, _), message in zip(work, messages, strict=True)]
    await ground.until(lambda: _all_finished(ground, keys))
    took = time.monotonic() - began - accepted
    watching.cancel()
    order = sorted(keys, key=lambda key: ground.finished[key])
    counts = [sum(name == bot_id for bot_id, _ in order[: len(order) // 2]) for name in names]
    return {
        "messages": len(work),
        "bots": bots,
        "file_bytes": size_bytes,
        "accepted_s": round(accepted, 2),
        "finished_s": round(took, 2),
        "memory_before_mb": round(before / 1e6, 1),
        "memory_added_at_peak_mb": round((peak[0] - before) / 1e6, 1),
        "done_at_half_time_per_bot": {"least": min(counts), "most": max(counts), "even": each / 2},
        "jain_index_at_half_time": round(sum(counts) ** 2 / (len(counts) * sum(c * c for c in counts)), 4),
    }


async def measure_noisy(ground: Ground, quiet_bots: int, each: int, noise: int) -> dict[str, Any]:
    """One bot with a great deal in line first; how long do the others wait?"""
    names = await ground.run_bots(quiet_bots + 1)
    noisy, quiet = names[0], names[1:]
    files = [(noisy, ground.stage(10_000)) for _ in range(noise)]
    late = [(name, ground.stage(10_000)) for _ in range(each) for name in quiet]
    await ground.hold(names, on=True)
    sent = await asyncio.gather(*(ground.send_media(name, guid) for name, guid in files))
    sent += await asyncio.gather(*(ground.send_media(name, guid) for name, guid in late))
    await ground.hold(names, on=False)
    keys = [(name, message.id) for (name, _), message in zip(files + late, sent, strict=True)]
    await ground.until(lambda: _all_finished(ground, keys))
    order = sorted(keys, key=lambda key: ground.finished[key])
    last_quiet = max(place for place, (name, _) in enumerate(order, 1) if name != noisy)
    before = sum(name == noisy for name, _ in order[:last_quiet])
    return {
        "noisy_messages": noise,
        "quiet_messages": len(late),
        "quiet_bots": quiet_bots,
        "noisy_done_before_the_last_quiet_one": before,
        "turns_would_be": each,
        "first_come_first_served_would_be": noise,
    }


async def measure_waiting(ground: Ground, counts: list[int]) -> dict[str, Any]:
    """Memory of placeholders that wait: what one costs."""
    [name] = await ground.run_bots(1)
    me, waiting, rows = psutil.Process(), 0, []
    for count in counts:
        while waiting < count:
            batch = min(500, count - waiting)
            await asyncio.gather(
                *(ground.send_media(name, f"never-{waiting + n}", "video/mp4") for n in range(batch))
            )
            waiting += batch
        rows.append({"waiting": waiting, "memory_mb": round(me.memory_info().rss / 1e6, 1)})
    added = (rows[-1]["memory_mb"] - rows[0]["memory_mb"]) * 1e6 / (rows[-1]["waiting"] - rows[0]["waiting"])
    return {"steps": rows, "bytes_each": round(added)}


async def _all_finished(ground: Ground, keys: list[tuple[str, int]]) -> bool:
    return all(key in ground.finished for key in keys)


async def _watch(process: psutil.Process, peak: list[int]) -> None:
    while True:
        peak[0] = max(peak[0], process.memory_info().rss)
        await asyncio.sleep(0.02)


def _spread(seconds: list[float]) -> dict[str, float]:
    cuts = quantiles(seconds, n=100)
    return {"p50": round(1000 * median(seconds), 3), "p99": round(1000 * cuts[98], 3)}
