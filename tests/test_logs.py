"""Log lines as JSON: the same words as the plain ones, with the event and whom they are about."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mediamill import logs
from mediamill.engine.flight_log import install, uninstall
from mediamill.engine.model import ClaimedJob
from mediamill.logs import WORDS, JsonLines, at_work, tell, tell_facts

SOURCE = Path(logs.__file__).parent
log = logging.getLogger("mediamill.test")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What is written to the console, as JSON, by a process that has no name yet."""
    monkeypatch.setattr(logs, "_process", {})
    out = io.StringIO()
    console = logging.StreamHandler(out)
    console.setFormatter(JsonLines())
    install("INFO", console=console)
    yield out
    uninstall()


def read(shown: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in shown.getvalue().splitlines()]


def test_a_line_has_time_level_logger_event_message_and_facts(shown: io.StringIO) -> None:
    tell(log, "job_dead", job_id=7, kind="a.b", owner="ann", pool="p", why="permanent", reason="no luck")
    (line,) = read(shown)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line.pop("time"))
    assert line == {
        "level": "warning",
        "logger": "mediamill.test",
        "event": "job_dead",
        "message": "job 7 (a.b) is dead: permanent: no luck",
        "job_id": 7,
        "kind": "a.b",
        "owner": "ann",
        "pool": "p",
        "why": "permanent",
        "reason": "no luck",
    }


def test_both_forms_have_the_same_words() -> None:
    facts = {"job_id": 7, "kind": "a.b", "reason": "no luck"}
    record = log.makeRecord(log.name, logging.INFO, "", 0, WORDS["job_put_off"][1], (facts,), None)
    plain = logs.plain_lines().format(record)
    assert plain.endswith(f"INFO mediamill.test: {json.loads(JsonLines().format(record))['message']}")


def test_an_event_without_facts_has_only_its_words(shown: io.StringIO) -> None:
    tell(log, "server_stopped")
    assert read(shown)[0]["message"] == WORDS["server_stopped"][1]


def test_what_is_logged_while_a_job_runs_says_which(shown: io.StringIO) -> None:
    job = ClaimedJob(7, 1, 3, "a.b", "p", "ann", None, None, 1, 3, "{}", None)
    token = at_work.set(job)
    log.info("a step")
    at_work.reset(token)
    log.info("something else")
    first, second = read(shown)
    assert {name: first[name] for name in ("job_id", "worker_id", "owner", "kind", "pool")} == {
        "job_id": 7,
        "worker_id": 3,
        "owner": "ann",
        "kind": "a.b",
        "pool": "p",
    }
    assert "job_id" not in second
    assert "event" not in second


def test_a_text_cannot_begin_another_line_nor_take_the_place_of_what_is_ours(shown: io.StringIO) -> None:
    log.info('a\n{"level": "error"}\r\u2028\x1b[2J %s', "\x00")
    tell_facts(log, logging.INFO, "an_event", message="stolen", level="stolen", time="stolen", file="a b\nc")
    assert len(shown.getvalue().split("\n")) == 3
    first, second = read(shown)
    assert (first["level"], second["level"]) == ("info", "info")
    assert second["message"] == r"an_event message=stolen level=stolen time=stolen file='a b\nc'"


def test_a_text_that_is_no_text_is_still_a_line() -> None:
    """Not logged here: pytest could not pass on what it caught."""
    record = log.makeRecord(log.name, logging.INFO, "", 0, "half a %s", ("\ud800",), None)
    line = JsonLines().format(record)
    assert json.loads(line.encode())["message"].startswith("half a ")


def test_an_exception_is_one_line_with_its_traceback(shown: io.StringIO) -> None:
    try:
        raise RuntimeError("the cause")
    except RuntimeError as error:
        tell(log, "chore_failed", error=error, chore="sweep")
    (line,) = read(shown)
    assert line["traceback"].endswith("RuntimeError: the cause")
    assert "exc_info" not in line


def test_a_line_that_does_not_fit_its_words_is_still_a_line() -> None:
    record = log.makeRecord(log.name, logging.INFO, "", 0, "%d jobs", ("many",), None)
    assert json.loads(JsonLines().format(record))["message"] == "%d jobs ('many',)"


def test_lines_of_uvicorn_and_opentelemetry_are_of_the_same_form(shown: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").error("Exception in ASGI application")
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("opentelemetry.exporter").warning("Transient error")
    told = [(line["logger"], line["level"]) for line in read(shown)]
    assert told == [("uvicorn.error", "error"), ("opentelemetry.exporter", "warning")]


def told_events() -> Iterator[tuple[str, set[str] | None]]:
    """Every event that the code tells, with the names of its facts; None where they are not written out."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", getattr(node.func, "attr", "")) == "tell"
            ):
                names = [
                    each for arg in node.args[1:2] for each in ast.walk(arg) if isinstance(each, ast.Constant)
                ]
                given = {word.arg for word in node.keywords}
                for name in names:
                    yield str(name.value), None if None in given else {str(each) for each in given}


def test_every_event_that_the_code_names_has_words_and_the_facts_for_them() -> None:
    told = list(told_events())
    assert {event for event, _ in told if event in WORDS} == set(WORDS), "words that nobody says"
    for event, facts in told:
        if event in WORDS and facts is not None:
            wanted = set(re.findall(r"%\((\w+)\)", WORDS[event][1]))
            assert wanted <= facts, event
