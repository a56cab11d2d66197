from __future__ import annotations

from typing import Any

import pytest

from tests.api.serving import Served


async def names(served: Served) -> list[str]:
    return [pool["name"] for pool in (await served.client.get("/api/pools")).json()["pools"]]


@pytest.mark.spec("E16")
async def test_a_pool_is_changed_while_running_and_keeps_what_was_not_named(served: Served) -> None:
    answer = await served.client.put("/api/pools/voice", json={"matches": ["audio/ogg"], "concurrency": 3})
    assert answer.status_code == 200
    await served.client.put("/api/pools/voice", json={"concurrency": 5})
    pools = {pool["name"]: pool for pool in (await served.client.get("/api/pools")).json()["pools"]}
    assert (pools["voice"]["concurrency"], pools["voice"]["matches"]) == (5, ["audio/ogg"])
    assert pools["voice"]["timeout_seconds"] == 60
    job = await served.enqueue(mime_type="audio/ogg", kind="scripted.inline")
    assert (await served.client.get(f"/api/jobs/{job}")).json()["pool"] == "voice"
    assert (await served.client.delete("/api/pools/voice")).status_code == 200
    assert (await served.client.get(f"/api/jobs/{job}")).json()["pool"] == "default"


@pytest.mark.spec("E16")
@pytest.mark.parametrize(
    ("definitions", "fault"),
    [
        ([{"name": "a", "matches": ["x"]}], "no pool is the catch-all"),
        ([{"name": "a"}, {"name": "b"}], "more than one catch-all: a, b"),
        ([{"name": "a", "processor": "magic"}], "there is no processor 'magic'"),
        ([{"name": "a", "concurrency": 0}], "concurrency must be between 1"),
        ([{"name": "a", "colour": "red"}], "there is no setting 'colour'"),
        (
            [{"name": "a"}, {"name": "b", "matches": ["m"]}, {"name": "c", "matches": ["m"]}],
            "m is matched by b and by c",
        ),
        ([], "no pool is the catch-all"),
    ],
)
async def test_a_bad_set_of_pools_is_refused_by_name_and_the_old_one_stays(
    served: Served, definitions: list[dict[str, Any]], fault: str
) -> None:
    before = await names(served)
    answer = await served.client.put("/api/pools", json=definitions)
    assert answer.status_code == 422
    assert answer.json()["code"] == "pool_invalid"
    assert any(fault in found for found in answer.json()["faults"])
    assert await names(served) == before


async def test_all_faults_are_listed_at_once(served: Served) -> None:
    answer = await served.client.put("/api/pools/x", json={"concurrency": "many", "retry": 1, "what": 2})
    assert len(answer.json()["faults"]) == 3
