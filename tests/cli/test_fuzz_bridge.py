"""`mediamill fuzz --bridge`: a short run against a real server of its own."""

from __future__ import annotations

import asyncio

import pytest

from tests.cli.conftest import finish_process, start_process


@pytest.mark.spec("C40")
async def test_hostile_frames_at_a_real_server_end_well() -> None:
    process = start_process("fuzz", "--bridge", "--files", 200, "--seed", 3, "--json")
    said = await asyncio.to_thread(finish_process, process, 200)
    assert said.code == 0
    found = said.json
    assert (found["frames"], found["faults"], found["is_clean"]) == (200, [], True)
    assert found["refused"] > 100
