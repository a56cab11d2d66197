from __future__ import annotations

import json
from typing import Any

import pytest

from mediamill.conversations.media_pools import default_definitions
from tests.api.serving import Served

QUOTA = "/api/configuration/media_storage_quota_gb"
DEFINITIONS = "/api/configuration/_mediaProcessorDefinitions"


async def value(served: Served, path: str) -> Any:
    return (await served.client.get(path)).json()["value"]


async def pools(served: Served) -> dict[str, dict[str, Any]]:
    found = (await served.client.get("/api/pools")).json()["pools"]
    return {pool["name"]: {key: each for key, each in pool.items() if key != "jobs"} for pool in found}


def define(types: list[str], processor: str = "StubAudioProcessor", **more: Any) -> dict[str, Any]:
    return {"mimeTypes": types, "processorClass": processor, "concurrentProcessingPoolSize": 2, **more}


CATCH_ALL = define([], "UnsupportedMediaProcessor")


@pytest.mark.spec("C21")
async def test_the_quota_is_25_until_it_is_set(served: Served) -> None:
    assert await value(served, QUOTA) == 25
    answer = await served.client.put(QUOTA, json={"value": 50.5})
    assert answer.json() == {"name": "media_storage_quota_gb", "value": 50.5}
    listed = (await served.client.get("/api/configuration")).json()["configuration"]
    assert listed["media_storage_quota_gb"] == 50.5
    assert (await served.client.delete(QUOTA)).json()["value"] == 25
    assert await value(served, QUOTA) == 25


@pytest.mark.parametrize("bad", [0, -1, "50", True, [], {}, 1_000_000])
async def test_a_bad_quota_is_refused_and_the_old_one_stays(served: Served, bad: Any) -> None:
    await served.client.put(QUOTA, json={"value": 30})
    answer = await served.client.put(QUOTA, json={"value": bad})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_configuration")
    assert await value(served, QUOTA) == 30


async def test_a_value_that_is_not_there_is_not_found(served: Served) -> None:
    for method in ("GET", "PUT", "DELETE"):
        body = {"value": 1} if method == "PUT" else None
        answer = await served.client.request(method, "/api/configuration/colour", json=body)
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown_configuration")
    assert (await served.client.put(QUOTA, json={})).status_code == 422


@pytest.mark.spec("C24")
async def test_the_definitions_are_read_off_the_pools_and_are_the_default_at_first(served: Served) -> None:
    def sort(document: list[dict[str, Any]]) -> list[str]:
        return sorted(json.dumps({**each, "mimeTypes": sorted(each["mimeTypes"])}) for each in document)

    found = await value(served, DEFINITIONS)
    assert sort(found) == sort(default_definitions())
    assert found[-1]["mimeTypes"] == []
    await served.client.put("/api/pools/audio", json={"concurrency": 7})
    again = await value(served, DEFINITIONS)
    audio = next(each for each in again if each["mimeTypes"] == ["audio/*"])
    assert (audio["concurrentProcessingPoolSize"], audio["processorClass"]) == (
        7,
        "AudioTranscriptionProcessor",
    )
    assert audio["processingTimeoutSeconds"] == 300


@pytest.mark.spec("C24")
async def test_the_definitions_that_were_read_change_nothing_when_they_are_set(served: Served) -> None:
    before = await pools(served)
    document = await value(served, DEFINITIONS)
    assert (await served.client.put(DEFINITIONS, json={"value": document})).status_code == 200
    after = await pools(served)
    assert {name: {**pool, "matches": set(pool["matches"])} for name, pool in after.items()} == {
        name: {**pool, "matches": set(pool["matches"])} for name, pool in before.items()
    }


