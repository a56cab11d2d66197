"""A receiver of traces on this machine: OTLP over HTTP, as an OpenTelemetry collector takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mediamill.testing.model_server import ModelServer, Reply, Seen


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A span as it arrived; ids in hex, `parent` empty for the first of a trace."""

    name: str
    kind: int
    trace: str
    id: str
    parent: str
    began_ns: int
    ended_ns: int
    failed: bool
    attributes: dict[str, Any]
    resource: dict[str, Any]

    @property
    def service(self) -> str:
        """Which sort of process made it."""
        return str(self.resource["service.name"])


class OtlpServer(ModelServer):
    """Its address is what OTEL_EXPORTER_OTLP_ENDPOINT wants."""

    @property
    def spans(self) -> list[ReceivedSpan]:
        """All that have come so far."""
        return [span for seen in self.seen if seen.path == "/v1/traces" for span in read_spans(seen.body)]

    def answer(self, seen: Seen) -> Reply:
        """Taken."""
        ours = seen.path == "/v1/traces"
        return Reply(b"", 200, {"Content-Type": "application/x-protobuf"}) if ours else Reply.json({}, 404)


def read_spans(body: bytes) -> list[ReceivedSpan]:
    """The spans of one message."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    return [
        ReceivedSpan(
            span.name,
            span.kind,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            span.status.code == 2,
            _plain(span.attributes),
            _plain(each.resource.attributes),
        )
        for each in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in each.scope_spans
        for span in scope.spans
    ]


def _plain(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
