"""A server of models beyond this machine: one question, one bounded answer, and what each failure means.

| the server | we |
|---|---|
| 429, 502, 503, 529, no connection, reset | wait a little, ask again twice; then ModelBusyError: the job is put off |
| other 5xx, 408, 425 | ask again twice after short pauses, then RetryLaterError |
| no answer in time | RetryLaterError |
| 3xx, any other 4xx | RefusedError (final), which names the setting to look at |
| not JSON, wrong shape, empty, too large | ask again once, then GiveUpError |

Time spent on sending a body does not count: only the server's own time is limited.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import httpx
import msgspec

from mediamill.errors import GiveUpError, NotNowError, RetryLaterError, Wait
from mediamill.processors.models.calls import Call, CallFailed, Method, Reply, open_calls
from mediamill.processors.models.pace import is_refusal
from mediamill.processors.models.rate_limits import TOO_MANY, asked_seconds

if TYPE_CHECKING:
    from pydantic import SecretStr

FIRST_PAUSE_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 10.0
LEAST_WAIT_SECONDS = 1.0  # of a job that is put off
QUICK_RETRIES = 2
AGAIN = frozenset({408, 425})
OF_TRANSPORT = frozenset({"host", "content-length", "transfer-encoding"})  # set by whoever makes the call
T = TypeVar("T")


class ModelBusyError(NotNowError):
    """The model server is busy or unavailable."""

    code = "model_busy"

    def __init__(self, message: str, wait: Wait) -> None:
        super().__init__(message)
        self.wait = wait


class ModelFailedError(RetryLaterError):
    """The model server failed or was too slow."""

    code = "model_failed"


class ModelNotSetError(GiveUpError):
    """A setting for the model server is missing or cannot be right."""

    code = "model_not_set"


class RefusedError(GiveUpError):
    """The model server refuses the request."""

    code = "model_refused"

    def __init__(self, message: str, *, status: int = 0, fix: str | None = None) -> None:
        super().__init__(message, fix=fix)
        self.status = status


class NonsenseError(GiveUpError):
    """The model server answers with something that cannot be used."""

    code = "model_nonsense"


class _AgainError(Exception):
    """This try failed in a way that may pass. `after_seconds`: when to ask again, if anybody said so."""

    def __init__(self, reason: str, after_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.after_seconds = after_seconds


class _BusyError(_AgainError):
    """The server is busy or unavailable. `suspect`: since it got our request, for all that we know."""

    def __init__(self, reason: str, after_seconds: float | None, *, suspect: bool = False) -> None:
        super().__init__(reason, after_seconds)
        self.suspect = suspect


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back with a status of 2xx."""

    headers: httpx.Headers
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body, which must be a JSON object."""
        try:
            told = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise NonsenseError("the answer is not JSON") from error
        if not isinstance(told, dict):
            raise NonsenseError("the answer is not a JSON object")
        return told


@dataclass(frozen=True, slots=True)
class Door:
    """Where a server is and what opens it; `url_setting` and `key_setting` are named in errors."""

    url: str
    url_setting: str
    key: SecretStr | None
    key_setting: str
    model_setting: str
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "


class Endpoint:
    """One server. Not for sharing between threads."""

    def __init__(self, door: Door, timeout_seconds: float) -> None:
        self._door, self._timeout_seconds = door, timeout_seconds
        self.url = checked_url(door)
        self.where = self.url.netloc.decode("ascii")
        self._key = checked_key(door)
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if self._key:
            self._headers[door.key_header] = f"{door.key_prefix}{self._key}"
        self._calls = open_calls()

    def model_id(self, name: str) -> str:
        """Provenance: only the server knows which weights it runs, so its address stands for the revision."""
        printable = "".join(each for each in name.strip()[:100] if each.isprintable())
        return f"{printable}@{self.where}"

    def stated_id(self, told: Mapping[str, Any], asked: str, key: str = "model") -> str:
        """The name that the answer gives, else the one that was asked for."""
        stated = told.get(key)
        return self.model_id(stated if isinstance(stated, str) and stated.strip() else asked)

    def ask(
        self,
        method: str,
        path: str,
        read: Callable[[Answer], T],
        *,
        retries: int = QUICK_RETRIES,
        **parts: Any,
    ) -> T:
        """Ask until `read` can make sense of the answer. `parts`: headers, json, content, data, files (httpx)."""
        request, body = self._build(method, path, parts)
        until = time.monotonic() + self._timeout_seconds
        tries, nonsense, patience = 0, 0, LONGEST_WAIT_SECONDS
        while True:
            call = msgspec.structs.replace(request, patience_seconds=max(0.01, until - time.monotonic()))
            outcome = self._calls.perform(call, body)
            until += outcome.sending_seconds
            tries += not (isinstance(outcome, CallFailed) and outcome.kind == "busy")  # that was not sent
            try:
                return read(self._take(outcome))
            except NonsenseError as error:
                nonsense += 1
                if nonsense > min(1, retries):
                    raise NonsenseError(f"{self.where}: {error.message}", fix=self._model_fix()) from error
            except _AgainError as error:
                pause = self._pause(error, tries)
                if tries > retries or pause > min(patience, until - time.monotonic()):
                    raise self._given_up(error, pause) from error
                patience -= pause
                time.sleep(pause)

    def _build(self, method: str, path: str, parts: Mapping[str, Any]) -> tuple[Call, Iterable[bytes]]:
        """The request, and its body, which can be read again for each try; a file is read from the disk as it goes."""
        url = self.url.copy_with(raw_path=self.url.raw_path.rstrip(b"/") + path.encode("ascii"))
        headers = {**self._headers, **(parts.get("headers") or {})}
        request = httpx.Request(method, url, **{**parts, "headers": headers})
        if "content-length" not in request.headers:
            request.read()
        size = int(request.headers.get("content-length") or len(request.content))
        sent = [(name, value) for name, value in request.headers.multi_items() if name not in OF_TRANSPORT]
        call = Call(cast(Method, method), str(url), sent, size, self._timeout_seconds)
        return call, cast(Iterable[bytes], request.stream)

    def _given_up(self, error: _AgainError, pause: float) -> RetryLaterError:
        if not isinstance(error, _BusyError):
            return ModelFailedError(f"{self.where}: {error}")
        wait = Wait(max(LEAST_WAIT_SECONDS, pause), self.where, error.suspect)
        return ModelBusyError(f"waiting for the model server at {self.where}: {error}", wait)

    def _pause(self, error: _AgainError, tries: int) -> float:
        if error.after_seconds is not None:
            return error.after_seconds
        step = min(FIRST_PAUSE_SECONDS, self._timeout_seconds / 20) * 2.0 ** max(0, tries - 1)
        return step * random.uniform(0.5, 1.5)  # noqa: S311 - so that many workers do not come back at once

    def _take(self, outcome: Reply | CallFailed) -> Answer:
        if isinstance(outcome, CallFailed):
            raise self._call_failure(outcome)
        if 200 <= outcome.status < 300:
            return Answer(httpx.Headers(outcome.headers), outcome.body)
        raise self._failure(outcome)

    def _call_failure(self, failed: CallFailed) -> Exception:
        match failed.kind:
            case "timeout":
                return _AgainError(f"{failed.text} within {self._timeout_seconds:g} seconds")
            case "transport":
                return _BusyError(f"the connection failed ({failed.text})", failed.wait_seconds, suspect=True)
            case "unreachable":
                return _BusyError(f"it cannot be reached ({failed.text})", failed.wait_seconds)
            case "certificate":
                return _AgainError(f"the connection failed ({failed.text})")
            case "busy":
                return _BusyError(failed.text, failed.wait_seconds)
            case "caller_gone":
                return ModelFailedError(failed.text)
            case "decoding" | "too_large":
                return NonsenseError(failed.text)
            case "request_too_large":
                return RefusedError(f"the request to {self.where} is too large: {failed.text}")
            case "forbidden":
                fix = f"add {self.url} to MEDIAMILL_MODEL_SERVERS"
                return ModelNotSetError(f"{self.where} may not be called: {failed.text}", fix=fix)
            case "no_caller":
                fix = f"add {self.url} to MEDIAMILL_MODEL_SERVERS"
                return ModelNotSetError(f"{self.where} cannot be called: {failed.text}", fix=fix)

    def _failure(self, reply: Reply) -> Exception:
        status = reply.status
        if is_refusal(reply):
            asked = asked_seconds(status, httpx.Headers(reply.headers))
            told = f", for {asked:.0f} more seconds" if asked is not None else ""
            after = asked if reply.wait_seconds is None else reply.wait_seconds
            if status == TOO_MANY:
                return _BusyError(f"too many requests (429){told}", after)
            text = f"it is unavailable ({status}){told}{self._reason(reply.body)}"
            return _BusyError(text, after, suspect=status == 502)
        if status >= 500 or status in AGAIN:
            return _AgainError(f"the server failed ({status}){self._reason(reply.body)}")
        if status in (401, 403):  # their own words may repeat the key
            setting = self._door.key_setting
            fix = f"set {setting}" if self._key is None else f"check {setting}: it is refused"
            return RefusedError(f"{self.where} refuses us ({status})", status=status, fix=fix)
        if 300 <= status < 400:
            fix = f"set {self._door.url_setting} to the final address"
            return RefusedError(f"{self.where} sends us elsewhere ({status})", status=status, fix=fix)
        reason = f"{self.where} refuses the request ({status}){self._reason(reply.body)}"
        return RefusedError(reason, status=status, fix=self._model_fix())

    def _model_fix(self) -> str:
        return f"check {self._door.url_setting} and {self._door.model_setting}"

    def _reason(self, body: bytes) -> str:
        """What the server says about it, short, on one line, without our key."""
        try:
            told = json.loads(body)
            error = told.get("error", told) if isinstance(told, dict) else told
            said = error.get("message") if isinstance(error, dict) else error
        except (ValueError, RecursionError):
            return ""
        line = " ".join(str(said or "").split())[:300]
        if self._key:
            line = line.replace(self._key, "…")
        return f": {line}" if line else ""


def checked_url(door: Door) -> httpx.URL:
    """Its address; one that cannot be right is not repeated, as it may hold a password."""
    try:
        url = httpx.URL(door.url.strip())
    except (httpx.InvalidURL, ValueError) as error:
        raise ModelNotSetError(f"{door.url_setting} is no address", fix=f"set {door.url_setting}") from error
    if url.scheme not in ("http", "https") or not url.host or url.userinfo or url.query:
        raise ModelNotSetError(
            f"{door.url_setting} must be http(s)://host/path, without user, password or query",
            fix=f"set {door.url_setting}, and the key as {door.key_setting}",
        )
    return url


def checked_key(door: Door) -> str | None:
    """Its key, if there is one."""
    key = door.key.get_secret_value().strip() if door.key else ""
    if not (key.isascii() and key.isprintable()):  # the HTTP library would print it in its complaint
        raise ModelNotSetError(f"{door.key_setting} has characters that no key has")
    return key or None
