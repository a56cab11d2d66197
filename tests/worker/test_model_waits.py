"""Media whose model server is busy or down: nothing is given up, no attempt counts, and few requests are refused."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from PIL import Image

from mediamill.engine.model import NewJob
from mediamill.engine.pools import set_pools
from mediamill.engine.watch import overview
from mediamill.processors.registry import processor_names
from mediamill.staging.jobs import KINDS, PROCESS
from mediamill.testing.openai_server import DESCRIPTION, OpenAiServer
from tests.conftest import wait_until
from tests.ports import free_port
from tests.worker.working import Ground, ground

__all__ = ["ground"]

pytestmark = pytest.mark.spec("C31")

LITELLM = Path(__file__).parents[2] / ".tools" / "litellm" / "bin" / "litellm"
# The window is longer than a job waits in its child, so that some are put off.
IMAGES, LIMIT, WINDOW_SECONDS = 10, 6, 11
KEY = "sk-0123456789abcdef"
# The limit of a key: LiteLLM asks a function of ours, as there is no database for keys.
AUTHENTICATE = f"""
from litellm.proxy._types import UserAPIKeyAuth

async def authenticate(request, api_key):
    return UserAPIKeyAuth(api_key=api_key, rpm_limit={LIMIT})
"""


@pytest.fixture
async def images(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Ground:
    """One attempt for each: whatever counts as one is the end of it."""
    for kind in KINDS:
        ground.engine.kinds.add(kind)
    pool = {"name": "image", "matches": ["image/*"], "processor": "image", "memory_bytes": 2 << 30}
    async with ground.database.transaction() as connection:
        await set_pools(connection, [{**pool, "concurrency": 2, "max_attempts": 1}], processor_names())
    monkeypatch.setenv("MEDIAMILL_VISION", "openai")
    monkeypatch.setenv("MEDIAMILL_OPENAI_KEY", KEY)
    return ground


async def add(ground: Ground, folder: Path, count: int, kind: str = PROCESS) -> list[int]:
    file = folder / "red.png"
    Image.new("RGB", (60, 40), "red").save(file)
    jobs = [NewJob(kind, {"file": {"path": str(file)}}, mime_type="image/png")] * count
    async with ground.database.transaction() as connection:
        return await ground.enqueuer.enqueue_jobs(connection, jobs)


async def all_described(ground: Ground, ids: list[int]) -> None:
    """Each is done at its first attempt."""

    async def done() -> bool:
        assert await ground.one("select count(*) from dead_jobs") == 0
        return bool(
            await ground.one("select count(*) from finished_jobs where id = any ($1)", ids) == len(ids)
        )

    await wait_until(done)
    texts = await ground.one(
        "select array_agg(result ->> 'content') from finished_jobs where attempts = 1 and id = any ($1)", ids
    )
    assert [DESCRIPTION in text for text in texts] == [True] * len(ids)


async def test_a_server_that_is_down_is_waited_for(
    images: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setenv("MEDIAMILL_OPENAI_URL", f"http://127.0.0.1:{port}/v1")
    async with images.working():
        ids = await add(images, tmp_path, 3)
        await images.until_sql(
            "select count(*) > 0 from jobs where waits_for is not null and state = 'scheduled'"
        )
        async with images.database.connection() as connection:
            [wait] = (await overview(connection))["waits"]
        assert wait["server"] == f"127.0.0.1:{port}"
        assert "cannot be reached" in wait["reason"]
        assert await images.one("select max(attempts) from jobs where state = 'scheduled'") == 0
        with OpenAiServer(port=port):
            await all_described(images, ids)
    async with images.database.connection() as connection:
        assert (await overview(connection))["waits"] == []
    assert (images.folder / "scratch" / "model-servers").exists(), "what was learned is shared"


@contextmanager
def litellm(upstream: str, folder: Path) -> Iterator[str]:
    """A real proxy before the loopback server; its address once it answers."""
    port = free_port()
    (folder / "limit.py").write_text(AUTHENTICATE)
    model = {
        "model_name": "*",
        "litellm_params": {"model": "openai/*", "api_base": upstream, "api_key": "none"},
    }
    config = {
        "model_list": [model],
        "general_settings": {"custom_auth": "limit.authenticate"},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    command = [str(LITELLM), "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    environment = {
        **{"PATH": os.environ["PATH"], "HOME": str(folder), "NO_PROXY": "*"},
        **{"LITELLM_RATE_LIMIT_WINDOW_SIZE": str(WINDOW_SECONDS), "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    with (folder / "litellm.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


async def ask(url: str, key: str) -> int:
    """The status of an answer to a text; 0 if there is none."""
    body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}]}
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        try:
            answer = await client.post(f"{url}/v1/chat/completions", json=body, headers=headers)
        except httpx.TransportError:
            return 0
    return answer.status_code


async def is_warm(url: str) -> bool:
    """The first answer takes long. Another key has another limit."""
    return await ask(url, "sk-another-0123456789") == 200


async def has_been_asked(server: OpenAiServer) -> bool:
    return bool(server.seen)


async def test_a_proxy_with_a_rate_limit_loses_nothing_and_refuses_little(
    images: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "proxy"
    folder.mkdir()
    with OpenAiServer() as server, litellm(f"{server.url}/v1", folder) as url:
        monkeypatch.setenv("MEDIAMILL_OPENAI_URL", f"{url}/v1")
        await wait_until(lambda: is_warm(url))
        server.seen.clear()
        async with images.working():
            ids = await add(images, tmp_path, IMAGES)
            await wait_until(lambda: has_been_asked(server))
            assert [await ask(url, KEY), await ask(url, KEY)] == [
                200,
                200,
            ]  # somebody else uses the limit, too
            await all_described(images, ids)
        lines = (folder / "litellm.log").read_text().splitlines()
    answers = Counter(line.rsplit('" ', 1)[1] for line in lines if "POST /v1/chat/completions" in line)
    refused = answers["429 Too Many Requests"]
    assert answers["200 OK"] - 1 == len(server.seen) == IMAGES + 2
    assert 1 <= refused <= 3
