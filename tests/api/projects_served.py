"""A server with projects, and requests whose status is checked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mediamill.intake.jobs import intake_kinds
from tests.api.serving import Served, serve
from tests.intake.played import Ground


@pytest.fixture
async def served(ground: Ground) -> AsyncIterator[Served]:
    """A server with the data folder of the ground."""
    async with serve(ground.database, ground.data, intake_kinds(ground.settings)) as served:
        yield served


async def ask(served: Served, method: str, path: str, status: int = 200, **more: Any) -> Any:
    answer = await served.client.request(method, path, **more)
    assert answer.status_code == status, answer.text
    if status >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()
