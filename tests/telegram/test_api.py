"""The thin client against a Bot API that misbehaves: bounded, patient, and silent about the token."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator

import pytest

from mediamill.errors import MediamillError
from mediamill.providers.telegram import api as module
from mediamill.providers.telegram.api import (
    BotApi,
    ConflictToldError,
    FileGoneError,
    TelegramAwayError,
    TelegramRefusedError,
    TokenRefusedError,
)
from mediamill.testing.model_server import (
    DRIP,
    ELSEWHERE,
    HUGE,
    NONSENSE,
    RESET,
    WEB_PAGE,
    WRONG_SHAPE,
    Act,
    Reply,
    reply,
)
from mediamill.testing.telegram_server import TOKEN, TelegramServer, told_error
from tests.conftest import wait_until


@pytest.fixture
async def api(telegram: TelegramServer) -> AsyncIterator[BotApi]:
    made = BotApi(telegram.url, TOKEN)
    yield made
    await made.close()


@pytest.mark.parametrize(
    "act", [RESET, NONSENSE, WEB_PAGE, WRONG_SHAPE, ELSEWHERE, told_error(500), told_error(502)]
)
async def test_a_telegram_that_fails_is_away(api: BotApi, telegram: TelegramServer, act: Act) -> None:
    telegram.fault("getMe", act)
    with pytest.raises(TelegramAwayError):
        await api.call("getMe")
    assert (await api.call("getMe"))["username"] == "mill_bot"


@pytest.mark.parametrize(
    ("status", "family"),
    [
        (401, TokenRefusedError),
        (404, TokenRefusedError),
        (409, ConflictToldError),
        (400, TelegramRefusedError),
        (403, TelegramRefusedError),
    ],
)
async def test_what_telegram_refuses_has_an_error_of_its_own(
    api: BotApi, telegram: TelegramServer, status: int, family: type[MediamillError]
) -> None:
    telegram.fault("getMe", told_error(status, f"no, not with {TOKEN}"))
    with pytest.raises(family) as caught:
        await api.call("getMe")
    assert TOKEN not in f"{caught.value} {caught.value.message} {caught.value.fix}"


async def test_an_answer_without_end_is_cut_off(
    api: BotApi, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_BYTES", 1_000_000)
    telegram.fault("getMe", HUGE, DRIP)
    with pytest.raises(TelegramAwayError, match="more than"):
        await api.call("getMe")
    with pytest.raises(TelegramAwayError, match="in time"):
        await api.call("getMe", seconds=0.3)


async def test_too_many_requests_wait_as_long_as_telegram_asks_for_and_hold_up_no_other_method(
    api: BotApi, telegram: TelegramServer
) -> None:
    telegram.fault("sendMessage", told_error(429, "Too Many Requests", retry_after=1))
    begun = time.monotonic()
    await api.call("sendMessage", chat_id=1, text="hello")
    assert time.monotonic() - begun >= 1
    assert telegram.texts(1) == ["hello"]
    telegram.fault(
        "sendMessage", told_error(429, "Too Many Requests", retry_after=module.LONGEST_PAUSE_SECONDS)
    )
    sending = asyncio.create_task(api.call("sendMessage", chat_id=1, text="more"))

    async def waits() -> bool:
        return api._quiet_until["sendMessage"] - asyncio.get_running_loop().time() > 1

    await wait_until(waits)
    await api.call("getMe")
    assert not sending.done()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


async def test_a_pause_that_is_too_long_is_told_and_kept(api: BotApi, telegram: TelegramServer) -> None:
    telegram.fault("sendMessage", told_error(429, "Too Many Requests", retry_after=600))
    for _ in range(2):
        with pytest.raises(TelegramAwayError):
            await api.call("sendMessage", chat_id=1, text="hello")
    assert telegram.count("sendMessage") == 0  # the one that was asked was refused; the other was not asked


async def test_no_log_of_the_libraries_below_has_the_token(
    api: BotApi, telegram: TelegramServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    telegram.fault("getMe", RESET)
    with pytest.raises(TelegramAwayError) as caught:
        await api.call("getMe")
    await api.call("getMe")
    assert "getMe" in caplog.text
    assert TOKEN not in caplog.text
    assert TOKEN not in repr(caught.value)
    assert caught.value.__cause__ is None


async def test_nobody_there_is_told_without_the_address() -> None:
    api = BotApi("http://127.0.0.1:9", TOKEN)
    with pytest.raises(TelegramAwayError) as caught:
        await api.call("getMe")
    assert not caught.value.reached
    assert "127.0.0.1:9/bot" not in str(caught.value)
    await api.close()


@pytest.mark.parametrize("path", ["../secret", "a/../../b", "http://elsewhere/x", "a b", ""])
async def test_a_file_is_asked_for_by_a_plain_path_only(api: BotApi, path: str) -> None:
    with pytest.raises(FileGoneError):
        async with api.open_file(path):
            pass


async def test_a_file_that_is_gone_is_gone(api: BotApi, telegram: TelegramServer) -> None:
    telegram.fault("file", reply(Reply(status=404)))
    with pytest.raises(FileGoneError):
        async with api.open_file("documents/x.bin"):
            pass
