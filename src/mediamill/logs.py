"""Log lines for machines: one JSON object each, with the event that it tells and whom it is about.

Code names an event and its facts (`tell`); the words of all of them are in one table, WORDS. The plain form and the
JSON form have the same words.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from mediamill import traces

# The job that this task works on (see engine.model.ClaimedJob), for the ids of whatever is logged meanwhile.
at_work: ContextVar[Any] = ContextVar("at_work", default=None)

_process: dict[str, Any] = {}
_form = "plain"
_tracebacks = logging.Formatter()
_WORD = re.compile(r"[\w.:/+-]+")
_OWN = frozenset({"time", "level", "logger", "event", "message"})

DEBUG, INFO, WARNING, ERROR, CRITICAL = (
    logging.DEBUG,
    logging.INFO,
    logging.WARNING,
    logging.ERROR,
    logging.CRITICAL,
)

# What each event is called, how bad it is, and how it reads. A fact that is None is not told.
WORDS: dict[str, tuple[int, str]] = {
    # jobs
    "job_retry": (INFO, "job %(job_id)d (%(kind)s) failed, attempt %(attempt)d of %(attempts)d: %(reason)s"),
    "job_put_off": (INFO, "job %(job_id)d (%(kind)s) is put off: %(reason)s"),
    "job_dead": (WARNING, "job %(job_id)d (%(kind)s) is dead: %(why)s: %(reason)s"),
    "job_rerouted": (
        INFO,
        "job %(job_id)d (%(kind)s): claimed as %(claimed_type)s, really %(real_type)s: to pool %(pool)s",
    ),
    "job_stalled": (
        WARNING,
        "job %(job_id)d (%(kind)s) made no progress for %(seconds)g s: it is stopped, and its claim released",
    ),
    "job_recovered": (
        WARNING,
        "job %(job_id)d (%(kind)s) is recovered from worker %(worker)s and queued again: %(reason)s",
    ),
    "claim_lost": (WARNING, "job %(job_id)d (%(kind)s): the claim was lost, its result is dropped"),
    "claim_abandoned": (WARNING, "job %(job_id)d (%(kind)s): the claim was lost, the work is abandoned"),
    "job_missing": (WARNING, "Job record missing for GUID %(subject_id)s: its result is dropped"),
    "settle_failed": (ERROR, "settling job %(job_id)d failed"),
    "delivery_put_off": (WARNING, "the result of job %(job_id)d is delivered later: %(reason)s"),
    "queue_depth": (DEBUG, "pool %(pool)s: %(waiting)d waiting"),
    "queue_depth_changed": (INFO, "pool %(pool)s: %(waiting)d jobs waiting, %(before)d before"),
    # workers
    "worker_ready": (INFO, "worker %(worker)s (%(worker_id)d) is ready, pools: %(pools)s"),
    "signal_handlers_unavailable": (
        WARNING,
        "signals cannot be obeyed here (%(reason)s); whoever embeds this stops it by its own means",
    ),
    "worker_leaving": (INFO, "worker %(worker)s finishes what runs and leaves"),
    "worker_stopping": (WARNING, "worker %(worker)s stops at once and hands its jobs back"),
    "worker_told": (INFO, "worker %(worker)s was told to %(command)s"),
    "worker_recovered": (INFO, "worker %(worker)s (%(worker_id)d), which was offline, is back"),
    "worker_disabled": (INFO, "worker %(worker)s is disabled"),
    "worker_enabled": (INFO, "worker %(worker)s is enabled"),
    "worker_fault": (CRITICAL, "worker %(worker)s ends with a fault: %(reason)s"),
    "worker_restarted": (WARNING, "a worker ended with %(code)d and is started again in %(seconds)g s"),
    "flight_log_written": (WARNING, "the flight log, %(entries)d entries, is in %(path)s"),
    "flight_log_stays": (WARNING, "the flight log %(name)s stays on this machine for now: %(reason)s"),
    "chore_failed": (ERROR, "the chore %(chore)s failed"),
    # alerts
    "alert_sent": (DEBUG, "alert %(alert_id)d (%(type)s) has arrived"),
    "alert_failed": (
        WARNING,
        "alert %(alert_id)d (%(type)s) did not arrive, next try in %(seconds)g s: %(reason)s",
    ),
    "alert_given_up": (
        ERROR,
        "alert %(alert_id)d (%(type)s) is given up after %(tries)d tries: %(reason)s",
    ),
    "alert_refused": (ERROR, "alert %(alert_id)d (%(type)s) cannot be sent: %(reason)s"),
    # the server
    "said": (INFO, "%(text)s"),
    "warned": (WARNING, "%(text)s"),
    "server_up": (INFO, "mediamill is up: %(url)s, %(workers)d workers"),
    "server_stopped": (INFO, "mediamill has stopped; nothing is lost, `mediamill up` goes on where it was."),
    "traces_missing": (
        WARNING,
        "traces are wanted, but OpenTelemetry is not installed: pip install 'mediamill[otel]'",
    ),
    "command_failed": (CRITICAL, "error: %(reason)s"),
}


def tell(log: logging.Logger, event: str, /, *, error: BaseException | None = None, **facts: Any) -> None:
    """A line of the log: the words of this event with these facts."""
    level, words = WORDS[event]
    if log.isEnabledFor(level):
        args = (facts,) if facts else ()  # an empty one would be taken for an argument that does not fit
        log.log(level, words, *args, exc_info=error, extra={"event": event, "facts": facts})


def name_process(**ids: Any) -> None:
    """Who this process is, in every line that it writes as JSON."""
    _process.update(ids)


class JsonLines(logging.Formatter):
    """One object a line, in ASCII: whatever a text holds, it cannot begin another line."""

    def format(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        facts: Mapping[str, Any] = getattr(record, "facts", None) or {}
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", None),
            "message": _message(record),
            **_process,
            **_ids_at_work(),
            **{name: value for name, value in facts.items() if name not in _OWN},
            **traces.current_ids(),
        }
        if record.exc_info:
            told["traceback"] = _tracebacks.formatException(record.exc_info)
        kept = {name: value for name, value in told.items() if value is not None}
        return json.dumps(kept, default=str)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):  # a wrong log line must not become the program's fault
        return f"{record.msg} {record.args!r}"


def _ids_at_work() -> dict[str, Any]:
    job = at_work.get()
    if job is None:
        return {}
    return {
        "job_id": job.id,
        "kind": job.kind,
        "pool": job.pool,
        "owner": job.owner,
        "worker_id": job.worker_id,
    }


def plain_lines() -> logging.Formatter:
    """For people, in a terminal."""
    return logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S")


def is_json() -> bool:
    """Does this process speak to machines?"""
    return _form == "json"


def make_console(form: str) -> logging.Handler:
    """Lines on stderr, in one of the two forms."""
    global _form
    _form = form
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else plain_lines())
    return handler


def tell_facts(log: logging.Logger, level: int, event: str, /, **facts: Any) -> None:
    """A line that is the name of its event and its facts; those that are not known are not told."""
    known = {name: value for name, value in facts.items() if value is not None}
    words = "".join(f" {name}={_shown(name, value)}" for name, value in known.items())
    log.log(level, "%s%s", event, words, extra={"event": event, "facts": known})


def _shown(name: str, value: Any) -> str:
    """As it is if it is one word; else, and if it is a reason, in quotes, on one line."""
    text = str(value)
    return text if name != "reason" and _WORD.fullmatch(text) else repr(text)
