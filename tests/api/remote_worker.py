"""A remote worker as tests play it: nothing but a URL, a key, and words that they choose."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import httpx

from tests.api.serving import SECRET, Served


class Remote:
    """A worker with nothing but a URL and a key."""

    def __init__(self, served: Served, worker_id: int, key: str) -> None:
        self.served, self.id, self.key = served, worker_id, key

    async def post(self, verb: str, **body: Any) -> httpx.Response:
        return await self.served.client.post(
            f"/api/worker/{verb}", json=body, headers={"Authorization": f"Bearer {self.key}"}
        )

    async def get(self, job: dict[str, Any], what: str, **headers: str) -> httpx.Response:
        """Of a job that it shows the claim of."""
        return await self.served.client.get(
            f"/api/worker/jobs/{job['id']}/{what}",
            params={"token": job["token"]},
            headers={"Authorization": f"Bearer {self.key}", **headers},
        )

    async def put(
        self, job: dict[str, Any], where: str, body: Any, facts: Any = None, **headers: str
    ) -> httpx.Response:
        """A file; its hash is told right unless a header says otherwise."""
        told = {"Authorization": f"Bearer {self.key}", "X-Facts": json.dumps(facts or {})}
        if isinstance(body, bytes):
            told["X-Content-SHA256"] = hashlib.sha256(body).hexdigest()
        return await self.served.client.put(
            f"/api/worker/jobs/{job['id']}/{where}",
            params={"token": job["token"]},
            content=body,
            headers={**told, **headers},
        )

    async def claim(self, **wish: Any) -> list[dict[str, Any]]:
        answer = await self.post("claim", **wish)
        assert answer.status_code == 200, answer.text
        jobs: list[dict[str, Any]] = answer.json()["jobs"]
        return jobs


async def register(served: Served, name: str = "far away", **more: Any) -> Remote:
    answer = await served.client.post(
        "/api/worker/register", json={"name": name, **more}, headers={"X-Admin-Secret": SECRET}
    )
    assert answer.status_code == 201, answer.text
    return Remote(served, answer.json()["worker_id"], answer.json()["key"])


def shown(job: dict[str, Any]) -> dict[str, Any]:
    return {"job_id": job["id"], "token": job["token"]}


def told(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]
