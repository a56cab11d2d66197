"""Clients that others generate from our document: they are made without a warning, compile, and reach every noun."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mediamill.access.model import HERE
from mediamill.access.tokens import create_token
from mediamill.db.connection import Database
from mediamill.intake.jobs import intake_kinds
from mediamill.settings import Settings
from tests.api.chatting import create_bot, keeping
from tests.api.serving import Served, serve
from tests.foreign_clients.generating import Clients
from tests.search.ground import Ground as Rows
from tests.videos.played import Ground

CLIENTS = ("openapi-generator", "openapi-python-client", "typescript")


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    settings = Settings.model_validate({"data": tmp_path})
    async with serve(database, tmp_path, intake_kinds(settings), login="always") as served:
        yield served


def call(
    tag: str, operation: str, body: tuple[str, Any] | None = None, parameter: str = "", **arguments: Any
) -> dict[str, Any]:
    return {"tag": tag, "operation": operation, "body": body, "parameter": parameter, "arguments": arguments}


async def calls_of_every_noun(served: Served, client: httpx.AsyncClient) -> list[dict[str, Any]]:
    """One each; of what is a stream without an end, none."""
    asset = await Rows(served.database).asset(await Rows(served.database).library(), "dog.jpg", "a dog")
    deps = served.app.state.deps
    ground = Ground(deps.database, deps.settings, deps.engine, deps.enqueuer)
    video = str(await ground.ready())
    output = (await client.get(f"/api/videos/{video}")).json()["output"]
    await create_bot(served)
    answer = await client.post("/api/projects", json={"slug": "bills", "name": "Bills"})
    assert answer.status_code == 201, answer.text
    tus = {"Tus-Resumable": "1.0.0", "Upload-Length": "10"}
    upload = (await client.post("/api/uploads", headers=tus)).headers["location"].rpartition("/")[2]
    message = {"thread_key": "holiday", "text": "Where to?", "delivery_mode": "prompt"}
    return [
        call("health", "metrics_metrics_get"),
        call("jobs", "list_jobs_api_jobs_get"),
        call("dead", "list_dead_api_dead_get"),
        call("pools", "list_pools_api_pools_get"),
        call("workers", "list_workers_api_workers_get"),
        call("owners", "list_held_api_owners_held_get"),
        call("bots", "list_bots_api_bots_get"),
        call("chat", "say_api_bots_bot_id_chat_correspondent_messages_post", ("TextIn", {"text": "Hello"}),
             "text_in", bot_id="demo", correspondent="ann"),
        call("conversations", "list_conversations_api_bots_bot_id_conversations_get", bot_id="demo"),
        call("configuration", "list_configuration_api_configuration_get"),
        call("messages", "send_message_v1_messages_post", ("MessageIn", message), "message_in"),
        call("runs", "list_runs_v1_threads_thread_key_runs_get", thread_key="holiday"),
        call("uploads", "show_upload_api_uploads_upload_id_head", upload_id=upload, tus_resumable="1.0.0"),
        call("videos", "list_videos_api_videos_get"),
        call("video files", "send_file_api_videos_video_id_files_output_name_get",
             video_id=video, output=output, name="master.m3u8"),
        call("libraries", "list_libraries_api_libraries_get"),
        call("assets", "show_asset_api_assets_asset_id_get", asset_id=asset),
        call("projects", "list_projects_api_projects_get"),
        call("project files", "add_file_api_projects_slug_files_post", ("", "Total: 12.00"), slug="bills",
             name="bill.txt"),
        call("proposals", "list_proposals_api_projects_slug_proposals_get", slug="bills"),
        call("search", "find_api_search_get", q="dog"),
        call("storage", "show_storage_api_storage_get"),
        call("worker", "register_api_worker_register_post", ("Registration", {"name": "far away"}), "registration"),
        call("access", "who_asks_api_whoami_get"),
    ]  # fmt: skip


@pytest.mark.spec("K1")
async def test_generated_clients_compile_and_reach_every_noun(served: Served, tmp_path: Path) -> None:
    async with served.database.transaction() as connection:
        token = (await create_token(connection, "generated", ["admin"], days=None, made_by=HERE)).token
    served.client.headers["Authorization"] = f"Bearer {token}"
    document = served.app.openapi()
    calls = await calls_of_every_noun(served, served.client)
    tags = {operation["tags"][0] for methods in document["paths"].values() for operation in methods.values()}
    assert {each["tag"] for each in calls} == tags - {"events"}
    (folder := tmp_path / "clients").mkdir()
    clients = Clients(folder)
    await clients.generate(document)
    async with keeping(served):
        for client in CLIENTS:
            answers = await clients.call(client, served.url, token, calls)
            assert [answer for answer in answers if answer["status"] not in (200, 201, 202)] == [], client
            nothing = [
                each["tag"] for each in answers if each["read"] in ("NoneType", "undefined", "Problem")
            ]
            assert nothing in ([], ["uploads"]), client  # whose answer is in its headers
