"""Every adapter to a server beyond this machine, through one suite of what such servers do."""

from __future__ import annotations

import logging
import socket
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from mediamill.clock import retry_after_seconds
from mediamill.errors import GiveUpError, MediamillError, NotNowError, RetryLaterError
from mediamill.processors.models import endpoint
from mediamill.processors.models.endpoint import Door, Endpoint, ModelNotSetError
from mediamill.settings import Settings
from mediamill.testing.model_server import (
    BROKEN,
    DRIP,
    ELSEWHERE,
    HUGE,
    NONSENSE,
    RESET,
    SILENT,
    WEB_PAGE,
    WRONG_SHAPE,
    Act,
    ModelServer,
    failing,
    rate_limited,
)
from tests.processors.remote_models import CASES, KEY, Case, calling, settings_for

pytestmark = pytest.mark.spec("C26")


class Grounds:
    """Makes the adapter of a case, in a process that calls by itself or has a caller."""

    def __init__(
        self, case: Case, by_caller: bool, monkeypatch: pytest.MonkeyPatch, stack: ExitStack
    ) -> None:
        self.case, self._by_caller, self._monkeypatch, self._stack = case, by_caller, monkeypatch, stack

    def adapter(self, settings: Settings) -> Any:
        if self._by_caller:
            settings = self._stack.enter_context(calling(settings, self._monkeypatch))
        return self.case.adapter(settings)

    def ask(self, settings: Settings, folder: Path) -> object:
        return self.case.ask(self.adapter(settings), folder)


# Those that send the most different requests are asked by a caller too: a form with a file, an upload in chunks.
WAYS = [*((name, False) for name in CASES), ("speech", True), ("gemini", True)]


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}{'-by-caller' if way[1] else ''}")
def way(request: pytest.FixtureRequest) -> tuple[str, bool]:
    found: tuple[str, bool] = request.param
    return found


@pytest.fixture
def case(way: tuple[str, bool]) -> Case:
    return CASES[way[0]]


@pytest.fixture
def grounds(case: Case, way: tuple[str, bool], monkeypatch: pytest.MonkeyPatch) -> Iterator[Grounds]:
    with ExitStack() as stack:
        yield Grounds(case, way[1], monkeypatch, stack)


@pytest.fixture
def server(case: Case) -> Iterator[ModelServer]:
    with case.server() as server:
        yield server


def everything_told(error: MediamillError) -> str:
    return "".join(traceback.format_exception(error)) + str(error.fix) + repr(error)


@pytest.mark.parametrize(
    "act",
    [
        rate_limited(0),
        rate_limited("0.05"),
        rate_limited(),
        BROKEN,
        failing(503),
        RESET,
        NONSENSE,
        WRONG_SHAPE,
        WEB_PAGE,
    ],
    ids=[
        "429-at-once",
        "429-soon",
        "429-without-time",
        "500",
        "503",
        "reset",
        "nonsense",
        "shape",
        "web-page",
    ],
)
def test_one_bad_answer_is_overcome(grounds: Grounds, server: ModelServer, tmp_path: Path, act: Act) -> None:
    server.then(act)
    assert grounds.ask(settings_for(server.url), tmp_path) is not None
    assert server.seen[0].path == server.seen[1].path
    assert server.seen[0].body_bytes == server.seen[1].body_bytes


def test_a_rate_limit_for_long_is_left_to_a_later_attempt(
    grounds: Grounds, server: ModelServer, tmp_path: Path
) -> None:
    server.always(rate_limited(3600))
    with pytest.raises(RetryLaterError, match="3600 more seconds"):
        grounds.ask(settings_for(server.url), tmp_path)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "act", [BROKEN, failing(502), RESET, rate_limited(0)], ids=["500", "502", "reset", "429"]
)
def test_a_server_that_keeps_failing_is_asked_three_times(
    grounds: Grounds, server: ModelServer, tmp_path: Path, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "FIRST_PAUSE_SECONDS", 0.1)
    server.always(act)
    with pytest.raises(RetryLaterError):
        grounds.ask(
            settings_for(server.url, 60), tmp_path
        )  # whatever this machine does, there is time for three
    assert len(server.seen) == 3


@pytest.mark.spec("C31")
@pytest.mark.parametrize(
    ("act", "suspect"),
    [(failing(503), False), (rate_limited(60), False), (RESET, True), (failing(502), True)],
)
def test_a_busy_server_is_told_apart_from_one_that_died_over_a_file(
    server: ModelServer, tmp_path: Path, act: Act, suspect: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "FIRST_PAUSE_SECONDS", 0.01)
    server.always(act)
    with pytest.raises(NotNowError) as failure:
        CASES["text"].ask(CASES["text"].adapter(settings_for(server.url, 60)), tmp_path)
    wait = failure.value.wait
    assert (wait.server, wait.suspect) == (server.url.removeprefix("http://"), suspect)
    assert wait.seconds >= 1


@pytest.mark.parametrize("act", [SILENT, DRIP], ids=["silent", "drip"])
def test_a_server_that_takes_too_long_is_left_alone(
    grounds: Grounds, server: ModelServer, tmp_path: Path, act: Act
) -> None:
    server.always(act)
    with pytest.raises(RetryLaterError, match=r"answer within 0\.4 seconds"):
        grounds.ask(settings_for(server.url, 0.4), tmp_path)


