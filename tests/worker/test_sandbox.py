"""The sandbox: whatever a processor does, it costs its own job and nothing else."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mediamill.errors import GiveUpError, RetryLaterError
from mediamill.worker.failures import TooMuchWrittenError
from mediamill.worker.sandbox import (
    InvalidOutputError,
    Limits,
    MemoryLimitError,
    ProcessorCrashedError,
    ProcessorFailedError,
    ProcessorTimeoutError,
    Report,
    Sandbox,
    SandboxClosedError,
    SandboxJob,
)
from tests.worker.harness import (
    GENEROUS,
    LIMIT_SECONDS,
    SHORT,
    Reports,
    age,
    do,
    everything_in,
    folders,
    is_running,
    opened,
    pid_of,
    programs_of,
    wait_until,
)


async def test_a_job_sees_what_it_was_given_and_its_result_comes_back(tmp_path: Path) -> None:
    async with opened(tmp_path) as sandbox:
        given = SandboxJob(
            payload={"result": {"text": "ünï", "list": [1, None, 2.5]}, "about": True},
            mime_type="image/png",
            checkpoint={"page": 3},
            attempt=2,
        )
        result = (await sandbox.run(given)).result
    assert result["text"] == "ünï"
    assert result["list"] == [1, None, 2.5]
    assert (result["mime_type"], result["checkpoint"], result["attempt"]) == ("image/png", {"page": 3}, 2)
    assert result["pid"] != os.getpid()


async def test_large_payloads_and_results_pass_both_ways(tmp_path: Path) -> None:
    text = "é" * 400_000
    async with opened(tmp_path) as sandbox:
        assert await do(sandbox, result={"text": text}) == {"text": text}


async def test_reports_come_through_in_order_with_their_checkpoints(tmp_path: Path) -> None:
    reports = Reports()
    async with opened(tmp_path) as sandbox:
        await sandbox.run(SandboxJob(payload={"do": "report", "times": 4}), reports)
    assert [report.step for report in reports] == ["step 1", "step 2", "step 3", "step 4"]
    assert [report.percent for report in reports] == [25, 50, 75, 100]
    assert reports[-1].parts == {"n": 4}
    assert reports[-1].checkpoint == {"n": 4}


async def test_a_report_that_the_worker_cannot_take_does_not_harm_the_job(tmp_path: Path) -> None:
    def refuse(_: Report) -> None:
        raise ValueError("not now")

    async with opened(tmp_path) as sandbox:
        output = await sandbox.run(SandboxJob(payload={"do": "report", "result": {"ok": True}}), refuse)
    assert output.result == {"ok": True}


async def test_reports_of_a_thread_that_an_earlier_job_left_are_dropped(tmp_path: Path) -> None:
    reports = Reports()
    async with opened(tmp_path) as sandbox:
        pid = await pid_of(sandbox)
        await do(sandbox, "haunt")
        given = SandboxJob(payload={"do": "report", "seconds": 0.1, "about": True})
        assert (await sandbox.run(given, reports)).result["pid"] == pid
    assert {report.step for report in reports} == {"step 1", "step 2", "step 3"}


@pytest.mark.spec("E7")
async def test_failures_are_told_apart_by_type_and_carry_the_traceback(tmp_path: Path) -> None:
    async with opened(tmp_path) as sandbox:
        pid = await pid_of(sandbox)
        with pytest.raises(GiveUpError, match=r"^no page$") as gave_up:
            await do(sandbox, "raise_permanent", text="no page")
        with pytest.raises(ProcessorFailedError, match=r"^busy$") as busy:
            await do(sandbox, "raise_temporary", text="busy")
        with pytest.raises(ProcessorFailedError, match=r"^RuntimeError: empty document$") as other:
            await do(sandbox, "raise_text", text="empty document")
        assert await pid_of(sandbox) == pid  # an exception costs no child
    assert not isinstance(gave_up.value, RetryLaterError)
    for caught in (gave_up, busy, other):
        assert "_raise_" in (getattr(caught.value, "traceback", None) or "")


@pytest.mark.spec("E7")
async def test_an_error_text_that_utf8_or_postgresql_cannot_hold_still_arrives(tmp_path: Path) -> None:
    async with opened(tmp_path) as sandbox:
        with pytest.raises(ProcessorFailedError) as caught:
            await do(sandbox, "raise_text", text="a\0b" + "x" * 300_000)
    assert "\0" not in caught.value.message
    assert len(caught.value.message) <= 10_000


@pytest.mark.spec("E10")
@pytest.mark.parametrize("how", ["busy", "blocked"])
async def test_a_processor_that_hangs_is_killed_at_its_limit_and_the_slot_is_back(
    tmp_path: Path, how: str
) -> None:
    async with opened(tmp_path) as sandbox:
        pid = await pid_of(sandbox)
        sandbox.limits = SHORT
        given = SandboxJob(payload={"do": "hang", "how": how, "files": {"half.bin": "x"}})
        async with asyncio.timeout(LIMIT_SECONDS):
            with pytest.raises(
                ProcessorTimeoutError, match="TIMEOUT: scripted processing exceeded 2s"
            ) as caught:
                await sandbox.run(given)
            sandbox.limits = GENEROUS
            assert await do(sandbox, result={"n": 1}) == {"n": 1}
        await wait_until(lambda: not is_running(pid), "the child is dead")
        assert folders(tmp_path) == []
    assert isinstance(caught.value, RetryLaterError)


@pytest.mark.spec("E10")
@pytest.mark.parametrize("new_session", [False, True])
async def test_what_a_hanging_processor_started_is_killed_with_it(tmp_path: Path, new_session: bool) -> None:
    reports = Reports()
    async with opened(tmp_path, processor="scripted-programs") as sandbox:
        given = SandboxJob(payload={"do": "spawn_and_hang", "new_session": new_session})
        run = asyncio.create_task(sandbox.run(given, reports))
        await reports.part("grandchild")
        (grandchild,) = programs_of(next(iter(sandbox._children)).pid)
        age(sandbox, GENEROUS.timeout_seconds)
        with pytest.raises(ProcessorTimeoutError):
            await run
        await wait_until(lambda: not is_running(grandchild), "the grandchild is dead")


async def test_a_segfault_fails_its_own_job_while_the_neighbour_goes_on(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.mkdir()
    async with opened(tmp_path / "scratch", size=2) as sandbox:
        reports = Reports()
        neighbour = asyncio.create_task(
            sandbox.run(
                SandboxJob(payload={"do": "report", "times": 1, "gate": str(gate), "result": {"n": 7}}),
                reports,
            )
        )
        await reports.part("n")
        with pytest.raises(ProcessorCrashedError, match=r"SIGSEGV: .* in _segfault") as caught:
            await do(sandbox, "segfault")
        assert "_segfault" in (caught.value.traceback or "")  # where it happened, from faulthandler
        assert not neighbour.done()
        (gate / "1").touch()
        assert (await neighbour).result == {"n": 7}
        assert await do(sandbox, result={"n": 8}) == {"n": 8}


async def test_a_child_that_exits_fails_its_job_with_its_last_words(tmp_path: Path) -> None:
    async with opened(tmp_path) as sandbox:
        with pytest.raises(ProcessorCrashedError, match="exit code 5: the licence has run out"):
            await do(sandbox, "exit", code=5, text="the licence has run out")
        assert await do(sandbox, result={"n": 1}) == {"n": 1}


@pytest.mark.parametrize("where", ["heap", "shared"])
async def test_a_processor_that_eats_memory_is_stopped_at_its_limit(tmp_path: Path, where: str) -> None:
    limits = Limits(timeout_seconds=60, memory_bytes=256 << 20)
    async with opened(tmp_path, limits) as sandbox:
        # Beyond the limit, but not more than a machine has if the limit should fail.
        with pytest.raises(MemoryLimitError) as caught:
            await do(sandbox, "eat_memory", where=where, bytes=768 << 20, seconds=30)
        assert isinstance(caught.value, RetryLaterError)
        # On the heap the processor itself is refused; shared pages are seen by the worker, which kills it.
        assert ("MemoryError" in (caught.value.traceback or "")) == (where == "heap")
        assert await do(sandbox, result={"n": 1}) == {"n": 1}


async def test_a_processor_may_use_memory_below_its_limit(tmp_path: Path) -> None:
    async with opened(tmp_path, Limits(timeout_seconds=60, memory_bytes=512 << 20)) as sandbox:
        assert await do(sandbox, "eat_memory", bytes=200 << 20, result={"n": 1}) == {"n": 1}


@pytest.mark.parametrize("text", ["\x05\0\0\0hello", "what is this, a message of two gigabytes?"])
async def test_a_child_that_sends_garbage_is_killed_and_fails_its_job(tmp_path: Path, text: str) -> None:
    async with opened(tmp_path) as sandbox:
        pid = await pid_of(sandbox)
        with pytest.raises(ProcessorCrashedError, match="message"):
            await do(sandbox, "garbage", text=text)
        await wait_until(lambda: not is_running(pid), "the child is dead")
        assert await do(sandbox, result={"n": 1}) == {"n": 1}


async def test_output_above_its_limit_is_refused_for_good(tmp_path: Path) -> None:
    limits = Limits(timeout_seconds=60, memory_bytes=1 << 30, output_bytes=10_000)
    async with opened(tmp_path, limits) as sandbox:
        with pytest.raises(InvalidOutputError, match="the limit is 10000") as caught:
            await do(sandbox, "big_output", bytes=10_000)
        assert isinstance(caught.value, GiveUpError)
        assert len((await do(sandbox, "big_output", bytes=9_000))["big"]) == 9_000


async def test_a_processor_that_prints_does_not_disturb_the_protocol(tmp_path: Path) -> None:
    async with opened(tmp_path) as sandbox:
        pid = await pid_of(sandbox)
        assert await do(sandbox, "print_noise", bytes=1_000_000, result={"n": 1}) == {"n": 1}
        assert await pid_of(sandbox) == pid


async def test_a_cancelled_run_kills_its_child_and_frees_the_slot(tmp_path: Path) -> None:
    async with opened(tmp_path) as sandbox:
        reports = Reports()
        given = SandboxJob(payload={"do": "hang", "files": {"half.bin": "x"}})
        run = asyncio.create_task(sandbox.run(given, reports))
        pid = await reports.part("pid")
        assert len(folders(tmp_path)) == 1
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert folders(tmp_path) == []
        await wait_until(lambda: not is_running(pid), "the child is dead")
        assert await do(sandbox, result={"n": 1}) == {"n": 1}


async def test_closing_kills_the_children_and_tells_who_still_runs(tmp_path: Path) -> None:
    sandbox = Sandbox("scripted", size=1, limits=GENEROUS, scratch=tmp_path)
    await sandbox.start()
    reports = Reports()
    running = asyncio.create_task(sandbox.run(SandboxJob(payload={"do": "hang"}), reports))
    waiting = asyncio.create_task(do(sandbox))
    pid = await reports.part("pid")
    await sandbox.close()
    for run in (running, waiting):
        with pytest.raises(SandboxClosedError):
            await run
    with pytest.raises(SandboxClosedError):
        await do(sandbox)
    assert not is_running(pid)
    assert everything_in(tmp_path) == []


async def test_a_processor_that_writes_too_much_is_stopped_whatever_it_deletes(tmp_path: Path) -> None:
    limits = Limits(timeout_seconds=60, memory_bytes=1 << 30, written_bytes=100 << 20)
    async with opened(tmp_path, limits) as sandbox:
        with pytest.raises(TooMuchWrittenError):
            await do(sandbox, "write", bytes=50 << 30, seconds=30)
        assert await do(sandbox, "write", bytes=50 << 20, result={"n": 1}) == {"n": 1}


def test_a_small_file_is_no_reason_to_write_much() -> None:
    limits = Limits(timeout_seconds=60, memory_bytes=1 << 30)
    assert limits.for_input(1000).written_bytes == (2 << 30) + 20_000
    assert limits.for_input(1 << 40).written_bytes == limits.written_bytes
