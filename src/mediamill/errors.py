"""The error families. Specific errors live beside what raises them and inherit from one of these.

The first line of a docstring is the message when none is given, and `fix` what to do; `code` is stable and goes out
over HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass


class MediamillError(Exception):
    """Something went wrong."""

    code = "error"
    fix: str | None = None

    def __init__(self, message: str | None = None, *, fix: str | None = None) -> None:
        doc = (type(self).__doc__ or "").strip().splitlines()
        self.message = message or (doc[0] if doc else self.code)
        self.fix = fix or self.fix
        super().__init__(self.message)


class NotFoundError(MediamillError):
    """There is no such thing."""

    code = "not_found"


class ConflictError(MediamillError):
    """The thing is not in a state that allows this."""

    code = "conflict"


class InvalidError(MediamillError):
    """The input is not valid."""

    code = "invalid"


class DeniedError(MediamillError):
    """The caller may not do this."""

    code = "denied"


class QuotaExceededError(MediamillError):
    """A limit on size or number is reached."""

    code = "quota_exceeded"


class TooManyError(MediamillError):
    """Too many tries; wait a little."""

    code = "too_many_requests"

    def __init__(
        self, message: str | None = None, *, fix: str | None = None, wait_seconds: float = 1
    ) -> None:
        super().__init__(message, fix=fix)
        self.wait_seconds = wait_seconds


class UnavailableError(MediamillError):
    """A part that is needed (database, disk, network) does not answer now."""

    code = "unavailable"


class RetryLaterError(MediamillError):
    """A temporary failure: trying again may help."""

    code = "retry_later"


@dataclass(frozen=True, slots=True)
class Wait:
    """How long to wait for what is not there now. `server`: the address of the model server that it is.

    `suspect`: the server failed while it had this work in hand, so the work itself may be the reason.
    """

    seconds: float = 60.0
    server: str | None = None
    suspect: bool = False


class NotNowError(RetryLaterError):
    """What the work needs is not there now. That is nobody's fault: the attempt does not count."""

    code = "not_now"
    wait = Wait()


class GiveUpError(MediamillError):
    """A permanent failure: trying again cannot help."""

    code = "give_up"


class ClaimLostError(ConflictError):
    """The claim has expired or was taken over; abandon the work, its result is not wanted."""

    code = "claim_lost"