@pytest.mark.spec("C24")
async def test_definitions_become_pools_and_job_kinds_keep_theirs(served: Served) -> None:
    document = [
        define(["audio/*", "video/ogg"], processingTimeoutSeconds=30),
        define(["model/stl"], "stub-image"),
        CATCH_ALL,
    ]
    answer = await served.client.put(DEFINITIONS, json={"value": document})
    assert answer.status_code == 200, answer.text
    now = await pools(served)
    libraries = {"library_scans", "library_images", "library_videos", "library_tags", "embed"}
    kinds = {"scripted", "transcode", "captions", "intake", "default"} | libraries
    assert set(now) == {"audio", "model", "unsupported"} | kinds
    assert set(now["audio"]["matches"]) == {"audio/*", "video/ogg"}
    assert (now["audio"]["processor"], now["audio"]["timeout_seconds"]) == ("stub-audio", 30)
    assert now["audio"]["memory_bytes"] == 2 << 30  # what the document cannot say stays
    assert (now["model"]["processor"], now["model"]["timeout_seconds"]) == ("stub-image", 60)
    assert now["unsupported"]["matches"] == ["*/*"]
    assert now["default"]["matches"] == []
    assert (await served.client.delete(DEFINITIONS)).status_code == 200
    assert {"audio", "video", "image"} <= set(await pools(served))
    assert len(await pools(served)) == 17


@pytest.mark.spec("C24")
async def test_waiting_jobs_go_to_the_pool_that_takes_their_type_now(served: Served) -> None:
    job = await served.enqueue(kind="scripted.inline", mime_type="image/webp")
    sql = "select pool from jobs where id = $1"
    assert await served.one(sql, job) == "stickers"
    await served.client.put(DEFINITIONS, json={"value": [define(["image/*"], "stub-image"), CATCH_ALL]})
    assert await served.one(sql, job) == "image"


@pytest.mark.spec("C24")
async def test_a_pool_that_serves_a_job_kind_too_keeps_it(served: Served) -> None:
    mixed = {"matches": ["film.cut", "video/x-film"], "processor": "video"}
    assert (await served.client.put("/api/pools/films", json=mixed)).status_code == 200
    await served.client.put(DEFINITIONS, json={"value": [CATCH_ALL]})
    assert (await pools(served))["films"]["matches"] == ["film.cut"]


@pytest.mark.spec("C24")
@pytest.mark.parametrize(
    ("document", "faults"),
    [
        ({}, ["must be a list"]),
        ([5], ["must be a list"]),
        ([], ["exactly one definition must be the catch-all"]),
        ([CATCH_ALL, CATCH_ALL], ["exactly one definition must be the catch-all"]),
        ([define(["audio/*"]), define(["audio/*"]), CATCH_ALL], ["audio/* is named twice"]),
        ([define(["*/*"]), CATCH_ALL], ["'*/*' is no mime type"]),
        (
            [
                define(["audio"], "Magic", colour="red"),
                {"mimeTypes": "audio/*", "processorClass": 5, "concurrentProcessingPoolSize": 0},
                define(["a/b"], processingTimeoutSeconds=-1),
                define(["c/d"], processingTimeoutSeconds=10**400),
                define([], concurrentProcessingPoolSize=True),
            ],
            [
                "definition 1: there is no 'colour'",
                "definition 1: 'audio' is no mime type",
                "definition 1: processorClass: there is no processor 'Magic'",
                "definition 2: mimeTypes must be a list",
                "definition 2: processorClass",
                "definition 2: concurrentProcessingPoolSize",
                "definition 3: processingTimeoutSeconds",
                "definition 4: processingTimeoutSeconds",
                "definition 5: concurrentProcessingPoolSize",
            ],
        ),
    ],
)
async def test_a_bad_document_is_refused_with_all_its_faults_and_the_old_one_stays(
    served: Served, document: Any, faults: list[str]
) -> None:
    before = await pools(served)
    answer = await served.client.put(DEFINITIONS, json={"value": document})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_configuration")
    told = answer.json()["faults"]
    assert len(told) == len(faults), told
    for fault, each in zip(faults, told, strict=True):
        assert fault in each
    assert await pools(served) == before
