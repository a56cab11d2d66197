"""The bridge's process and the calls to it, with a scripted bridge in a real Node.js."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from mediamill.conversations import bots
from mediamill.conversations.provider import NotConnectedError
from mediamill.db.connection import Database
from mediamill.errors import GiveUpError
from mediamill.providers.whatsapp import install, process
from mediamill.providers.whatsapp.install import MAIN, find_source
from mediamill.providers.whatsapp.process import backend_url
from mediamill.providers.whatsapp.provider import WhatsAppProvider
from mediamill.settings import Settings
from tests.conftest import wait_until
from tests.crash.processes import is_alive, until_dead
from tests.whatsapp.knocking import ANN, SECRET, Knocking, ask, frame, knocking_at, text

KEY = "a key that is none of the bridge's business"
SCRIPTED = Path(__file__).with_name("scripted_bridge")


class Scripted:
    """A server whose bridge is the scripted one."""

    def __init__(self, knocking: Knocking, folder: Path) -> None:
        self.knocking, self._calls = knocking, folder / "whatsapp" / "calls.jsonl"

    @property
    def provider(self) -> WhatsAppProvider:
        found = self.knocking.served.keeper.get("bot").providers["whatsapp"]
        assert isinstance(found, WhatsAppProvider)
        return found

    def calls(self, route: str | None = None) -> list[dict[str, Any]]:
        """What it was asked, and its starts."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        found = [json.loads(line) for line in lines]
        return [call for call in found if route is None or call.get("route") == route]

    def pids(self) -> list[int]:
        return [call["pid"] for call in self.calls() if "started" in call]

    async def until_initialized(self, times: int = 1) -> list[dict[str, Any]]:
        async def there() -> bool:
            return len(self.calls("/initialize")) >= times

        await wait_until(there, 60)
        return self.calls("/initialize")

    async def stop(self, bot_id: str = "bot") -> None:
        async with self.knocking.served.database.transaction() as connection:
            await bots.stop_bot(connection, bot_id)
        await self.knocking.served.keeper.keep_once()


@pytest.fixture
async def scripted(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scripted]:
    """Without a bot yet."""
    source = tmp_path / "source"
    shutil.copytree(SCRIPTED, source)
    monkeypatch.setattr(process, "find_source", lambda: source)
    monkeypatch.setenv("MEDIAMILL_OPENAI_KEY", KEY)
    monkeypatch.setenv("SOME_TOKEN", KEY)
    async with knocking_at(database, tmp_path, bridge_url=None) as knocking:
        yield Scripted(knocking, tmp_path)


@pytest.mark.spec("C42", "C21")
async def test_the_first_bot_starts_the_bridge_and_the_last_one_stops_it(scripted: Scripted) -> None:
    knocking = scripted.knocking
    await knocking.served.client.put("/api/configuration/media_storage_quota_gb", json={"value": 7})
    await knocking.create(providers={"whatsapp": {"mark": 1}})
    [call] = await scripted.until_initialized()
    assert call["right"]
    assert call["body"] == {"bot_id": "bot", "provider_config": {"mark": 1}, "media_storage_quota_gb": 7}
    await knocking.create("second")
    await scripted.until_initialized(2)
    [pid] = scripted.pids()
    shown = f"{psutil.Process(pid).environ()} {psutil.Process(pid).cmdline()}"
    assert not [secret for secret in (SECRET, KEY) if secret in shown]
    await scripted.stop()
    assert is_alive(pid)
    await scripted.stop("second")
    assert [call["body"]["bot_id"] for call in scripted.calls("/stop")] == ["bot", "second"]
    await until_dead(pid)


