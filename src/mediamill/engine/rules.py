"""What every verb of the engine is given: the kinds, and the few numbers that settings decide."""

from __future__ import annotations

from dataclasses import dataclass, field

from mediamill.engine.kinds import Kinds
from mediamill.settings import Settings


@dataclass(frozen=True, slots=True)
class Engine:
    """One per process, made in app.py."""

    kinds: Kinds = field(default_factory=Kinds)
    payload_limit_bytes: int = 1_000_000
    heartbeat_seconds: float = 30
    offline_after_seconds: float = 300
    session_grace_seconds: float = 5
    startup_grace_seconds: float = 120
    max_releases: int = 5
    sweep_seconds: float = 60
    janitor_seconds: float = 3600
    finished_keep_hours: float = 24
    events_keep_hours: float = 24
    alerts_on: bool = False
    alert_rate_limit_seconds: float = 300
    alert_worker_events: bool = False
    alert_pattern_failures: int = 3
    flight_dumps: int = 50
    flight_dumps_keep_days: float = 30

    @classmethod
    def from_settings(cls, settings: Settings, kinds: Kinds) -> Engine:
        """As the settings say."""
        same = (
            "payload_limit_bytes",
            "heartbeat_seconds",
            "offline_after_seconds",
            "session_grace_seconds",
            "startup_grace_seconds",
            "max_releases",
            "sweep_seconds",
            "janitor_seconds",
            "finished_keep_hours",
            "events_keep_hours",
            "alert_rate_limit_seconds",
            "alert_worker_events",
            "alert_pattern_failures",
            "flight_dumps",
            "flight_dumps_keep_days",
        )
        return cls(
            kinds=kinds,
            alerts_on=settings.alert_webhook_url is not None,
            **{name: getattr(settings, name) for name in same},
        )
