"""Errors over HTTP: which family gets which status, as RFC 9457 problems with a stable `code`."""

from __future__ import annotations

import logging
import math
from http import HTTPStatus
from typing import Any

import asyncpg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from mediamill.api.route_map import methods_of
from mediamill.db.connection import ASK_AGAIN, LOST
from mediamill.errors import (
    ConflictError,
    DeniedError,
    GiveUpError,
    InvalidError,
    MediamillError,
    NotFoundError,
    QuotaExceededError,
    RetryLaterError,
    TooManyError,
    UnavailableError,
)
from mediamill.staging.quota import StorageFullError

log = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 5

FAMILIES: tuple[tuple[type[MediamillError], int], ...] = (
    (NotFoundError, 404),
    (ConflictError, 409),
    (InvalidError, 422),
    (DeniedError, 403),
    (StorageFullError, 507),
    (QuotaExceededError, 413),
    (TooManyError, 429),
    (UnavailableError, 503),
    (RetryLaterError, 503),
    (GiveUpError, 422),
)
# Denied because nobody could tell who asks: the caller should show another key, not ask for more rights.
UNAUTHENTICATED = {
    "unauthenticated",
    "token_invalid",
    "token_revoked",
    "token_expired",
    "worker_key_invalid",
    "worker_key_revoked",
    "passkey_refused",
}
# What HTTP or the tus protocol has a status of its own for.
OWN_STATUSES = {
    "foreign_host": 421,
    "tus_version": 412,
    "not_a_video": 415,
    "upload_locked": 423,
    "checksum_unsupported": 400,
    "checksum_mismatch": 460,
}
PHRASES = {460: "Checksum Mismatch"}
HTTP_CODES = {
    401: "unauthenticated",
    404: "not_found",
    405: "method_not_allowed",
    408: "body_stalled",
    413: "body_too_large",
    415: "media_type_unsupported",
}


class Problem(JSONResponse):
    """An answer that says what is wrong and, where known, what to do about it."""

    media_type = "application/problem+json"

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        fix: str | None = None,
        faults: list[str] | None = None,
        wait_seconds: float = RETRY_AFTER_SECONDS,
    ) -> None:
        self.detail, self.fix = detail, fix
        body: dict[str, Any] = {
            "type": f"urn:mediamill:problem:{code}",
            "title": PHRASES.get(status) or HTTPStatus(status).phrase,
            "status": status,
            "detail": detail,
            "code": code,
            "fix": fix,
        }
        if faults is not None:
            body["faults"] = faults
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        if status in (429, 503):
            headers["Retry-After"] = str(math.ceil(wait_seconds))
        super().__init__(body, status, headers)


def status_of(error: MediamillError) -> int:
    """The HTTP status of an error of ours."""
    if error.code in UNAUTHENTICATED:
        return 401
    if error.code in OWN_STATUSES:
        return OWN_STATUSES[error.code]
    return next((status for family, status in FAMILIES if isinstance(error, family)), 500)


def problem_of(error: BaseException) -> Problem:
    """Any error as a problem. Of one that nobody foresaw, nothing but the fact goes out."""
    match error:
        case MediamillError():
            faults = getattr(error, "faults", None)
            wait = error.wait_seconds if isinstance(error, TooManyError) else RETRY_AFTER_SECONDS
            return Problem(
                status_of(error), error.code, error.message, fix=error.fix, faults=faults, wait_seconds=wait
            )
        case RequestValidationError():
            faults = [_fault(fault) for fault in error.errors()]
            return Problem(422, "invalid", "; ".join(faults), fix="correct what is listed", faults=faults)
        case HTTPException():
            code = HTTP_CODES.get(error.status_code, "http_error")
            return Problem(error.status_code, code, str(error.detail))
        case asyncpg.DataError() | UnicodeEncodeError():
            return Problem(
                422, "invalid", "a value cannot be stored", fix="look for NUL characters or lone surrogates"
            )
        case asyncpg.TransactionRollbackError():
            return Problem(503, "busy", "somebody else was at it in the same moment", fix="try again")
        case asyncpg.DiskFullError():
            return Problem(507, "disk_full", "the disk of the database is full", fix="free some space")
    if isinstance(error, LOST):
        return Problem(
            503,
            "database_down",
            "the database does not answer now",
            fix="try again; mediamill doctor looks into it",
        )
    log.error("unforeseen error", exc_info=error)
    return Problem(500, "internal", "something went wrong on our side", fix="the server's log says what")


def _fault(fault: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in fault["loc"] if part != "body")
    return f"{where}: {fault['msg']}" if where else str(fault["msg"])


async def _answer(request: Request, error: Exception) -> Problem:
    answer = problem_of(error)
    if answer.status_code == 405:
        methods = methods_of(request.app, request.url.path)
        answer.headers["Allow"] = ", ".join(sorted(methods))
    return answer


def install_errors(server: FastAPI) -> None:
    """Every error that a route can raise becomes a problem; the guard catches what is left."""
    known = (MediamillError, RequestValidationError, HTTPException, asyncpg.DataError, UnicodeEncodeError)
    for kind in (*known, *ASK_AGAIN):
        server.add_exception_handler(kind, _answer)
