"""What becomes of an image that a child was asked to make small, whatever the child answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mediamill.errors import GiveUpError, RetryLaterError
from mediamill.inputs.model import ImageUnreadableError
from mediamill.processors.contract import ProcessorOutput
from mediamill.worker import failures
from mediamill.worker.sandbox import SandboxJob
from mediamill.worker.shrink import LIMITS, MAX_BYTES, Shrinker


class Played:
    """In the place of the sandbox: each attempt ends as given."""

    def __init__(self, folder: Path, *ends: Exception | tuple[dict[str, Any], bytes | None]) -> None:
        self.folder, self.ends = folder, [*ends]
        self.jobs: list[SandboxJob] = []

    async def run(self, job: SandboxJob, *, keep: Callable[..., Any]) -> ProcessorOutput:
        self.jobs.append(job)
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        result, made = end
        output = ProcessorOutput(result, {} if made is None else {"image-1": "small"})
        if made is not None:
            (self.folder / "small").write_bytes(made)
        await keep(self.folder, output)
        return output


def shrinker(folder: Path, *ends: Any) -> tuple[Shrinker, Played]:
    found = Shrinker(folder)
    played = Played(folder, *ends)
    found.sandbox = played  # type: ignore[assignment]
    return found, played


JPEG = {"mime_types": ["image/jpeg"]}


async def test_the_small_image_and_its_type_come_back(tmp_path: Path) -> None:
    shrink, played = shrinker(tmp_path, (JPEG, b"s"), ({"mime_types": ["image/png"]}, b"x" * MAX_BYTES))
    assert await shrink(tmp_path / "a", "image/x", "ann") == [("image/jpeg", b"s")]
    assert await shrink(tmp_path / "b", "image/x", "bob", 2) == [("image/png", b"x" * MAX_BYTES)]
    first, second = played.jobs
    assert (first.payload, first.mime_type, first.file, first.owner) == ({}, "image/x", tmp_path / "a", "ann")
    assert (second.payload, second.owner) == ({"number": 2}, "bob")


NOT_VALID = "its small version is not valid"
CRASHED = failures.ProcessorCrashedError("died")
TOO_LARGE = failures.MemoryLimitError("much")
TOO_LONG = failures.ProcessorTimeoutError("long")
UNREADABLE: list[tuple[list[Any], str, int]] = [
    # what the child answers, what is said, how many attempts that takes
    ([(JPEG, b"")], NOT_VALID, 1),
    ([(JPEG, None)], NOT_VALID, 1),
    ([(JPEG, b"x" * (MAX_BYTES + 1))], NOT_VALID, 1),
    ([({"mime_types": ["image/gif"]}, b"s")], NOT_VALID, 1),
    ([({}, b"s")], NOT_VALID, 1),
    ([failures.InvalidOutputError("odd")], NOT_VALID, 1),
    ([failures.WrongPoolError("a/b")], NOT_VALID, 1),
    ([CRASHED, CRASHED], "its decoder crashed", 2),
    ([CRASHED, TOO_LARGE], "decoding it takes too much memory", 2),
    ([TOO_LARGE, TOO_LONG], "decoding it takes too long", 2),
    ([TOO_LONG, (JPEG, b"")], NOT_VALID, 2),
]


@pytest.mark.parametrize(("ends", "why", "attempts"), UNREADABLE)
@pytest.mark.parametrize(("number", "which"), [(None, "the image"), (3, "image 3")])
async def test_an_image_that_cannot_be_read_is_named_with_the_reason(
    tmp_path: Path, ends: list[Any], why: str, attempts: int, number: int | None, which: str
) -> None:
    shrink, played = shrinker(tmp_path, *ends)
    with pytest.raises(ImageUnreadableError) as caught:
        await shrink(tmp_path / "a", "image/x", "o", number)
    assert str(caught.value) == f"{which} cannot be read: {why}"
    assert len(played.jobs) == attempts


async def test_what_the_processor_says_of_an_image_is_said_as_it_is(tmp_path: Path) -> None:
    shrink, _ = shrinker(tmp_path, failures.ProcessorGaveUpError("image 3 is an animation"))
    with pytest.raises(ImageUnreadableError, match=r"^image 3 is an animation$") as caught:
        await shrink(tmp_path / "a", "image/x", "o", 3)
    assert isinstance(caught.value.__cause__, GiveUpError)


@pytest.mark.parametrize(
    "end", [failures.SandboxClosedError(), failures.ProcessorStartError("no"), OSError(28, "full")]
)
async def test_what_is_not_the_images_fault_is_tried_later(tmp_path: Path, end: Exception) -> None:
    shrink, played = shrinker(tmp_path, end)
    with pytest.raises(RetryLaterError, match="images cannot be made smaller now"):
        await shrink(tmp_path / "a", "image/x", "o")
    assert len(played.jobs) == 1


async def test_an_image_whose_child_is_lost_by_chance_is_read_the_second_time(tmp_path: Path) -> None:
    for lost in (CRASHED, TOO_LARGE, TOO_LONG):
        shrink, _ = shrinker(tmp_path, lost, (JPEG, b"s"))
        assert await shrink(tmp_path / "a", "image/x", "o") == [("image/jpeg", b"s")]


async def test_its_children_are_two_at_most_and_bounded(tmp_path: Path) -> None:
    found = Shrinker(tmp_path, idle_seconds=3).sandbox
    assert (found.processor, found.size, found.limits) == ("model-image", 2, LIMITS)
    assert (found._children.idle_seconds, found._children._spare) == (3, 0)
    assert found._scratch == tmp_path / "scratch" / "shrink"
    assert LIMITS.file_bytes == MAX_BYTES, "what is too large cannot even be written"
