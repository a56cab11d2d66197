"""The job kind of media in messages, and what a failure means for the message."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mediamill.conversations.deliver import write_texts
from mediamill.conversations.model import KIND, failed_content
from mediamill.db.connection import Connection
from mediamill.engine.kinds import JobKind
from mediamill.engine.model import ABANDONED, Moved
from mediamill.settings import Settings
from mediamill.staging.give_up import drop_staged
from mediamill.storage.choose import Place, storage_of


async def tell_failure(place: Place, connection: Connection, jobs: Sequence[Moved]) -> None:
    """The conversation gets the notice in place of the text, in the transaction that buries the job.

    What nobody has processed for hours is not wanted any more: its file goes with the same transaction.
    """
    told = {
        str(job.subject_id): (
            failed_content(str(job.payload.get("caption") or ""), job.notice),
            job.error or job.reason or "failed",
        )
        for job in jobs
    }
    await write_texts(connection, told)
    if abandoned := [str(job.subject_id) for job in jobs if job.reason == ABANDONED]:
        await drop_staged(connection, place, abandoned)


def message_kinds(settings: Settings) -> tuple[JobKind, ...]:
    """Where staged files are, the settings say."""
    kind = JobKind(
        KIND,
        on_failed=partial(tell_failure, storage_of(settings)),
        reaped=True,
        owns_input=True,
        release_counts=False,
        local=True,
        description="Turns the media of one message into text. Its result waits until the bot that it belongs to takes "
        "it into the conversation; its staged file is deleted at the end.",
    )
    return (kind,)
