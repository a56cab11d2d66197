from __future__ import annotations

import logging

import pytest

from mediamill.api import server
from mediamill.testing import bridge_fuzz
from mediamill.testing.bridge_fuzz import BridgeFuzz
from tests.whatsapp.knocking import SECRET, Knocking, ask, frame, text

FRAMES = 2_000


@pytest.mark.spec("C40")
@pytest.mark.parametrize("seed", [1])
async def test_thousands_of_hostile_frames_do_no_harm(
    knocking: Knocking, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    fuzz = BridgeFuzz(f"{knocking.url}/api/bridge/whatsapp/bot", SECRET, frames=FRAMES, seed=seed)
    report = await fuzz.run()
    print(report.as_dict())
    assert report.faults == []
    assert report.frames == FRAMES
    assert report.acked + report.refused + report.unanswered == FRAMES
    assert report.refused > FRAMES / 2
    assert report.lines_ended == 2  # beyond the size, and no UTF-8: these alone end a line
    assert {"bad_json", "bad_payload", "binary_frame", "unknown_frame"} <= set(report.by_code)
    status = await knocking.until_status(refused=report.refused + FRAMES)  # each frame is followed by a mark
    assert status["refused"] == report.refused + FRAMES
    errors = [record for record in caplog.records if record.name.startswith("mediamill")]
    assert [record.getMessage() for record in errors] == []
    [(kept,)] = await knocking.rows("select count(*) from arrivals")
    assert kept <= report.acked + report.good_sent
    async with knocking.bridge() as line:
        assert (await ask(line, frame(text("still here"))))["type"] == "ack"


def test_the_fuzz_knows_the_limit_of_a_frame() -> None:
    assert bridge_fuzz.LARGEST_FRAME_BYTES == server.FRAME_BYTES
