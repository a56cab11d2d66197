"""What a job needs may not be there now: the attempt is given back, from wherever the processor runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mediamill.db.connection import Database
from mediamill.engine.model import failure_of
from mediamill.errors import NotNowError, Wait
from mediamill.worker.failures import ProcessorWaitsError
from mediamill.worker.sandbox import Limits, Sandbox, SandboxJob
from tests.api.remote_worker import register, shown
from tests.api.serving import serve

pytestmark = pytest.mark.spec("E7")


async def test_a_processor_in_a_child_says_so(tmp_path: Path) -> None:
    sandbox = Sandbox("embed", size=1, limits=Limits(60, 2 << 30, 100_000), scratch=tmp_path)
    await sandbox.start()
    try:
        with pytest.raises(ProcessorWaitsError) as told:
            await sandbox.run(SandboxJob({"texts": ["a"], "model": "somebody@7"}))
    finally:
        await sandbox.close()
    assert isinstance(told.value, NotNowError)
    assert told.value.code == "other_model"
    assert failure_of(told.value).wait == Wait()


async def test_a_remote_worker_says_so_however_often(database: Database, tmp_path: Path) -> None:
    async with serve(database, tmp_path) as served:
        worker = await register(served)
        id_ = await served.enqueue()
        for _ in range(10):
            [job] = await worker.claim()
            assert job["attempts"] == 1
            answer = await worker.post("fail", **shown(job), error="not now", counts=False)
            assert answer.json()["dead"] is False
            await served.run("update jobs set state = 'queued', run_after = now()")
        assert await served.one("select error from jobs where id = $1", id_) == "not now"
        [job] = await worker.claim()
        wait = {"seconds": 600, "server": "gpu:4000"}
        await worker.post("fail", **shown(job), error="busy", counts=False, wait=wait)
        assert (
            await served.one("select waits_for from jobs where run_after > now() + interval '9 minutes'")
            == "gpu:4000"
        )
        await served.run("update jobs set state = 'queued', run_after = now()")
        [job] = await worker.claim()
        answer = await worker.post("fail", **shown(job), error="no", permanent=True, counts=False)
        assert answer.json()["dead"] is True