@pytest.mark.spec("C42")
async def test_packages_are_set_up_on_first_use_and_told(
    scripted: Scripted, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await scripted.knocking.create()
    status = await scripted.knocking.until_status(state="installing")
    assert "installing" in status["detail"] or "setting up" in status["detail"]
    await scripted.until_initialized()
    [start] = [call for call in scripted.calls() if "started" in call]
    assert Path(start["main"]).is_relative_to(tmp_path / "tools" / "whatsapp")
    assert "WhatsApp bridge: setting up whatsapp" in caplog.text
    assert not any(name.startswith("MEDIAMILL_") for name in start["started"])


@pytest.mark.spec("C42")
async def test_a_set_up_that_fails_is_told_and_tried_again(
    scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "source" / "package-lock.json"
    right = lock.read_text()
    lock.write_text("{")
    await scripted.knocking.create()

    async def told() -> bool:
        return "cannot be set up" in str((await scripted.knocking.status()).get("detail"))

    await wait_until(told, 60)
    lock.write_text(right)
    await scripted.until_initialized()


@pytest.mark.spec("C21", "C42")
async def test_a_changed_quota_reaches_the_running_bridge_and_restarts_nothing(scripted: Scripted) -> None:
    knocking = scripted.knocking
    await knocking.create()
    await scripted.until_initialized()
    async with knocking.bridge() as line:
        await ask(line, frame(text("before")))
        before = scripted.provider
        await knocking.served.client.put("/api/configuration/media_storage_quota_gb", json={"value": 7})
        await knocking.served.keeper.keep_once()

        async def is_told() -> bool:
            return bool(scripted.calls("/initialize")[-1]["body"]["media_storage_quota_gb"] == 7)

        await wait_until(is_told, 60)
        assert (await ask(line, frame(text("after"))))["type"] == "ack"
    assert scripted.provider is before
    assert scripted.calls("/stop") == []


@pytest.mark.spec("C42")
async def test_a_bridge_that_dies_is_started_again_and_told_of_the_bot_again(scripted: Scripted) -> None:
    await scripted.knocking.create()
    await scripted.until_initialized()
    with pytest.raises(NotConnectedError):
        await scripted.provider.send(ANN, "die", "1")
    await scripted.until_initialized(2)
    first, second = scripted.pids()
    assert first != second
    assert await scripted.provider.send(ANN, "hello", "2") == "WA-2"


@pytest.mark.spec("C42")
async def test_sending_tells_apart_what_passes_and_what_does_not(scripted: Scripted) -> None:
    await scripted.knocking.create()
    await scripted.until_initialized()
    send = scripted.provider.send
    assert await send(ANN, "hello", "1") == "WA-1"
    for passing in ("offline", "nonsense", "forget"):
        with pytest.raises(NotConnectedError):
            await send(ANN, passing, "2")
    await scripted.until_initialized(2)  # it had forgotten the bot
    with pytest.raises(GiveUpError, match="no such number"):
        await send(ANN, "bad", "3")
    sent = [call["body"] for call in scripted.calls("/send")]
    assert sent[0] == {"bot_id": "bot", "recipient": ANN, "text": "hello", "send_id": "1"}


@pytest.mark.spec("C42")
async def test_the_bridges_log_comes_into_ours_and_is_bounded(
    scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await scripted.knocking.create()
    await scripted.until_initialized()

    async def heard() -> bool:
        return "not JSON at all" in caplog.text

    await wait_until(heard, 30)
    [warning] = [record for record in caplog.records if "a warning of the bridge" in record.getMessage()]
    assert warning.levelno == logging.WARNING
    assert "code=5" in warning.getMessage()
    assert max(len(record.getMessage()) for record in caplog.records) < 5_000


async def test_nobody_to_call_is_not_connected(database: Database, tmp_path: Path) -> None:
    async with knocking_at(database, tmp_path) as knocking:
        await knocking.create()
        provider = knocking.served.keeper.get("bot").providers["whatsapp"]
        with pytest.raises(NotConnectedError, match="does not answer"):
            await provider.send(ANN, "hello", "1")


def test_the_bridges_code_is_found_and_a_wheel_would_carry_it() -> None:
    source = find_source()
    assert (source / MAIN).is_file()
    pyproject = (source.parents[1] / "pyproject.toml").read_text()
    for name in ("src", "package.json", "package-lock.json", ".npmrc"):
        assert (source / name).exists()
        assert f'"bridges/whatsapp/{name}" = "mediamill/bridges/whatsapp/{name}"' in pyproject
    assert install.OLDEST_NODE >= (20, 0)


def test_the_bridge_is_told_an_address_that_it_can_reach(tmp_path: Path) -> None:
    def told(host: str) -> str:
        return backend_url(Settings(data=tmp_path, host=host, port=99))

    assert told("127.0.0.1") == told("0.0.0.0") == "ws://127.0.0.1:99"
    assert told("::") == "ws://[::1]:99"
    assert told("mill.example") == "ws://mill.example:99"
