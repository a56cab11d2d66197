"""`mediamill bots create --telegram`: where the token comes from, and that nobody is shown it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from mediamill.testing.telegram_server import TOKEN
from tests.cli.conftest import Mediamill, environment, mediamill

__all__ = ["environment", "mediamill"]


async def test_the_token_is_read_from_a_file_and_hidden(mediamill: Mediamill, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n")
    made = await mediamill("bots", "create", "shop", "--telegram", "--token-file", file, "--json")
    assert made.json["config"]["providers"] == {"telegram": {"token": "********"}}
    changed = await mediamill("bots", "set", "shop", "reply=echo", "--json")
    assert changed.json["config"]["providers"] == {"telegram": {"token": "********"}}
    for words in (("show", "shop"), ("show", "shop", "--json"), ("list", "--json")):
        said = await mediamill("bots", *words)
        assert TOKEN not in said.out + said.err


async def test_what_is_no_token_is_refused_and_not_repeated(mediamill: Mediamill, tmp_path: Path) -> None:
    file = tmp_path / "token"
    for content in (b"my secret", b"\xff\xfe", b""):
        file.write_bytes(content)
        said = await mediamill("bots", "create", "shop", "--telegram", "--token-file", file)
        assert said.code == 1
        assert "my secret" not in said.err
    assert (await mediamill("bots", "list", "--json")).json == []


async def test_without_a_file_the_token_is_asked_for(
    mediamill: Mediamill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.prompt", lambda *_, **more: TOKEN if more["hide_input"] else "")
    made = await mediamill("bots", "create", "shop", "--telegram", "--no-start", "--json")
    assert made.json["config"]["providers"] == {"telegram": {"token": "********"}}


async def test_a_token_of_the_settings_stays_there(
    mediamill: Mediamill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_TELEGRAM_TOKEN", TOKEN)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    made = await mediamill("bots", "create", "shop", "--telegram", "--no-start", "--json")
    assert made.json["config"]["providers"] == {"telegram": {}}
