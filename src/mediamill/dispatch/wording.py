"""What is said of Redis, in one place: in the log when something changes, and why it does not answer."""

from __future__ import annotations

import logging

import redis

from mediamill.dispatch.breaker import BreakerState

log = logging.getLogger(__name__)

MEANWHILE = {
    "redis": "workers look for jobs every few seconds",
    "hybrid": "workers are woken by the database",
}


def tell_change(state: BreakerState, flowing: bool, mode: str, error: str | None) -> None:
    """The breaker opened or closed, or hints began or ceased to come."""
    if state is BreakerState.OPEN:
        log.warning("Redis is away (%s); meanwhile %s. No job is lost by it", error, MEANWHILE[mode])
    elif state is BreakerState.HALF_OPEN:
        log.debug("Redis is tried again")
    elif flowing:
        log.info("Redis is there, and tells of jobs")
    else:
        log.info("Redis is there, but nobody tells it of jobs yet; meanwhile %s", MEANWHILE[mode])


def _is_refusal(error: BaseException) -> bool:
    """A refusal on the way in comes as the cause of a failed connection."""
    return isinstance(error, redis.AuthenticationError) or isinstance(
        error.__cause__, redis.AuthenticationError
    )


def say_why(error: BaseException) -> str:
    """One line without addresses or passwords."""
    if _is_refusal(error):
        return "it refuses the user or the password"
    if isinstance(error, redis.exceptions.NoPermissionError):
        return f"its user lacks a right: {error}"
    if isinstance(error, redis.TimeoutError | TimeoutError):
        return "it does not answer in time"
    if isinstance(error, redis.BusyLoadingError):
        return "it is still loading its data"
    if isinstance(error, redis.ConnectionError | OSError):
        return "it cannot be reached"
    return f"{type(error).__name__}: {error}"


def say_fix(error: BaseException) -> str:
    """What to do about it."""
    if _is_refusal(error):
        return (
            "put the right ones into MEDIAMILL_REDIS_URL "
            "(redis://user:password@host:6379/0; without a user: redis://:password@host:6379/0)"
        )
    if isinstance(error, redis.exceptions.NoPermissionError):
        return "docs/how-to/redis.md lists what its user must be allowed"
    return "start it, or check MEDIAMILL_REDIS_URL; MEDIAMILL_QUEUE_MODE=database needs none"