def test_a_refused_connection_may_pass(grounds: Grounds, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody else can have it, and nobody listens
        with pytest.raises(NotNowError, match="cannot be reached"):
            grounds.ask(settings_for(f"http://127.0.0.1:{taken.getsockname()[1]}", 2), tmp_path)


@pytest.mark.parametrize(
    "act", [NONSENSE, WRONG_SHAPE, WEB_PAGE, HUGE], ids=["not-json", "shape", "web-page", "huge"]
)
def test_nonsense_twice_is_final(grounds: Grounds, server: ModelServer, tmp_path: Path, act: Act) -> None:
    server.always(act)
    with pytest.raises(GiveUpError, match=r"127\.0\.0\.1"):
        grounds.ask(settings_for(server.url), tmp_path)
    assert len(server.seen) == 2


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_final_and_the_setting_is_named(
    grounds: Grounds, server: ModelServer, tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.always(failing(status, f"the key {KEY} is wrong"))
    with pytest.raises(GiveUpError) as failure:
        grounds.ask(settings_for(server.url), tmp_path)
    assert failure.value.fix == f"check {grounds.case.key_setting}: it is refused"
    assert KEY not in everything_told(failure.value) + caplog.text
    assert len(server.seen) == 1


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_a_refused_request_is_final_and_says_why_without_the_key(
    grounds: Grounds, server: ModelServer, tmp_path: Path, status: int
) -> None:
    server.always(failing(status, f"no such\nmodel, dear {KEY}"))
    with pytest.raises(GiveUpError, match="no such model, dear …") as failure:
        grounds.ask(settings_for(server.url), tmp_path)
    assert "_MODEL" in (failure.value.fix or "")
    assert KEY not in everything_told(failure.value)


def test_nobody_is_followed_elsewhere(grounds: Grounds, server: ModelServer, tmp_path: Path) -> None:
    server.always(ELSEWHERE)
    with pytest.raises(GiveUpError, match="elsewhere"):
        grounds.ask(settings_for(server.url), tmp_path)
    assert len(server.seen) == 1


def test_the_key_is_in_no_log_and_no_repr(
    grounds: Grounds, server: ModelServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    adapter = grounds.adapter(settings_for(server.url))
    assert grounds.case.ask(adapter, tmp_path) is not None
    seen = " ".join(value for each in server.seen for value in each.headers.values())
    assert KEY in seen  # it was sent, and that is the only place
    assert KEY not in caplog.text
    assert KEY not in repr(adapter) + repr(vars(adapter)) + repr(vars(adapter._endpoint)["_door"])


def test_the_model_is_named_with_the_server(grounds: Grounds, server: ModelServer, tmp_path: Path) -> None:
    adapter = grounds.adapter(settings_for(server.url))
    grounds.case.ask(adapter, tmp_path)
    name, _, where = adapter.model.rpartition("@")
    assert name
    assert where == server.url.removeprefix("http://")
    assert adapter.network is True


def test_a_proxy_of_the_environment_is_used(
    grounds: Grounds, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    server.always(failing(404, "the proxy was asked"))
    with pytest.raises(GiveUpError, match="the proxy was asked"):
        grounds.ask(settings_for("http://model.invalid"), tmp_path)
    assert server.seen[0].path.startswith("http://model.invalid/")


@pytest.mark.parametrize("key", ["sk-with\nnewline", "sk-ünicode"])
def test_a_key_that_cannot_be_sent_is_not_shown(key: str) -> None:
    settings = Settings(openai_url="http://127.0.0.1:9/v1", openai_key=key)
    with pytest.raises(ModelNotSetError) as failure:
        CASES["text"].adapter(settings)
    assert "sk-" not in everything_told(failure.value)


@pytest.mark.parametrize(
    "url", ["ftp://host/v1", "no address", "http://user:secret@host/v1", "http://h/v1?key=secret"]
)
def test_an_address_that_cannot_be_right_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ModelNotSetError) as failure:
        Endpoint(Door(url, "MEDIAMILL_X_URL", None, "MEDIAMILL_X_KEY", "MEDIAMILL_X_MODEL"), 1)
    assert "secret" not in everything_told(failure.value)
    assert "MEDIAMILL_X_URL" in str(failure.value)


@pytest.mark.parametrize("name", CASES)
def test_without_an_address_or_key_the_setting_to_set_is_named(name: str) -> None:
    with pytest.raises(ModelNotSetError) as failure:
        CASES[name].adapter(Settings(openai_url=None, moondream_url=None, gemini_key=None))
    assert (failure.value.fix or "").startswith("set MEDIAMILL_")


def test_retry_after_is_seconds_or_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert retry_after_seconds("2.5") == 2.5
    assert retry_after_seconds("-3") == 0
    assert 3500 < (retry_after_seconds(later) or 0) <= 3600
    assert retry_after_seconds(format_datetime(datetime(2001, 1, 1, tzinfo=UTC))) == 0
    assert retry_after_seconds("soon") is None
    assert retry_after_seconds(None) is None
