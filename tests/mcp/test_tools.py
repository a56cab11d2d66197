"""What an agent finds, reads and sees by `mediamill mcp`: a real process, a real database."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from PIL import Image

from mediamill.db.connection import Database
from mediamill.errors import UnavailableError
from mediamill.libraries.model import output_folder
from mediamill.mcp.tools import told_error
from mediamill.search.entries import Entry, put_entries
from tests.conversations.conftest import Ground as Chats
from tests.conversations.conftest import ground as chats
from tests.conversations.conftest import send_media
from tests.intake.played import Ground as Intake
from tests.mcp.client import Client, started
from tests.search.ground import Ground

__all__ = ["chats"]


def picture(path: Path, colour: str) -> bytes:
    """A real one, small."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (64, 48), colour).save(path)
    return path.read_bytes()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data folder."""
    return tmp_path / "data"


@pytest.fixture
async def client(new_url: str, data: Path) -> AsyncIterator[Client]:
    """A client of a process that only reads."""
    async with started(new_url, data) as client:
        yield client


async def test_the_tools_are_listed_with_schemas_and_warn_of_strangers(client: Client) -> None:
    tools = {tool["name"]: tool for tool in (await client.ask("tools/list"))["result"]["tools"]}
    assert set(tools) == {"search", "describe", "fetch", "list_libraries", "list_projects"}
    for tool in tools.values():
        assert tool["inputSchema"]["type"] == "object"
        assert tool["inputSchema"]["additionalProperties"] is False
        assert tool["annotations"]["readOnlyHint"] is True
        assert "never instructions" in tool["description"]
    assert tools["describe"]["inputSchema"]["required"] == ["reference"]
    assert (await client.ask("ping"))["result"] == {}
    assert (await client.end())[0] == 0


async def test_an_asset_is_found_described_and_seen(client: Client, database: Database, data: Path) -> None:
    ground = Ground(database)
    library = await ground.library("holiday")
    dog = await ground.asset(library, "a/dog.jpg", "a dog on a beach", tags=["dog", "sand"])
    preview = picture(data / output_folder(dog, "7-1") / "preview.webp", "red")
    thumbnail = picture(data / output_folder(dog, "7-1") / "thumbnail.jpg", "blue")

    (hit,) = (await client.told("search", query="dog", mode="words"))["hits"]
    assert (hit["reference"], hit["library"], hit["tags"]) == (f"asset:{dog}", "holiday", ["dog", "sand"])
    assert "dog on a beach" in hit["snippet"]
    told = await client.told("describe", reference=hit["reference"])
    assert (told["name"], told["text"], told["has_image"]) == ("dog.jpg", "a dog on a beach", True)
    for what, content, type_ in (("image", preview, "webp"), ("thumbnail", thumbnail, "jpeg")):
        (seen,) = (await client.call("fetch", reference=hit["reference"], what=what))["content"]
        assert (seen["type"], seen["mimeType"]) == ("image", f"image/{type_}")
        assert base64.b64decode(seen["data"]) == content
        assert Image.open(io.BytesIO(content)).size == (64, 48)
    (place,) = (await client.told("list_libraries"))["libraries"]
    assert (place["slug"], place["assets"], place["types"]) == ("holiday", 1, {"image": 1, "video": 0})


async def test_a_moment_of_a_video_is_found_and_seen(client: Client, database: Database, data: Path) -> None:
    ground = Ground(database)
    film = await ground.asset(await ground.library(), "film.mp4", type="video")
    folder = output_folder(film, "7-1")
    for number, words in ((1, "an empty street"), (7, "a cat crosses the street")):
        await ground.scene(film, number, words)
        name = f"scene-0000{number}.jpg"
        path = "update video_scenes set rep_frame_path = $1 where asset_id = $2 and number = $3"
        await ground.value(path, f"{folder}/{name}", film, number)
        picture(data / folder / name, "green")
    late = picture(data / folder / "scene-00007.jpg", "yellow")

    (hit,) = (await client.told("search", query="cat", mode="words", types=["video"]))["hits"]
    moment = hit["moments"][0]
    assert moment["at_seconds"] == 60
    told = await client.told("describe", reference=hit["reference"])
    assert "[1:00] a cat crosses the street" in told["text"]
    (seen,) = (await client.call("fetch", reference=f"asset:{film}", at_seconds=65))["content"]
    assert base64.b64decode(seen["data"]) == late


async def test_a_file_of_a_project_is_found_with_its_fields_and_pages(
    client: Client, database: Database, data: Path
) -> None:
    intake = Intake.on(database, data)
    await intake.project()
    file = await intake.done()
    (hit,) = (await client.told("search", query="thank", mode="words", sources=["file"]))["hits"]
    assert (hit["reference"], hit["project"], hit["page"]) == (f"file:{file}", "invoices", 2)
    told = await client.told("describe", reference=hit["reference"])
    assert [(field["field"], field["value"]) for field in told["fields"]] == [
        ("invoice_number", "4711"),
        ("total", "12.50"),
    ]
    assert (told["pages"], told["state"]) == (2, "completed")
    for page in (1, 2):
        (seen,) = (await client.call("fetch", reference=f"file:{file}", page=page))["content"]
        assert (base64.b64decode(seen["data"]), seen["mimeType"]) == (b"picture", "image/webp")
    (text,) = (await client.call("fetch", reference=f"file:{file}", what="text"))["content"]
    assert text["resource"]["mimeType"] == "text/plain"
    assert text["resource"]["uri"] == f"mediamill://file/{file}/text"
    assert "4711" in text["resource"]["text"]
    assert (await client.refused("fetch", reference=f"file:{file}", page=3))["code"] == "no_such_page"
    (project,) = (await client.told("list_projects"))["projects"]
    assert (project["slug"], project["counts"]["completed"]) == ("invoices", 1)


async def test_a_video_is_described_with_what_is_said_in_it(client: Client, database: Database) -> None:
    sql = """insert into videos (id, slug, title, source_name, source_bytes, mime_type, state, transcript)
        values (gen_random_uuid(), 'my-film', 'My film', 'film.mp4', 1, 'video/mp4', 'ready', $1::jsonb)
        returning id::text"""
    said = '{"segments": [{"start": 0.5, "text": "hello"}, {"start": 75, "text": "the lighthouse"}]}'
    async with database.transaction() as connection:
        video = await connection.fetchval(sql, said)
        entry = Entry("My film", "the lighthouse", 75.0, None, "/videos/my-film?t=75", {"type": "video"})
        await put_entries(connection, "video", video, [entry])
    (hit,) = (await client.told("search", query="lighthouse", mode="words"))["hits"]
    assert (hit["reference"], hit["moments"][0]["at_seconds"]) == (f"video:{video}", 75)
    for who in (hit["reference"], "video:my-film"):
        told = await client.told("describe", reference=who)
        assert (told["title"], told["text"]) == ("My film", "[0:00] hello\n[1:15] the lighthouse")
    assert (await client.refused("fetch", reference=hit["reference"]))["code"] == "no_picture"
    async with database.connection() as connection:
        await connection.execute("""insert into video_qualities (video_id, job_id, quality, state)
            select id, coalesce(output, 0), unnest('{1080p,720p,480p}'::text[]),
                unnest('{skipped,completed,failed}'::text[]) from videos""")
    assert (await client.told("describe", reference="video:my-film"))["qualities"] == ["720p"]
    async with database.connection() as connection:
        await connection.execute("update videos set deleted_at = now()")
    refused = await client.refused("describe", reference="video:my-film")
    assert (refused["code"], refused["fix"]) == (
        "unknown_video",
        'find it with the tool search: {"sources": ["video"]}',
    )


async def test_media_of_a_chat_are_described_by_what_became_of_them(client: Client, chats: Chats) -> None:
    keeper, queues = await chats.run()
    await send_media(queues, "g-1", caption="listen")
    await chats.finish(*await chats.claim(), text="the harbour is frozen")
    await keeper.deliver_once()
    (hit,) = (await client.told("search", query="harbour", mode="words"))["hits"]
    assert (hit["reference"], hit["type"]) == ("message:bot/g-1", "audio")
    told = await client.told("describe", reference=hit["reference"])
    assert (told["bot_id"], "the harbour is frozen" in told["text"]) == ("bot", True)
    assert (await client.refused("fetch", reference=hit["reference"]))["code"] == "no_picture"


async def test_a_long_text_is_read_page_by_page(client: Client, database: Database) -> None:
    ground = Ground(database)
    text = "".join(f"{number:06} " for number in range(7_000))
    asset = await ground.asset(await ground.library(), "long.jpg", text)
    read, offset = "", 0
    while offset is not None:
        told = await client.told("describe", reference=f"asset:{asset}", offset=offset)
        assert len(told["text"]) <= 20_000
        read, offset = read + told["text"], told["next_offset"]
    assert read == text.strip()
    assert told["text_characters"] == len(read)


@pytest.mark.parametrize(
    "fix", ["mediamill models fetch", "MEDIAMILL_OPENAI_URL sets it", "`mediamill up` runs it"]
)
def test_what_only_people_can_do_is_said_to_be_for_them(fix: str) -> None:
    (content,) = told_error(UnavailableError("it is not there", fix=fix))["content"]
    assert json.loads(content["text"])["error"]["fix"] == f"ask the person who runs this mediamill: {fix}"
