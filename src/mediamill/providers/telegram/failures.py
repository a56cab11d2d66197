"""What to do with an update that could not be taken: when it is tried again, and when that is enough."""

from __future__ import annotations

from datetime import UTC, datetime

from mediamill.errors import RetryLaterError
from mediamill.providers.telegram.api import TelegramAwayError, TokenRefusedError
from mediamill.providers.telegram.inbox import Kept

TRIES = 4
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
LONGEST_AGE_SECONDS = 3_600.0  # so long a chat waits for a Telegram that cannot be reached


class FailedStepError(RetryLaterError):
    """An update could not be taken now."""

    code = "update_failed"

    def __init__(self, kept: Kept, cause: Exception) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.kept, self.cause = kept, cause


def counts_as_try(error: Exception) -> bool:
    """A Telegram that is away says nothing of the update."""
    return not isinstance(error, TokenRefusedError) and not (
        isinstance(error, TelegramAwayError) and not error.reached
    )


def is_last_try(kept: Kept) -> bool:
    """If it fails now, it is given up."""
    begun = kept.created_at or datetime.now(UTC)
    return kept.tries + 1 >= TRIES or (datetime.now(UTC) - begun).total_seconds() > LONGEST_AGE_SECONDS


def pause_seconds(kept: Kept) -> float:
    """Until the next try."""
    return min(FIRST_PAUSE_SECONDS * 5.0**kept.tries, LONGEST_PAUSE_SECONDS)
