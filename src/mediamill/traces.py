"""Traces by OpenTelemetry, if they are wanted: one trace from a request over the job that it made to its delivery.

Nothing of OpenTelemetry is imported before `start_traces`, and without it every span is the same empty one. Spans have
names, ids and numbers; never a text, a file name or a sender.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

EXTRA = "opentelemetry.exporter.otlp.proto.http"
END_SECONDS = 5.0
SCOPE = "mediamill"

_tracer: Any = None
_provider: Any = None


class NoSpan:
    """What `span` gives when nobody traces."""

    def __enter__(self) -> NoSpan:
        """Nothing begins."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing ends."""

    def note(self, **attributes: Any) -> None:
        """Nobody reads it."""

    def rename(self, name: str) -> None:
        """Nobody reads it."""

    def fail(self, code: str) -> None:
        """Nobody reads it."""


_NOTHING = NoSpan()


def is_on() -> bool:
    """Does this process trace?"""
    return _tracer is not None


def is_wanted(url: str | None, environment: Mapping[str, str] | None = None) -> bool:
    """By our setting, or by the usual variables of OpenTelemetry."""
    given = os.environ if environment is None else environment
    if given.get("OTEL_SDK_DISABLED", "").lower() == "true" or given.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return bool(url) or any(given.get(name) for name in names)


def is_installed() -> bool:
    """Is the extra there?"""
    try:
        return importlib.util.find_spec(EXTRA) is not None
    except ModuleNotFoundError:
        return False


def start_traces(service: str, version: str, url: str | None) -> bool:
    """From now on spans are sent, if they are wanted; False if they are, and the extra is missing."""
    global _tracer, _provider
    if not is_wanted(url):
        return True
    if not is_installed():
        return False
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": service}
    resource = Resource.create(
        {
            **named,
            "service.version": version,
            "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
            "process.pid": os.getpid(),
        }
    )
    exporter = OTLPSpanExporter(endpoint=f"{url.rstrip('/')}/v1/traces" if url else None)
    _provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    _provider.add_span_processor(BatchSpanProcessor(exporter))
    _tracer = _provider.get_tracer(SCOPE, version)
    return True


def stop_traces() -> None:
    """Send what waits; a receiver that does not answer holds nobody up for long."""
    global _tracer, _provider
    provider, _tracer, _provider = _provider, None, None
    if provider is not None:
        ending = threading.Thread(target=provider.shutdown, daemon=True)
        ending.start()
        ending.join(END_SECONDS)


def span(
    name: str, *, kind: str = "internal", parent: str | None = None, **attributes: Any
) -> AbstractContextManager[Any]:
    """A step, below the one that is under way, or below `parent` (a traceparent of another process)."""
    return _NOTHING if _tracer is None else _Span(name, kind, parent, attributes)


def spans(name: str, parents: Sequence[str | None], **attributes: Any) -> AbstractContextManager[Any]:
    """The same step for several jobs at once, a span below each. That of a single one is the current one meanwhile."""
    if _tracer is None:
        return _NOTHING
    if len(parents) == 1:
        return _Span(name, "internal", parents[0], attributes)
    return _together(name, parents, attributes)


@contextlib.contextmanager
def _together(name: str, parents: Sequence[str | None], attributes: Mapping[str, Any]) -> Iterator[NoSpan]:
    begun = [_Span(name, "internal", parent, attributes) for parent in parents if parent is not None]
    try:
        yield _NOTHING
    finally:
        for each in begun:
            each.end()


def past_span(name: str, began_ns: int, ended_ns: int, **attributes: Any) -> None:
    """A step of a process that cannot send by itself, below the one that is under way here."""
    if _tracer is not None:
        made = _tracer.start_span(name, start_time=began_ns, attributes=_named(attributes))
        made.end(end_time=ended_ns)


def traceparent() -> str | None:
    """The step that is under way, as another process can go on from it (W3C)."""
    if _tracer is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")


def sort_of(error: BaseException) -> str:
    """What sort of failure: its text may be private."""
    return str(getattr(error, "code", None) or type(error).__name__)


def current_ids() -> dict[str, str]:
    """Trace and step, for the log."""
    if _tracer is None:
        return {}
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


class _Span:
    """A span that is the current one for as long as it lasts."""

    def __init__(self, name: str, kind: str, parent: str | None, attributes: Mapping[str, Any]) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = None
        if parent is not None:
            context = TraceContextTextMapPropagator().extract({"traceparent": parent})
        self._span = _tracer.start_span(
            name, context=context, kind=trace.SpanKind[kind.upper()], attributes=_named(attributes)
        )
        self._use = trace.use_span(
            self._span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        )

    def __enter__(self) -> _Span:
        self._use.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception):  # its text may be private: only what sort it is
            self.fail(sort_of(error))
        self._use.__exit__(kind, error, trace)

    def note(self, **attributes: Any) -> None:
        """More of it is known now."""
        self._span.set_attributes(_named(attributes))

    def end(self) -> None:
        """For one that was never the current one."""
        self._span.end()

    def rename(self, name: str) -> None:
        """What it is called is known now."""
        self._span.update_name(name)

    def fail(self, code: str) -> None:
        """It came to a bad end."""
        from opentelemetry.trace import Status, StatusCode

        self._span.set_status(Status(StatusCode.ERROR))
        self._span.set_attribute("error.type", code)


def _named(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """As OpenTelemetry writes names: `http_route` is `http.route`, what is ours begins with `mediamill.`."""
    return {
        name.replace("__", ".") if "__" in name else f"{SCOPE}.{name}": value
        for name, value in attributes.items()
        if value is not None
    }
