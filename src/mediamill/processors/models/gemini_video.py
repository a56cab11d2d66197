"""Whole videos to a description by Gemini: upload the file, wait until it is ready, ask, delete it over there."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import httpx

from mediamill.errors import GiveUpError, MediamillError, RetryLaterError
from mediamill.media.errors import MediaTooLargeError, UnsupportedMediaError
from mediamill.processors.models.contract import Sight
from mediamill.processors.models.endpoint import (
    Answer,
    Endpoint,
    ModelFailedError,
    ModelNotSetError,
    NonsenseError,
    RefusedError,
)
from mediamill.processors.models.instructions import VIDEO, hint
from mediamill.processors.models.servers import gemini_door

if TYPE_CHECKING:
    from mediamill.settings import Settings

log = logging.getLogger(__name__)
T = TypeVar("T")

DEFAULT_MODEL = "gemini-2.5-flash"
LARGEST_FILE_BYTES = 2_000_000_000  # what the API keeps per file
CHUNK_BYTES = 8 << 20  # all but the last must be multiples of 256 KiB
RESUMPTIONS = 3
FIRST_POLL_SECONDS = 1.0
LONGEST_POLL_SECONDS = 10.0
LONGEST_TEXT_CHARACTERS = 100_000
FILE_NAME = re.compile(r"files/[A-Za-z0-9_-]{1,100}")
MODEL_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
TYPES = {  # ours -> Gemini's
    **{f"video/{name}": f"video/{name}" for name in ("mp4", "mpeg", "quicktime", "webm", "3gpp", "x-flv")},
    "video/avi": "video/avi",
    "video/x-msvideo": "video/avi",
    "video/x-ms-wmv": "video/wmv",
    "video/x-m4v": "video/mp4",
}


@dataclass(frozen=True, slots=True)
class _Uploaded:
    name: str  # files/…
    uri: str
    state: str


class GeminiVideo:
    """Everything of the file leaves this machine; nothing of it stays over there."""

    network = True

    def __init__(self, settings: Settings) -> None:
        self._endpoint = Endpoint(gemini_door(settings), settings.model_timeout_seconds)
        self._patience_seconds = settings.model_timeout_seconds
        self._asked = (settings.video_model or DEFAULT_MODEL).removeprefix("models/")
        if not MODEL_NAME.fullmatch(self._asked):
            raise ModelNotSetError("MEDIAMILL_VIDEO_MODEL is no name of a model", fix=f"try {DEFAULT_MODEL}")
        self.model = self._endpoint.model_id(self._asked)

    def watch(self, path: Path, mime_type: str, caption: str = "") -> Sight:
        """What happens in the video, with times, and what is said."""
        if mime_type not in TYPES:
            raise UnsupportedMediaError(f"Gemini does not take {mime_type}")
        uploaded = self._upload(path, TYPES[mime_type])
        try:
            self._wait_until_active(uploaded)
            text = self._describe(uploaded, TYPES[mime_type], caption)
        finally:
            self._delete(uploaded)
        return Sight(description=text, models=(self.model,))

    def _upload(self, path: Path, mime_type: str) -> _Uploaded:
        size = path.stat().st_size
        if size > LARGEST_FILE_BYTES:
            raise MediaTooLargeError(f"Gemini takes files of at most {LARGEST_FILE_BYTES} bytes, not {size}")
        address = self._start(size, mime_type)
        try:
            with path.open("rb") as file:
                return self._send_chunks(address, file, size)
        except BaseException:
            with suppress(MediamillError):
                self._command(address, "cancel", lambda _: None, retries=0)
            raise

    def _start(self, size: int, mime_type: str) -> str:
        headers = {
            "X-Goog-Upload-Protocol": "resumable",
            "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": str(size),
            "X-Goog-Upload-Header-Content-Type": mime_type,
        }
        body = {"file": {"display_name": "video"}}  # the sender's file name is nobody's business
        return self._endpoint.ask(
            "POST", "/upload/v1beta/files", self._read_address, headers=headers, json=body
        )

    def _read_address(self, answer: Answer) -> str:
        """Where to send the bytes, as a path: only to the same server, and without the key that it repeats."""
        try:
            url = httpx.URL(answer.headers["X-Goog-Upload-URL"])
        except (KeyError, httpx.InvalidURL) as error:
            raise NonsenseError("the answer has no address for the upload") from error
        home = self._endpoint.url
        prefix = home.raw_path.rstrip(b"/")
        if url.copy_with(raw_path=b"/") != home.copy_with(raw_path=b"/") or url.userinfo:
            raise RefusedError("Gemini sends the upload to another server", fix="check MEDIAMILL_GEMINI_URL")
        path = url.copy_remove_param("key").raw_path
        return path.removeprefix(prefix).decode("ascii")

    def _send_chunks(self, address: str, file: BinaryIO, size: int) -> _Uploaded:
        """Chunk after chunk; where one is lost, the server is asked how much it has, and goes on from there."""
        offset, resumptions = 0, 0
        while True:
            file.seek(offset)
            chunk = file.read(CHUNK_BYTES)
            last = offset + len(chunk) >= size
            headers = {"X-Goog-Upload-Offset": str(offset)}
            try:
                if last:
                    command = "upload, finalize"
                    return self._command(
                        address, command, _read_file, retries=0, headers=headers, content=chunk
                    )
                self._command(address, "upload", lambda _: None, retries=0, headers=headers, content=chunk)
                offset += len(chunk)
            except RetryLaterError:
                resumptions += 1
                if resumptions > RESUMPTIONS:
                    raise
                received = self._command(address, "query", _read_received)
                if received is None or not 0 <= received < size:
                    raise  # it has all but did not tell the name: this upload is lost
                offset = received

    def _command(self, address: str, command: str, read: Callable[[Answer], T], **parts: Any) -> T:
        headers = {"X-Goog-Upload-Command": command, **parts.pop("headers", {})}
        return self._endpoint.ask("POST", address, read, headers=headers, **parts)

    def _wait_until_active(self, uploaded: _Uploaded) -> None:
        until = time.monotonic() + self._patience_seconds
        pause = min(FIRST_POLL_SECONDS, self._patience_seconds / 20)
        state = uploaded.state
        while state != "ACTIVE":
            if state == "FAILED":
                raise GiveUpError("Gemini cannot make sense of the video: its processing failed there")
            if time.monotonic() + pause > until:
                raise ModelFailedError(
                    f"Gemini is still preparing the video after {self._patience_seconds:g} seconds"
                )
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_POLL_SECONDS)
            state = self._endpoint.ask("GET", f"/v1beta/{uploaded.name}", _read_state)

    def _describe(self, uploaded: _Uploaded, mime_type: str, caption: str) -> str:
        def read(answer: Answer) -> str:
            told = answer.json()
            text = read_text(told)
            self.model = self._endpoint.stated_id(told, self._asked, "modelVersion")
            return text

        video = {"file_data": {"mime_type": mime_type, "file_uri": uploaded.uri}}
        body = {
            "system_instruction": {"parts": [{"text": VIDEO}]},
            "contents": [{"role": "user", "parts": [video, {"text": hint(caption, "video")}]}],
        }
        return self._endpoint.ask("POST", f"/v1beta/models/{self._asked}:generateContent", read, json=body)

    def _delete(self, uploaded: _Uploaded) -> None:
        try:
            self._endpoint.ask("DELETE", f"/v1beta/{uploaded.name}", lambda _: None)
        except (
            MediamillError
        ) as error:  # the result is worth more; Gemini deletes it by itself after two days
            log.warning("%s could not be deleted at Gemini: %s", uploaded.name, error.message)


def _read_file(answer: Answer) -> _Uploaded:
    file = answer.json().get("file")
    if not isinstance(file, dict):
        raise NonsenseError("the answer names no file")
    name, uri, state = (str(file.get(key) or "") for key in ("name", "uri", "state"))
    if not FILE_NAME.fullmatch(name) or not uri:
        raise NonsenseError("the answer names no file")
    return _Uploaded(name, uri, state)


def _read_state(answer: Answer) -> str:
    return str(answer.json().get("state") or "")


def _read_received(answer: Answer) -> int | None:
    received = answer.headers.get("X-Goog-Upload-Size-Received", "")
    return int(received) if received.isdecimal() and len(received) < 20 else None


def read_text(told: dict[str, Any]) -> str:
    """The text of an answer of generateContent, without the model's thoughts; a block is final."""
    blocked = (told.get("promptFeedback") or {}).get("blockReason")
    if blocked:
        raise RefusedError(f"Gemini refuses the video ({str(blocked)[:100]})")
    try:
        candidate = told["candidates"][0]
        reason = candidate.get("finishReason")
        parts = (candidate.get("content") or {}).get("parts") or []
        text = "".join(part.get("text") or "" for part in parts if not part.get("thought"))
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise NonsenseError("the answer has no text") from error
    if not text.strip():
        if reason not in (None, "STOP", "MAX_TOKENS"):
            raise RefusedError(f"Gemini refuses to describe the video ({str(reason)[:100]})")
        raise NonsenseError("the answer is empty")
    return text[:LONGEST_TEXT_CHARACTERS].strip()
