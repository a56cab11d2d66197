"""What `mediamill check` and `mediamill doctor` say of Redis."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from tests.cli.conftest import Mediamill, Said
from tests.dispatch.redis_server import RedisServer


@pytest.fixture
async def locked_redis(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RedisServer]:
    """With a password, and named by the settings."""
    server = RedisServer(password="sesame")
    await server.started()
    monkeypatch.setenv("MEDIAMILL_QUEUE_MODE", "hybrid")
    monkeypatch.setenv("MEDIAMILL_REDIS_URL", server.url)
    yield server
    server.close()


def about_redis(said: Said) -> tuple[str, str, str | None]:
    (found,) = [each for each in json.loads(said.out)["findings"] if each["about"] == "redis"]
    return found["status"], found["message"], found["fix"]


@pytest.mark.spec("E30-redis")
async def test_a_redis_that_will_do_is_named_with_its_version(
    mediamill: Mediamill, locked_redis: RedisServer
) -> None:
    status, message, _ = about_redis(await mediamill("check", "--json"))
    assert status == "ok"
    assert "for the queue mode hybrid" in message
    redis = (await mediamill("doctor", "--json")).json["redis"]
    assert (redis["mode"], redis["relayed"], redis["hints"], redis["breaker"]) == ("hybrid", False, 0, None)
    assert "told of jobs" in (await mediamill("doctor")).out


@pytest.mark.spec("E30-redis")
@pytest.mark.parametrize("password", ["open-barley", ""])
async def test_a_wrong_password_is_told_in_plain_words_and_not_shown(
    mediamill: Mediamill, locked_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    monkeypatch.setenv("MEDIAMILL_REDIS_URL", locked_redis.url_with(password))
    said = await mediamill("check", "--json")
    status, message, fix = about_redis(said)
    assert (said.code, status) == (1, "fault")
    assert message == "Redis: it refuses the user or the password"
    assert "MEDIAMILL_REDIS_URL" in (fix or "")
    assert "barley" not in said.out
    assert "refuses" in (await mediamill("doctor", "--json")).json["redis"]["error"]


@pytest.mark.spec("E30-redis")
async def test_a_redis_that_is_not_there_is_a_fault(mediamill: Mediamill, locked_redis: RedisServer) -> None:
    locked_redis.kill()
    status, message, fix = about_redis(await mediamill("check", "--json"))
    assert (status, message) == ("fault", "Redis: it cannot be reached")
    assert "start it" in (fix or "")


@pytest.mark.spec("E30-redis")
async def test_an_address_that_is_none_is_a_fault_without_its_password(
    mediamill: Mediamill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_QUEUE_MODE", "redis")
    monkeypatch.setenv("MEDIAMILL_REDIS_URL", "http://user:sesame@example.org")
    said = await mediamill("check", "--json")
    status, message, fix = about_redis(said)
    assert (status, "redis://user:password@host" in (fix or "")) == ("fault", True)
    assert "not the address of a Redis" in message
    assert "sesame" not in said.out


@pytest.mark.spec("E30-redis")
async def test_a_mode_with_redis_needs_its_address(
    mediamill: Mediamill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_QUEUE_MODE", "redis")
    said = await mediamill("check", "--json")
    assert said.code == 1
    assert "MEDIAMILL_QUEUE_MODE needs MEDIAMILL_REDIS_URL" in said.out
    refused = await mediamill("jobs", "list")
    assert "MEDIAMILL_QUEUE_MODE needs MEDIAMILL_REDIS_URL" in refused.err
