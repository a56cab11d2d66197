"""A job on its way to a child, and what the child reports on its way to those who want to know."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from mediamill.worker.failures import ProcessorGaveUpError
from mediamill.worker.messages import HEADER, KeptFile, Report, Spent, Work, decode_work
from mediamill.worker.open_input import OpenInput
from mediamill.worker.sandbox_job import SandboxJob, Take, frame_job, split_reports


def test_all_that_is_known_of_a_job_goes_to_the_child() -> None:
    job = SandboxJob(
        {"a": 1}, "a/b", Path(os.fsdecode(b"/far/\xff")), [2], 3, {"k": {"at": 4}}, lambda _: None
    )
    opened = OpenInput((), ("m", "n"), errno.ENOENT)
    sent = decode_work(bytes(frame_job(job, opened, 7, 99))[HEADER.size :])
    kept = {"k": {"at": 4}}
    assert sent == Work(7, {"a": 1}, "a/b", b"/far/\xff", [2], 3, 99, kept, True, ("m", "n"), errno.ENOENT)
    bare = decode_work(bytes(frame_job(SandboxJob(), OpenInput(), 8, 9))[HEADER.size :])
    assert bare == Work(8, {}, None, None, None, 1, 9)


@pytest.mark.parametrize("odd", [{"a": object()}, {"a": 1 << 80}])
def test_a_payload_that_cannot_be_sent_is_given_up(odd: dict[str, Any]) -> None:
    with pytest.raises(ProcessorGaveUpError, match="the payload cannot be sent") as caught:
        frame_job(SandboxJob(odd), OpenInput(), 1, 9)
    assert caught.value.code == "invalid_payload"


def test_the_members_of_a_folder_are_those_that_the_payload_names() -> None:
    assert SandboxJob({"file": {"files": ["a", "b"]}}).members == ["a", "b"]
    for payload in ({}, {"file": None}, {"file": {"staged": "x"}}, {"file": {"files": "a"}}):
        assert SandboxJob(payload).members is None


def test_each_sort_of_report_goes_to_whoever_wants_it_and_else_to_nobody() -> None:
    heard: list[Any] = []

    take = Take(Path("/made"), Path("/taken"))
    plain, kept = Report(step="x"), Report(kept=KeptFile("k", "p", {}))
    spent = Report(spent=Spent(1, 2, 3, 0.5))
    everything = split_reports(heard.append, lambda *given: heard.append(given), take, heard.append)
    for report in (plain, kept, spent):
        everything(report)
    assert heard == [plain, (kept.kept, take), spent.spent]
    heard.clear()
    progress = split_reports(heard.append, None, take, None)
    for report in (plain, kept, spent):
        progress(report)
    assert heard == [plain]
