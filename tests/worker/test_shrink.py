"""Images made small in child processes: a hostile one costs itself, the others come through."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import pyvips
from PIL import Image

from mediamill.errors import GiveUpError, RetryLaterError
from mediamill.inputs.model import ImageUnreadableError
from mediamill.worker.shrink import LIMITS, MAX_BYTES, Shrinker
from tests.media.making_images import corners, make_png_header
from tests.worker.harness import is_running, wait_until

pytestmark = pytest.mark.spec("I10")

TEN_TOGETHER = 14 * 1024**2


@asynccontextmanager
async def started(data_folder: Path, **more: Any) -> AsyncIterator[Shrinker]:
    shrinker = Shrinker(data_folder, **more)
    await shrinker.start()
    try:
        yield shrinker
    finally:
        await shrinker.close()


@cache
def soft_and_grainy() -> pyvips.Image:
    rng = np.random.default_rng(1)
    soft = pyvips.Image.new_from_array(rng.integers(0, 256, (75, 100, 3), np.uint8)).resize(
        40, kernel="linear"
    )
    grain = pyvips.Image.new_from_array(rng.integers(0, 40, (500, 500), np.uint8)).replicate(8, 6)
    return (soft + grain).cast("uchar").copy(interpretation="srgb").copy_memory()


def make_photo(path: Path, number: int) -> Path:
    """12 megapixels of soft colours and grain, as a telephone makes them."""
    turned = soft_and_grainy().wrap(x=400 * number, y=0)
    turned.jpegsave(str(path), Q=85)
    return path


def make_small(path: Path) -> Path:
    Image.fromarray(corners(200, 100)).save(path, "PNG")
    return path


def make_slow(path: Path) -> Path:
    """Small as a file; inflating it takes far longer than the hundredth of a second that a test gives it."""
    pyvips.Image.black(16_000, 16_000).pngsave(str(path), compression=1)
    return path


def size_of(data: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(data)) as image:
        return image.size


def leftovers(data_folder: Path) -> list[Path]:
    return list((data_folder / "scratch" / "shrink").iterdir())


def children() -> list[int]:
    return [child.pid for child in psutil.Process().children() if is_running(child.pid) and shrinks(child)]


def shrinks(child: psutil.Process) -> bool:
    try:
        return "model-image" in " ".join(child.cmdline())
    except psutil.NoSuchProcess:  # since it was asked whether it runs
        return False


async def test_a_child_that_read_an_image_of_one_owner_reads_none_of_another(tmp_path: Path) -> None:
    photo = make_photo(tmp_path / "photo.jpg", 1)
    async with started(tmp_path) as shrink:
        used = []
        for owner in ("alice", "alice", "bob", "alice"):
            await shrink(photo, "image/jpeg", owner)
            [child] = [child for child in shrink.sandbox._children if child.owner == owner]
            used.append(child.pid)
    alice, again, bob, _ = used
    assert alice == again != bob


async def test_ten_photos_of_12_megapixels_are_less_than_14_mib_and_each_is_its_own(tmp_path: Path) -> None:
    photos = [make_photo(tmp_path / f"{number}.jpg", number) for number in range(10)]
    async with started(tmp_path) as shrink:
        made = await asyncio.gather(*(shrink(photo, "image/jpeg", "alice") for photo in photos))
        alone = await shrink(photos[7], "image/jpeg", "alice")

    assert {(mime_type, size_of(data)) for [(mime_type, data)] in made} == {("image/jpeg", (1568, 1176))}
    assert sum(len(data) for [(_, data)] in made) < TEN_TOGETHER
    assert made[7] == alone
    assert len({data for [(_, data)] in made}) == 10


async def test_even_ten_of_noise_are_less_than_14_mib(tmp_path: Path) -> None:
    path = tmp_path / "noise.png"
    noise = np.random.default_rng(1).integers(0, 256, (1568, 1568, 4), np.uint8)
    Image.fromarray(noise, "RGBA").save(path, compress_level=1)
    async with started(tmp_path) as shrink:
        [(_, data)] = await shrink(path, "image/png", "alice")

    assert 10 * len(data) < TEN_TOGETHER


async def test_hostile_images_among_good_ones_do_not_hurt_them(tmp_path: Path) -> None:
    good = [make_small(tmp_path / f"{number}.png") for number in range(4)]
    text, bomb, torn = tmp_path / "text.png", tmp_path / "bomb.png", tmp_path / "torn.jpg"
    text.write_text("no image at all")
    make_png_header(bomb, 100_000, 100_000)
    torn.write_bytes(make_photo(torn, 1).read_bytes()[:50_000])
    paths = [good[0], text, good[1], bomb, good[2], torn, good[3]]

    async with started(tmp_path) as shrink:
        made = await asyncio.gather(
            *(shrink(path, "image/png", "alice", number) for number, path in enumerate(paths, 1)),
            return_exceptions=True,
        )

    errors = [each for each in made if isinstance(each, BaseException)]
    assert {type(error) for error in errors} == {ImageUnreadableError}
    assert [str(error).partition(":")[0] for error in errors] == [
        f"image {number} cannot be read" for number in (2, 4, 6)
    ]
    assert [size_of(made[at][0][1]) for at in (0, 2, 4, 6)] == [(200, 100)] * 4  # type: ignore[index]
    assert leftovers(tmp_path) == []


async def test_an_image_that_takes_too_long_twice_is_given_up(tmp_path: Path) -> None:
    slow = make_slow(tmp_path / "slow.png")
    async with started(tmp_path, limits=replace(LIMITS, timeout_seconds=0.01)) as shrink:
        with pytest.raises(
            ImageUnreadableError, match="image 3 cannot be read: decoding it takes too long"
        ) as raised:
            await shrink(slow, "image/png", "alice", 3)

    assert isinstance(raised.value, GiveUpError)
    assert raised.value.code == "image_unreadable"
    assert leftovers(tmp_path) == []


async def test_a_child_that_is_killed_by_chance_costs_nothing(tmp_path: Path) -> None:
    small = make_small(tmp_path / "small.png")
    async with started(tmp_path) as shrink:
        before = await shrink(small, "image/png", "alice")
        (pid,) = children()
        psutil.Process(pid).suspend()  # so that the image is in its hands when it dies
        task = asyncio.create_task(shrink(small, "image/png", "alice"))
        await wait_until(lambda: shrink.sandbox.free_slots == 1, "the child has the image")
        psutil.Process(pid).kill()

        assert await task == before
        assert pid not in children()


async def test_a_child_that_cannot_start_is_not_the_images_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = make_small(tmp_path / "small.png")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    async with started(tmp_path) as shrink:
        with pytest.raises(RetryLaterError, match="images cannot be made smaller now"):
            await shrink(small, "image/png", "alice")


async def test_what_is_closed_says_try_again_later(tmp_path: Path) -> None:
    small = make_small(tmp_path / "small.png")
    never = Shrinker(tmp_path)
    with pytest.raises(RetryLaterError):
        await never(small, "image/png", "alice")
    async with started(tmp_path) as shrink:
        await shrink(small, "image/png", "alice")
        (pid,) = children()
        psutil.Process(pid).suspend()
        task = asyncio.create_task(shrink(small, "image/png", "alice"))
        await wait_until(lambda: shrink.sandbox.free_slots == 1, "the child has the image")
    with pytest.raises(RetryLaterError):
        await task
    with pytest.raises(RetryLaterError):
        await shrink(small, "image/png", "alice")
    assert not is_running(pid)


async def test_no_more_than_two_children_and_none_when_they_idle(tmp_path: Path) -> None:
    small = make_small(tmp_path / "small.png")
    async with started(tmp_path, idle_seconds=0.1) as shrink:
        assert children() == []
        await asyncio.gather(*(shrink(small, "image/png", "alice") for _ in range(20)))
        assert len(children()) <= 2
        await wait_until(lambda: children() == [], "the children are ended")
        assert (await shrink(small, "image/png", "alice"))[0][0] == "image/png"


async def test_the_image_itself_is_left_alone_and_the_small_one_is_bounded(tmp_path: Path) -> None:
    photo = make_photo(tmp_path / "photo.jpg", 3)
    before = photo.read_bytes(), photo.stat().st_mtime_ns
    async with started(tmp_path) as shrink:
        [(_, data)] = await shrink(photo, "image/jpeg", "alice")

    assert (photo.read_bytes(), photo.stat().st_mtime_ns) == before
    assert len(data) <= MAX_BYTES
