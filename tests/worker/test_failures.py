"""Each failure of a child by its code, which people and servers go by, and whether to try again."""

from __future__ import annotations

import pytest

from mediamill.errors import GiveUpError, MediamillError, NotNowError, RetryLaterError
from mediamill.worker import failures
from mediamill.worker.download import InputChangedError, NoRoomError
from mediamill.worker.folder_download import InputTooLargeError
from mediamill.worker.run import NoProcessorError, TimeLimitError
from mediamill.worker.server_link import ServerFailedError

MEANINGS: list[tuple[type[MediamillError], str, type[MediamillError]]] = [
    (failures.ProcessorGaveUpError, "give_up", GiveUpError),
    (failures.InvalidOutputError, "invalid_output", GiveUpError),
    (failures.TooMuchWrittenError, "too_much_written", GiveUpError),
    (failures.ProcessorFailedError, "retry_later", RetryLaterError),
    (failures.ProcessorWaitsError, "not_now", NotNowError),
    (failures.ProcessorCrashedError, "processor_crashed", RetryLaterError),
    (failures.ProcessorStartError, "processor_start_failed", RetryLaterError),
    (failures.ProcessorTimeoutError, "processor_timeout", RetryLaterError),
    (failures.MemoryLimitError, "memory_limit", RetryLaterError),
    (failures.TooManyThreadsError, "too_many_threads", RetryLaterError),
    (failures.SandboxClosedError, "sandbox_closed", NotNowError),
    (InputChangedError, "input_changed", RetryLaterError),
    (NoRoomError, "no_room", RetryLaterError),
    (InputTooLargeError, "input_too_large", GiveUpError),
    (NoProcessorError, "no_processor", GiveUpError),
    (TimeLimitError, "timeout", RetryLaterError),
    (ServerFailedError, "server_failed", RetryLaterError),
]


def test_every_failure_has_its_code_and_says_whether_to_try_again() -> None:
    found = [
        (each, each("no").code, family if issubclass(each, family) else None) for each, _, family in MEANINGS
    ]
    assert found == MEANINGS
    for_good = {each for each, _, family in MEANINGS if family is GiveUpError}
    assert {each for each, _, _ in MEANINGS if issubclass(each, GiveUpError)} == for_good


def test_whoever_sent_what_takes_too_long_hears_of_it() -> None:
    told = {each for each, _, _ in MEANINGS if getattr(each("no"), "notice", None) is not None}
    assert told == {failures.ProcessorTimeoutError, TimeLimitError}
    assert failures.ProcessorTimeoutError("no").notice == "[Processing timed out]"


def test_a_failure_keeps_what_the_child_said_of_it() -> None:
    said = failures.ProcessorGaveUpError("no", fix="f", traceback="t", code="c", notice="n")
    assert (str(said), said.fix, said.traceback, said.code, said.notice) == ("no", "f", "t", "c", "n")
    plain = failures.ProcessorTimeoutError("no")
    assert (plain.fix, plain.traceback, plain.code) == (None, None, "processor_timeout")
    assert failures.WrongPoolError("a/b").mime_type == "a/b"
    with pytest.raises(MediamillError, match="really a/b"):
        raise failures.WrongPoolError("a/b")
