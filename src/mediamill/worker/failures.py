"""How work in a child process can fail. Only `GiveUpError`s are permanent."""

from __future__ import annotations

from mediamill.errors import GiveUpError, MediamillError, NotNowError, RetryLaterError

TIMED_OUT_NOTICE = "[Processing timed out]"


def timeout_text(what: str, seconds: float) -> str:
    """How the dead letter names a time limit that was exceeded."""
    return f"TIMEOUT: {what} processing exceeded {seconds:g}s"


class _ToldError(MediamillError):
    """A failure in a child process. `notice`: what the sender of the media is told."""

    notice: str | None = None

    def __init__(
        self,
        message: str | None = None,
        *,
        fix: str | None = None,
        traceback: str | None = None,
        code: str | None = None,
        notice: str | None = None,
    ) -> None:
        super().__init__(message, fix=fix)
        self.traceback = traceback
        if notice is not None:
            self.notice = notice
        if code is not None:
            self.code = code


class ProcessorGaveUpError(_ToldError, GiveUpError):
    """The processor says that trying again cannot help."""

    code = "give_up"


class InvalidOutputError(_ToldError, GiveUpError):
    """What the processor made is refused."""

    code = "invalid_output"


class TooMuchWrittenError(_ToldError, GiveUpError):
    """The processor wrote more than it may."""

    code = "too_much_written"


class ProcessorFailedError(_ToldError, RetryLaterError):
    """The processor failed; trying again may help."""

    code = "retry_later"


class ProcessorWaitsError(_ToldError, NotNowError):
    """What the processor needs is not there now."""

    code = "not_now"


class ProcessorCrashedError(_ToldError, RetryLaterError):
    """The process that ran the processor died or went astray."""

    code = "processor_crashed"


class ProcessorStartError(ProcessorCrashedError):
    """The processor could not be started."""

    code = "processor_start_failed"


class ProcessorTimeoutError(_ToldError, RetryLaterError):
    """The processor took longer than its time limit and was killed."""

    code = "processor_timeout"
    notice = TIMED_OUT_NOTICE


class MemoryLimitError(_ToldError, RetryLaterError):
    """The processor wanted more memory than its limit."""

    code = "memory_limit"


class TooManyThreadsError(_ToldError, RetryLaterError):
    """The processor started more threads, or processes, than it may."""

    code = "too_many_threads"


class WrongPoolError(MediamillError):
    """The file is of another type than was claimed; the pool of its real type must have the job."""

    code = "wrong_type"

    def __init__(self, mime_type: str) -> None:
        super().__init__(f"the file is really {mime_type}")
        self.mime_type = mime_type


class SandboxClosedError(_ToldError, NotNowError):
    """The sandbox is closed: its pool was changed, or its worker stops. That is no attempt at the job."""

    code = "sandbox_closed"
