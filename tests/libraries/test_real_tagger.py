"""A photo of a cat through a real worker and the real models: found by word, with vectors, the source as it was."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from mediamill.worker.home import WorkerPlan
from mediamill.worker.local_home import LocalHome
from mediamill.worker.loop import Worker
from tests.conftest import wait_until
from tests.libraries.played import IMAGES, TAGS, Ground, ground
from tests.libraries.tagged import asset, finds

__all__ = ["ground"]

CAT = Path(__file__).parents[1] / "media" / "cat.jpg"


@pytest.mark.spec("L2", "L4", "L10", "L11")
async def test_a_photo_is_milled_tagged_and_found(ground: Ground) -> None:
    await ground.library(images=1)
    source = ground.root / "Photos" / "image-0000001"
    shutil.copy(CAT, source)
    source.chmod(0o400)
    plan = WorkerPlan(name="real", pools=(IMAGES, TAGS), data_folder=ground.data)
    worker = Worker(LocalHome(ground.database, ground.engine, plan), ground.engine, plan)
    working = asyncio.create_task(worker.run())
    try:

        async def tagged() -> bool:
            await ground.feed()
            found = await asset(ground)
            assert found["error"] is None, found["error"]
            return bool(found["status"] == "completed")

        await wait_until(tagged)
    finally:
        worker.stop()
        worker.stop()
        await working
    found = await asset(ground)
    assert "cat" in {tag["label"] for tag in json.loads(found["tags"])}
    assert await finds(ground, "cats") == [1]
    dimensions = "select array_agg(vector_dims(v)) from search_vectors where asset_id = 1"
    assert await ground.one(dimensions) == [384, 384]
    assert await ground.one("select name from ai_models where id = $1", found["tags_model_id"])
    assert source.read_bytes() == CAT.read_bytes()
