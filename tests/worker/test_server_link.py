"""What a remote worker makes of each answer of its server: away, refused, too late, not now, or wrong for good."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mediamill import __version__
from mediamill.errors import ClaimLostError, GiveUpError, InvalidError, NotNowError, RetryLaterError
from mediamill.staging.inputs import StoredAwayError
from mediamill.worker.away import AWAY, AwayError, RefusedError
from mediamill.worker.server_link import (
    BadServerUrlError,
    NotMediamillError,
    ServerFailedError,
    ServerLink,
    WordRefusedError,
    check_url,
)
from tests.worker.canned import canned

pytestmark = pytest.mark.spec("E23")


def problem(code: str, **more: Any) -> dict[str, Any]:
    """As the server words it (RFC 9457)."""
    return {"code": code, "detail": "no", **more}


MEANINGS: list[tuple[int, Any, bool, type[Exception], str]] = [
    # status, body, patient, what it means, its code
    *[(status, b"<html>", True, AwayError, "server_away") for status in (408, 425, 429, 502, 503, 504)],
    *[(status, b"<html>", True, NotMediamillError, "not_mediamill") for status in (200, 401, 404, 500, 501)],
    (400, [], True, NotMediamillError, "not_mediamill"),
    (400, {"code": 7}, True, NotMediamillError, "not_mediamill"),
    (401, problem("unauthorized"), True, RefusedError, "unauthorized"),
    (403, problem("worker_revoked"), False, RefusedError, "worker_revoked"),
    (409, problem("claim_lost"), True, ClaimLostError, "claim_lost"),
    (503, problem("library_away"), True, NotNowError, "not_now"),
    (503, problem("stored_file_away"), True, StoredAwayError, "stored_file_away"),
    *[(status, problem("busy"), False, AwayError, "server_away") for status in (408, 425, 429, 502, 503, 504)],
    *[(status, problem("broken"), True, AwayError, "server_away") for status in (500, 501, 599)],
    *[(status, problem("broken"), False, ServerFailedError, "server_failed") for status in (500, 501, 599)],
    *[(status, problem("bad_word"), True, WordRefusedError, "bad_word") for status in (400, 402, 404, 413, 422, 499)],
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "patient", "meaning", "code"), MEANINGS)
async def test_every_answer_that_is_no_success_has_one_meaning(
    status: int, body: Any, patient: bool, meaning: type[Exception], code: str
) -> None:
    refused: list[RefusedError] = []
    async with canned((status, body)) as server:
        link = ServerLink(server.url, "key", refused=refused.append)
        with pytest.raises(meaning) as caught:
            await link.ask("GET", "/api/worker/pools", patient=patient)
        await link.close()
    assert type(caught.value) is meaning
    assert caught.value.code == code  # type: ignore[attr-defined]
    assert refused == ([caught.value] if meaning is RefusedError else []), "the worker ends by this alone"
    waits = meaning in (AwayError, NotMediamillError, RefusedError)
    assert isinstance(caught.value, AWAY) is waits


async def test_what_the_server_says_of_a_refusal_is_passed_on() -> None:
    said = problem("bad_word", fix="say it otherwise")
    async with canned(
        (422, said), (500, said), (403, said), (503, {**said, "code": "library_away"})
    ) as server:
        link = ServerLink(server.url, "key")
        for kind in (WordRefusedError, ServerFailedError, RefusedError, NotNowError):
            with pytest.raises(kind, match=r"^no$") as caught:
                await link.ask("GET", "/", patient=False)
            assert caught.value.fix == "say it otherwise"
        await link.close()
    assert issubclass(WordRefusedError, GiveUpError)
    assert issubclass(ServerFailedError, RetryLaterError)


async def test_every_word_has_the_key_and_the_version_and_once_greeted_the_process() -> None:
    async with canned((200, {"a": 1}), (204, b""), (200, {"b": 2})) as server:
        link = ServerLink(f"{server.url}/", "k-1")
        assert await link.ask("GET", "/api/x", headers={"X-Own": "1"}) == {"a": 1}
        link.speak_as("i-1")
        assert await link.ask("POST", "/api/y", json={"c": 3}) == {}
        async with link.stream("/api/z", {"X-Own": "2"}, read_seconds=9, token=7) as answer:
            assert await answer.aread() == b'{"b": 2}'
        await link.close()
        anonymous = ServerLink(server.url, "")
        await anonymous.ask("GET", "/")
        await anonymous.close()
    first, second, third, last = server.asked
    assert (first.method, first.path, first.headers["x-own"]) == ("GET", "/api/x", "1")
    assert (second.method, second.path, second.word) == ("POST", "/api/y", {"c": 3})
    assert (third.method, third.path, third.headers["x-own"]) == ("GET", "/api/z?token=7", "2")
    assert {one.headers["user-agent"] for one in server.asked} == {f"mediamill-worker/{__version__}"}
    assert [one.headers.get("authorization") for one in server.asked] == [*["Bearer k-1"] * 3, None]
    assert [one.headers.get("x-worker-instance") for one in server.asked] == [None, "i-1", "i-1", None]
    assert last.path == "/"


async def test_of_a_stream_what_is_no_success_is_raised_unless_it_is_allowed() -> None:
    async with canned(
        (416, problem("no_such_range")), (416, problem("no_such_range")), (500, problem("x"))
    ) as server:
        link = ServerLink(server.url, "key")
        async with link.stream("/a", read_seconds=9, allow=(416,)) as answer:
            assert answer.status_code == 416
        with pytest.raises(WordRefusedError) as refused:
            async with link.stream("/a", read_seconds=9):
                raise AssertionError
        assert refused.value.code == "no_such_range"
        with pytest.raises(AwayError):
            async with link.stream("/a", read_seconds=9):
                raise AssertionError
        await link.close()


async def test_a_server_that_is_not_there_is_away_and_one_without_tls_is_refused() -> None:
    async def speak_plainly(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 plain\r\n\r\n")
        await writer.drain()
        writer.close()

    refused: list[RefusedError] = []
    plain = await asyncio.start_server(speak_plainly, "127.0.0.1", 0)
    address = f"127.0.0.1:{plain.sockets[0].getsockname()[1]}"
    link = ServerLink(f"https://{address}", "key", refused=refused.append)
    with pytest.raises(RefusedError, match="does not speak TLS") as caught:
        await link.ask("GET", "/")
    assert refused == [caught.value]
    assert caught.value.fix == "write http:// if it has none"
    await link.close()
    plain.close()
    await plain.wait_closed()
    link = ServerLink(f"http://{address}", "key", refused=refused.append)
    with pytest.raises(AwayError, match=f"http://{address} does not answer: ") as away:
        await link.ask("GET", "/")
    assert type(away.value) is AwayError
    assert len(refused) == 1
    await link.close()


@pytest.mark.parametrize(
    "url", ["", "host:8420", "ftp://host", "http://", "https:///a", "http://a:b:c", "//host"]
)
def test_what_is_no_address_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(BadServerUrlError) as refused:
        check_url(url)
    assert "write http://host:8420" in str(refused.value.fix)


def test_an_address_may_have_a_path_and_loses_its_last_slash() -> None:
    assert check_url("https://host/mill/") == "https://host/mill"
    assert check_url("http://[::1]:8420") == "http://[::1]:8420"


@pytest.mark.parametrize("key", ["a\nb", "schlüssel", "a\x7f"])
def test_a_key_that_no_header_can_hold_is_refused_at_once(key: str) -> None:
    with pytest.raises(InvalidError, match="plain letters"):
        ServerLink("http://host", key)
