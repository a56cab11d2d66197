"""Traces: nothing when they are off, and nobody's trouble when they are on."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from mediamill import traces
from mediamill.logs import JsonLines
from mediamill.testing.otlp_server import OtlpServer
from mediamill.traces import is_wanted, span, spans, start_traces, stop_traces, traceparent


@pytest.fixture
def otlp(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpServer]:
    monkeypatch.setattr(traces, "END_SECONDS", 60)  # on a busy machine, too, everything is sent
    with OtlpServer() as server:
        assert start_traces("test", "1", server.url)
        yield server
        stop_traces()


@pytest.mark.parametrize(
    ("url", "environment", "wanted"),
    [
        (None, {}, False),
        ("http://collector:4318", {}, True),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        (None, {"OTEL_SERVICE_NAME": "mill"}, False),
        ("http://collector:4318", {"OTEL_SDK_DISABLED": "true"}, False),
        ("http://collector:4318", {"OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_traces_are_wanted_by_our_setting_or_the_usual_variables(
    url: str | None, environment: dict[str, str], wanted: bool
) -> None:
    assert is_wanted(url, environment) is wanted


def run(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_without_a_receiver_nothing_of_opentelemetry_is_imported() -> None:
    said = run("""
        import sys
        from mediamill import traces
        assert traces.start_traces("test", "1", None)
        with traces.span("a step", job_id=1) as span:
            span.note(more=2)
            assert traces.traceparent() is None and traces.current_ids() == {}
            assert span is traces.span("another")
        print([name for name in sys.modules if name.startswith("opentelemetry")])
    """)
    assert said == "[]"


def test_without_the_extra_it_is_said_and_everything_works() -> None:
    said = run(
        """
        import sys
        sys.modules["opentelemetry.exporter"] = None
        from mediamill import traces
        print(traces.start_traces("test", "1", None), traces.is_on())
        """,
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
    )
    assert said == "False False"


def test_a_receiver_that_is_away_or_silent_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "END_SECONDS", 0.2)
    assert start_traces("test", "1", "http://127.0.0.1:9")
    with span("a step"):
        pass
    stop_traces()
    assert not traces.is_on()


def test_a_trace_goes_on_from_what_another_process_says_and_a_wrong_word_begins_a_new_one(
    otlp: OtlpServer,
) -> None:
    with span("outer") as _:
        given = traceparent()
        ids = traces.current_ids()
    assert given is not None
    assert given.split("-")[1:3] == [ids["trace_id"], ids["span_id"]]
    with span("below", parent=given):
        pass
    with span("stranger", parent="00-no trace-at all"):
        pass
    stop_traces()
    found = {each.name: each for each in otlp.spans}
    assert (found["below"].trace, found["below"].parent) == (ids["trace_id"], ids["span_id"])
    assert found["stranger"].trace != ids["trace_id"]
    assert found["outer"].resource["service.name"] == "test"


def test_what_fails_is_marked_by_its_sort_and_not_by_its_text(otlp: OtlpServer) -> None:
    with pytest.raises(ValueError, match="private"), span("a step", job_id=7):
        raise ValueError("private words")
    stop_traces()
    (found,) = otlp.spans
    assert found.failed
    assert found.attributes == {"mediamill.job_id": 7, "error.type": "ValueError"}


def test_a_step_for_several_jobs_is_in_the_trace_of_each(otlp: OtlpServer) -> None:
    parents: list[Any] = []
    for _ in range(2):
        with span("job"):
            parents.append(traceparent())
    with spans("settle", [*parents, None]):
        assert traceparent() is None
    with spans("settle", parents[:1]):
        assert traceparent() is not None
    stop_traces()
    settled = [each.trace for each in otlp.spans if each.name == "settle"]
    of_jobs = [parent.split("-")[1] for parent in parents]
    assert sorted(settled) == sorted([*of_jobs, of_jobs[0]])


def test_a_line_of_the_log_says_in_which_trace_it_was_written(otlp: OtlpServer) -> None:
    record = logging.getLogger("mediamill.test").makeRecord("mediamill.test", 20, "", 0, "a line", (), None)
    with span("a step"):
        line = json.loads(JsonLines().format(record))
        assert {name: line[name] for name in ("trace_id", "span_id")} == traces.current_ids()
    assert "trace_id" not in json.loads(JsonLines().format(record))
