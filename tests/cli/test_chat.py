"""The small parts of `mediamill chat`; its stories are in tests/stories."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mediamill.cli.chat import _slug
from mediamill.cli.chat_session import Exchange
from mediamill.cli.chat_talk import read_file_line
from mediamill.cli.server_client import server_url
from mediamill.settings import Settings
from tests.cli.conftest import Mediamill


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my voice (1).ogg"
    path.write_bytes(b"media")
    return path


def test_a_path_as_terminals_write_it_when_a_file_is_dragged_in_is_a_file(file: Path) -> None:
    escaped = str(file).replace(" ", "\\ ").replace("(", "\\(").replace(")", "\\)")
    for line in (f"'{file}'", f'"{file}"', escaped, file.as_uri()):
        assert read_file_line(line) == (file, ""), line


def test_the_file_command_takes_a_caption(file: Path) -> None:
    assert read_file_line(f"/file '{file}' what is this?") == (file, "what is this?")
    assert read_file_line("/file it's") == (Path("it's"), "")


@pytest.mark.parametrize(
    "line", ["hello", "/etc", "it's fine", "/file", "/nowhere/at/all", "a\0b", "~", "/" + "x" * 9999]
)
def test_everything_else_is_text(line: str) -> None:
    assert read_file_line(line) is None


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Ann B.", "Ann-B"),
        ("Zoë", "Zo"),
        ("日本", "you"),
        ("../../x", "x"),
        ("a@b.org", "a@b.org"),
        ("x" * 200, "x" * 128),
    ],
)
def test_a_name_becomes_the_name_of_a_conversation(name: str, slug: str) -> None:
    assert _slug(name) == slug


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8420"),
        ("0.0.0.0", "http://127.0.0.1:8420"),
        ("::", "http://127.0.0.1:8420"),
        ("::1", "http://[::1]:8420"),
        ("mill.example", "http://mill.example:8420"),
    ],
)
def test_the_server_is_reached_where_it_listens(host: str, url: str) -> None:
    assert server_url(Settings(host=host, port=8420)) == url


def test_what_is_going_on_with_a_file_is_said_in_words() -> None:
    exchange = Exchange("m-1", "look", "cat.jpg", sent_percent=40)
    assert exchange.pending == "cat.jpg  sending 40 %"
    media: dict[str, Any] = {"state": "processing", "percent": 66.6, "failed_reason": None}
    exchange.message = {"id": 1, "content": "look", "media_processing_id": "g", "media": media}
    assert exchange.pending == "cat.jpg  processing 67 %"
    exchange.message = {"id": 1, "content": "look\n\na cat", "media_processing_id": None, "media": media}
    assert (exchange.text, exchange.is_ready) == ("a cat", True)
    assert [each.pending for each in (exchange,)] == [None]


async def test_another_program_on_the_port_is_told_from_a_server(
    mediamill: Mediamill, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        monkeypatch.setenv("MEDIAMILL_PORT", str(server.sockets[0].getsockname()[1]))
        said = await mediamill("chat", "hello")
    assert said.code == 1
    assert "is not a mediamill" in said.err
