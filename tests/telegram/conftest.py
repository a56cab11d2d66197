"""A loopback Telegram, and a ground on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mediamill.app import App, all_kinds
from mediamill.db.connection import Database
from mediamill.engine.rules import Engine
from mediamill.providers.telegram import consume, failures, poll
from mediamill.settings import Settings
from mediamill.testing.telegram_server import TelegramServer
from tests.telegram.grounds import Ground


@pytest.fixture
def telegram() -> Iterator[TelegramServer]:
    with TelegramServer() as opened:
        yield opened


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are short."""
    monkeypatch.setattr(failures, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(consume, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(poll, "FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(poll, "REFUSED_SECONDS", 0.2)


@pytest.fixture
async def ground(
    database: Database, telegram: TelegramServer, tmp_path: Path, quick: None
) -> AsyncIterator[Ground]:
    """All that a bot on Telegram needs."""
    settings = Settings(data=tmp_path, ingest_seconds=0.05, telegram_url=telegram.url)
    app = App.of(settings, database, Engine.from_settings(settings, all_kinds(settings)))
    await app.run_watch.start()
    made = Ground(app, telegram)
    yield made
    await made.end()
    await app.run_watch.close()
