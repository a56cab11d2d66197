"""Images for the agent: fetched, then kept as pending, each in the transaction that ends its update."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mediamill.conversations.access import Gate
from mediamill.db.connection import Connection, after_commit
from mediamill.errors import GiveUpError, InvalidError, MediamillError, QuotaExceededError
from mediamill.inputs import counters
from mediamill.inputs.accept import purge_expired
from mediamill.inputs.model import ImageBufferError, SpooledImage
from mediamill.inputs.pending import save_pending
from mediamill.inputs.spool import Spool, Tray
from mediamill.providers.telegram.acks import Acks
from mediamill.providers.telegram.api import BotApi
from mediamill.providers.telegram.failures import FailedStepError, is_last_try
from mediamill.providers.telegram.files import PIECE_BYTES, open_file
from mediamill.providers.telegram.inbox import Inbox, Kept
from mediamill.providers.telegram.runs import Runs
from mediamill.providers.telegram.update import Incoming, sender_of

log = logging.getLogger(__name__)

AT_ONCE = 4
# What no other try can change.
FINAL = (GiveUpError, InvalidError, QuotaExceededError)
REFUSALS = (InvalidError, QuotaExceededError)  # by us, with a code that is the same on every surface


@dataclass(frozen=True, slots=True)
class Piece:
    """One update and what it says."""

    kept: Kept
    message: Incoming


class ImageTaker:
    """Of one bot."""

    def __init__(
        self,
        inbox: Inbox,
        api: BotApi,
        spool: Spool,
        runs: Runs,
        acks: Acks,
        shared_folder: Path | None,
        gate: Gate,
    ) -> None:
        self._gate = gate
        self._inbox, self._api, self._spool, self._runs, self._acks = inbox, api, spool, runs, acks
        self._shared_folder = shared_folder
        self._at_once = asyncio.Semaphore(AT_ONCE)

    async def take(self, pieces: Sequence[Piece]) -> None:
        """In this order; fetched side by side. With a caption among them, the answer is the acknowledgement."""
        is_quiet = any(piece.message.text for piece in pieces)
        missing = [piece for piece in pieces if not piece.kept.image_saved]
        with ExitStack() as stack:
            trays = [stack.enter_context(self._spool.open_tray()) for _ in missing]
            fetching = (self._fetch(piece, tray) for piece, tray in zip(missing, trays, strict=True))
            for piece, found in zip(missing, await asyncio.gather(*fetching), strict=True):
                if not isinstance(found, SpooledImage) and not _is_final(piece.kept, found):
                    raise FailedStepError(piece.kept, found)
                try:
                    async with self._inbox.database.transaction() as connection:
                        await self._keep(connection, piece, found, is_quiet)
                except Exception as error:
                    raise FailedStepError(piece.kept, error) from error

    async def _fetch(self, piece: Piece, tray: Tray) -> SpooledImage | Exception:
        """The image, or why there is none."""
        assert piece.message.file is not None
        try:
            file = tray.begin_image()
            async with (
                self._at_once,
                open_file(self._api, piece.message.file.file_id, self._shared_folder) as (chunks, _),
            ):
                waiting = bytearray()
                async for chunk in chunks:
                    waiting += chunk
                    if len(waiting) >= PIECE_BYTES:
                        await asyncio.to_thread(file.write, bytes(waiting))
                        waiting.clear()
                await asyncio.to_thread(file.write, bytes(waiting))
                return await asyncio.to_thread(file.finish, piece.message.file.filename)
        except Exception as error:
            return error

    async def _keep(
        self, connection: Connection, piece: Piece, found: SpooledImage | Exception, is_quiet: bool
    ) -> None:
        if isinstance(found, SpooledImage):
            await self._save(connection, piece.message, found, is_quiet)
        else:
            log.warning("an image of Telegram could not be had: %s", found)
            await purge_expired(connection)
            self._count_rejected(connection, piece.message, found)
            await self._count(connection, piece.message, failed=1, reason=_reason(found))
        if piece.message.text:
            await self._inbox.note_image_saved(connection, piece.kept)
        else:  # with a text it is counted as that
            await self._gate.count(connection, sender_of(piece.message), strict=False)
            await self._inbox.end(connection, piece.kept)

    async def _save(
        self, connection: Connection, message: Incoming, image: SpooledImage, is_quiet: bool
    ) -> None:
        scope = self._runs.scope(message.chat, message.sender)
        try:
            saved = await save_pending(connection, scope, image, media_group_id=message.album)
        except ImageBufferError as error:
            self._count_rejected(connection, message, error)
            await self._count(connection, message, refused=1)
            return
        if saved.run_id is None and not is_quiet:
            await self._count(connection, message, saved=1, waiting=saved.count)

    def _count_rejected(self, connection: Connection, message: Incoming, error: Exception) -> None:
        if isinstance(error, REFUSALS):
            scope = self._runs.scope(message.chat, message.sender)
            count = partial(counters.count_rejected, scope.source, error, scope.thread_key)
            after_commit(connection, count)

    async def _count(
        self,
        connection: Connection,
        message: Incoming,
        *,
        saved: int = 0,
        refused: int = 0,
        failed: int = 0,
        waiting: int = 0,
        reason: str | None = None,
    ) -> None:
        await self._acks.count(
            connection,
            message.chat,
            message.album or f"#{message.message_id}",
            saved=saved,
            refused=refused,
            failed=failed,
            waiting=waiting,
            reason=reason,
        )


def _is_final(kept: Kept, error: Exception) -> bool:
    return isinstance(error, FINAL) or is_last_try(kept)


def _reason(error: Exception) -> str:
    """For whoever sent it: nothing of our insides."""
    if isinstance(error, REFUSALS):
        return f"{error.message.rstrip('.')} ({error.code})"
    return error.message if isinstance(error, MediamillError) else "it could not be downloaded"
