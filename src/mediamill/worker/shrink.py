"""Images made small for a model, in child processes: strangers' bytes are never decoded in the server."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mediamill.errors import GiveUpError, RetryLaterError
from mediamill.inputs.model import ImageUnreadableError
from mediamill.media.peek import open_regular
from mediamill.processors.contract import ProcessorOutput
from mediamill.worker.failures import (
    InvalidOutputError,
    MemoryLimitError,
    ProcessorCrashedError,
    ProcessorStartError,
    ProcessorTimeoutError,
    SandboxClosedError,
    WrongPoolError,
)
from mediamill.worker.sandbox import Sandbox, SandboxJob
from mediamill.worker.spawn import Limits

PROCESSOR = "model-image"
MAX_BYTES = 2_000_000  # of a small image with all its parts; the processor stays well below
MOST_PARTS = 6
MIME_TYPES = ("image/jpeg", "image/png")
LIMITS = Limits(timeout_seconds=60, memory_bytes=1 << 30, output_bytes=10_000, file_bytes=MAX_BYTES)
LOST = (ProcessorCrashedError, MemoryLimitError, ProcessorTimeoutError)  # the child, and its image with it


class Shrinker:
    """Two children at most; they come with the first images and go when they idle."""

    def __init__(self, data_folder: Path, *, limits: Limits = LIMITS, idle_seconds: float = 60) -> None:
        scratch = data_folder / "scratch" / "shrink"
        self.sandbox = Sandbox(
            PROCESSOR, size=2, spare=0, limits=limits, scratch=scratch, idle_seconds=idle_seconds
        )

    async def start(self) -> None:
        """Clear what dead processes left."""
        await self.sandbox.start()

    async def close(self) -> None:
        """End the children; images that are under way fail with RetryLaterError."""
        await self.sandbox.close()

    async def __call__(
        self, path: Path, mime_type: str, owner: str, number: int | None = None
    ) -> list[tuple[str, bytes]]:
        """The mime type and bytes of the small image; of a long one, of its parts in order.

        `number`: which of its message, 1 for the first, for errors.

        `owner`: whose it is; a child that has read an image of one owner reads none of another's.

        ImageUnreadableError: never again. RetryLaterError: it is not the image's fault.
        """
        given = SandboxJob({} if number is None else {"number": number}, mime_type, path, owner=owner)
        try:
            return await self._shrink_or_again(given)
        except (SandboxClosedError, ProcessorStartError, OSError) as error:
            raise RetryLaterError(f"images cannot be made smaller now: {error}") from error
        except (InvalidOutputError, WrongPoolError) as error:
            raise _unreadable(number, "its small version is not valid") from error
        except GiveUpError as error:
            raise ImageUnreadableError(error.message) from error
        except LOST as error:
            raise _unreadable(number, _why_lost(error)) from error

    async def _shrink_or_again(self, given: SandboxJob) -> list[tuple[str, bytes]]:
        try:
            return await self._shrink(given)
        except ProcessorStartError:
            raise
        except LOST:  # by chance, as on a machine without memory, or by this image: the second time tells
            return await self._shrink(given)

    async def _shrink(self, given: SandboxJob) -> list[tuple[str, bytes]]:
        made: list[bytes] = []

        async def keep(folder: Path, output: ProcessorOutput) -> None:
            for number in range(1, MOST_PARTS + 1):
                if (path := output.files.get(f"image-{number}")) is not None:
                    made.append(await asyncio.to_thread(_read, folder / path))

        output = await self.sandbox.run(given, keep=keep)
        match output.result.get("mime_types"):
            case list(told) if made and len(told) == len(made) and all(each in MIME_TYPES for each in told):
                pass
            case _:  # a child is to be trusted as little as what it has read
                raise InvalidOutputError
        if not (all(made) and sum(map(len, made)) <= MAX_BYTES):
            raise InvalidOutputError
        return list(zip(told, made, strict=True))


def _read(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read(MAX_BYTES + 1)


def _unreadable(number: int | None, reason: str) -> ImageUnreadableError:
    which = "the image" if number is None else f"image {number}"
    return ImageUnreadableError(f"{which} cannot be read: {reason}")


def _why_lost(error: Exception) -> str:
    if isinstance(error, ProcessorTimeoutError):
        return "decoding it takes too long"
    return (
        "decoding it takes too much memory" if isinstance(error, MemoryLimitError) else "its decoder crashed"
    )
