"""Project files on machines without a database: what cannot be downloaded, a worker killed with -9 in the middle."""

from __future__ import annotations

import pytest

from mediamill.intake.model import OUTPUTS, blob_path
from tests.crash.intake_ground import COMPLETED, SCANS, Doomed, database, ground, make_scans
from tests.crash.intake_order import assert_in_order, files_below, kill_family
from tests.crash.processes import Mill, mill
from tests.crash.shaky_model import invoice
from tests.intake.failing import NEVER_SECONDS, bring_back, hurry, take_away, until
from tests.intake.played import Ground
from tests.stories.remote_workers import far, let_leases_end, place, serve

__all__ = ["database", "ground", "mill"]


@pytest.mark.spec("P3", "E9", "E23")
async def test_a_far_worker_that_is_killed_while_it_reads_scans_is_replaced_by_another(
    mill: Mill, ground: Ground
) -> None:
    url = await serve(mill)
    file = await ground.add(content=make_scans(mill.folder / "scan.pdf"), name="scan.pdf")
    doomed = Doomed(await place(mill, "first", url), "scan", "far_away", "worker")
    mill.processes.append(doomed)
    assert await doomed.until_gone() == -9, doomed.said
    assert await ground.one("select count(*) from kept_files") == 1
    await let_leases_end(mill, "first")
    second, process = await far(mill, "second", url)
    await mill.until(COMPLETED)
    shown = await ground.show(file["id"])
    assert (shown["attempts"], shown["error"]) == (2, None)
    assert all(f"Page {n} of the letter" in shown["text"] for n in range(SCANS))
    assert [page["image"] for page in shown["pages"]] == [f"page-{n:05}.webp" for n in range(1, SCANS + 1)]
    await mill.until("select not exists (select from jobs where kind = 'file.analyse')")
    await kill_family(process)
    await assert_in_order(ground)
    assert {path.name for path in files_below(ground.data / OUTPUTS)} >= {"page-00001.webp", "pages.json"}
    assert files_below(second.folder / "data" / "intake") == set()
    mill.assert_no_traceback()


@pytest.mark.spec("P2", "P4", "E7", "E23")
async def test_a_file_that_a_far_worker_cannot_download_is_requeued_and_completed_when_it_is_there_again(
    mill: Mill, ground: Ground
) -> None:
    url = await serve(mill)
    await ground.run(
        "update pools set backoff_seconds = $1, backoff_limit_seconds = $1 where name = 'intake'",
        NEVER_SECONDS,
    )
    file = await ground.add(content=invoice(1), name="a.txt")
    path = blob_path(ground.data, bytes.fromhex(file["sha256"]))
    aside = take_away(path, "missing")
    _, process = await far(mill, "far", url)
    shown = await until(ground, file["id"], "queued", error=True)
    assert (shown["attempts"], shown["started_at"]) == (1, None)
    bring_back(aside, path)
    await hurry(ground, file)
    shown = await until(ground, file["id"], "completed")
    assert (shown["attempts"], shown["error"]) == (2, None)
    assert "INV-1" in shown["text"]
    await kill_family(process)
    await assert_in_order(ground)
