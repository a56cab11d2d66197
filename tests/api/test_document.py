"""The OpenAPI document: its types have names of their own, and it names the media types that really come."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.api.serving import Served
from tests.videos.played import Ground


def document(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = served.app.openapi()
    return found


@pytest.mark.spec("K1")
async def test_each_schema_has_a_title_of_its_own_and_large_bodies_have_names(served: Served) -> None:
    schemas = document(served)["components"]["schemas"]
    assert [
        title for title, count in Counter(each["title"] for each in schemas.values()).items() if count > 1
    ] == []
    assert [name for name in schemas if "__" in name] == []
    for methods in document(served)["paths"].values():
        for operation in methods.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                assert "properties" not in content["schema"], operation["operationId"]


@pytest.mark.spec("K1")
async def test_answers_come_in_a_media_type_that_the_document_names(served: Served) -> None:
    deps = served.app.state.deps
    video = await Ground(deps.database, deps.settings, deps.engine, deps.enqueuer).ready()
    output = (await served.client.get(f"/api/videos/{video}")).json()["output"]
    file = "/api/videos/{video_id}/files/{output}/{name}"
    for path, real in (
        ("/metrics", "/metrics"),
        (file, f"/api/videos/{video}/files/{output}/master.m3u8"),
        (file, f"/api/videos/{video}/files/{output}/thumbnail.jpg"),
        ("/api/videos/{video_id}/source", f"/api/videos/{video}/source"),
    ):
        answer = await served.client.get(real)
        assert answer.status_code == 200, real
        came = answer.headers["content-type"].partition(";")[0]
        named = document(served)["paths"][path]["get"]["responses"]["200"]["content"]
        assert {came, f"{came.partition('/')[0]}/*"} & set(named), (real, came)


@pytest.mark.spec("K1")
async def test_no_operation_asks_for_credentials_as_a_parameter(served: Served) -> None:
    for methods in document(served)["paths"].values():
        for operation in methods.values():
            names = {each["name"].lower() for each in operation.get("parameters", ())}
            assert not names & {"authorization", "x-admin-secret"}, operation["operationId"]
