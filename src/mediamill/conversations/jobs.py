"""The job kind of media in messages, and what a failure means for the message."""

from __future__ import annotations

from collections.abc import Sequence

from mediamill.conversations.deliver import write_texts
from mediamill.conversations.model import KIND, failed_content
from mediamill.db.connection import Connection
from mediamill.engine.kinds import JobKind
from mediamill.engine.model import Moved


async def tell_failure(connection: Connection, jobs: Sequence[Moved]) -> None:
    """The conversation gets the notice in place of the text, in the transaction that buries the job."""
    told = {
        str(job.subject_id): (
            failed_content(str(job.payload.get("caption") or ""), job.notice),
            job.error or job.reason or "failed",
        )
        for job in jobs
    }
    await write_texts(connection, told)


KINDS = (
    JobKind(
        KIND,
        on_failed=tell_failure,
        reaped=True,
        owns_input=True,
        release_counts=False,
        local=True,
        description="Turns the media of one message into text. Its result waits until the bot that it belongs to takes "
        "it into the conversation; its staged file is deleted at the end.",
    ),
)
