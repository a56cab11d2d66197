"""Files of Telegram: where they are, and their bytes as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from mediamill.errors import GiveUpError
from mediamill.providers.telegram.api import BotApi, FileGoneError, TelegramAwayError, TelegramRefusedError

PIECE_BYTES = 256 * 1024


class FileTooLargeError(GiveUpError):
    """Telegram does not hand files of this size to bots."""

    code = "telegram_file_too_large"


@asynccontextmanager
async def open_file(
    api: BotApi, file_id: str, shared_folder: Path | None
) -> AsyncIterator[tuple[AsyncIterator[bytes], int | None]]:
    """The bytes, and how many Telegram says they are.

    A local Bot API server with `--local` names a path of its own disk; it is read if it lies in the shared folder.
    """
    try:
        told = await api.call("getFile", file_id=file_id)
    except TelegramRefusedError as error:
        raise FileTooLargeError() if "too big" in error.message else FileGoneError(error.message) from None
    path, size = (told.get("file_path"), told.get("file_size")) if isinstance(told, dict) else (None, None)
    if not isinstance(path, str) or not path:
        raise FileGoneError("Telegram does not say where the file is")
    announced = size if isinstance(size, int) and size > 0 else None
    if path.startswith("/"):
        with _open_shared(Path(path), shared_folder) as file:
            yield _whole(_pieces(file), announced), announced
    else:
        async with api.open_file(path) as chunks:
            yield _whole(chunks, announced), announced


async def _whole(chunks: AsyncIterator[bytes], announced: int | None) -> AsyncIterator[bytes]:
    """A file that ends before its end is no file."""
    seen = 0
    async for chunk in chunks:
        seen += len(chunk)
        yield chunk
    if announced is not None and seen < announced:
        raise TelegramAwayError("Telegram's file was cut off")


def _open_shared(path: Path, folder: Path | None) -> BinaryIO:
    """No way out of the folder, by whatever name."""
    try:
        if folder is None or not path.resolve(strict=True).is_relative_to(folder.resolve(strict=True)):
            raise FileGoneError(
                "the Bot API server keeps its files on its own disk",
                fix="set MEDIAMILL_TELEGRAM_FILES to its folder",
            )
        return path.resolve(strict=True).open("rb")
    except OSError as error:
        raise FileGoneError(f"the file cannot be read: {error.strerror}") from None


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
        yield piece
