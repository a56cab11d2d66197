"""How long a worker waits for its server, by which way it goes there, and what goes with every word."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mediamill import traces
from mediamill.worker import server_link
from mediamill.worker.away import AwayError
from mediamill.worker.server_link import ServerLink
from tests.worker.canned import Asked, canned

pytestmark = pytest.mark.spec("E23")


async def _hang(_: Asked) -> tuple[Any, ...]:
    await asyncio.Event().wait()
    return 204, b""


async def test_a_server_that_says_nothing_is_away_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_link, "ANSWER_SECONDS", 0.05)
    async with canned() as server, asyncio.timeout(30):
        server.by_verb["hangs"] = _hang
        link = ServerLink(server.url, "key")
        with pytest.raises(AwayError, match=r"does not answer: ReadTimeout$"):
            await link.ask("GET", "/hangs")
        await link.close()


async def test_a_stream_has_the_patience_that_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    async with canned() as server, asyncio.timeout(30):
        server.by_verb["hangs"] = _hang
        link = ServerLink(server.url, "key")
        with pytest.raises(AwayError, match="does not answer"):
            async with link.stream("/hangs", read_seconds=0.05):
                raise AssertionError
        await link.close()
        monkeypatch.setattr(server_link, "ANSWER_SECONDS", 0.01)
        link = ServerLink(server.url, "key")

        async def answer_late(_: Asked) -> tuple[Any, ...]:
            await asyncio.sleep(0.2)
            return 200, {"late": 1}

        server.by_verb["late"] = answer_late
        async with link.stream("/late", read_seconds=30) as answer:
            assert await answer.aread() == b'{"late": 1}'
        await link.close()


async def test_a_worker_goes_straight_to_its_server_whatever_its_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with canned((200, {"a": 1}), (200, {"b": 2})) as server:
        link = ServerLink(server.url, "key")
        assert await link.ask("GET", "/a") == {"a": 1}
        async with link.stream("/b", read_seconds=30) as answer:
            assert await answer.aread() == b'{"b": 2}'
        await link.close()


async def test_a_step_that_is_traced_is_named_in_every_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "traceparent", lambda: "00-1-2-01")
    async with canned() as server:
        link = ServerLink(server.url, "key")
        await link.ask("GET", "/a")
        await link.ask("GET", "/a", headers={"X-Own": "1"})
        async with link.stream("/b", read_seconds=30):
            pass
        async with link.stream("/b", {"X-Own": "2"}, read_seconds=30):
            pass
        await link.close()
    assert [one.headers["traceparent"] for one in server.asked] == ["00-1-2-01"] * 4
    assert [one.headers.get("x-own") for one in server.asked] == [None, "1", None, "2"]


async def test_nobody_needs_to_listen_for_a_refusal() -> None:
    async with canned((403, {"code": "worker_revoked", "detail": "no"})) as server:
        link = ServerLink(server.url, "key")
        with pytest.raises(AwayError, match=r"^no$"):
            await link.ask("GET", "/a")
        await link.close()
