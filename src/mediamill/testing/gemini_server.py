"""Gemini's File API and generateContent on this machine: uploads by the resumable protocol, held to its rules."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from mediamill.testing.model_server import ModelServer, Reply, Seen

DESCRIPTION = "00:00 A red square moves over a white ground."
GRANULE_BYTES = 262_144


@dataclass(slots=True)
class Upload:
    """A file as it arrived."""

    size: int
    mime_type: str
    received: int = 0
    chunks: list[int] = field(default_factory=list)
    digest: Any = field(default_factory=hashlib.sha256)
    finished: bool = False
    cancelled: bool = False
    deleted: bool = False
    polls: int = 0


class GeminiServer(ModelServer):
    """`polls_until_active`: how often it says PROCESSING. `ends_as`: ACTIVE, or FAILED."""

    def __init__(self, *, polls_until_active: int = 2, ends_as: str = "ACTIVE") -> None:
        self.uploads: list[Upload] = []
        self.polls_until_active, self.ends_as = polls_until_active, ends_as
        self.states_model: str | None = None
        super().__init__()

    def answer(self, seen: Seen) -> Reply:
        """What the real one would say."""
        path, _, query = seen.path.partition("?")
        if path == "/upload/v1beta/files":
            if seen.headers["x-goog-upload-command"] == "start":
                return self._start(seen)
            number = int(query.partition("upload_id=")[2].partition("&")[0])
            return self._receive(self.uploads[number], number, seen)
        if path.startswith("/v1beta/files/video-"):
            return self._file(int(path.removeprefix("/v1beta/files/video-")), seen.method)
        if path.startswith("/v1beta/models/") and path.endswith(":generateContent"):
            return self._generate(path.removeprefix("/v1beta/models/").removesuffix(":generateContent"))
        return _error(404, f"no route {path}")

    def _start(self, seen: Seen) -> Reply:
        size = int(seen.headers["x-goog-upload-header-content-length"])
        self.uploads.append(Upload(size, seen.headers["x-goog-upload-header-content-type"]))
        key = seen.headers.get("x-goog-api-key", "")  # the real one repeats it too
        query = f"key={key}&upload_id={len(self.uploads) - 1}&upload_protocol=resumable"
        return Reply(b"", headers={"X-Goog-Upload-URL": f"{self.url}/upload/v1beta/files?{query}"})

    def _receive(self, upload: Upload, number: int, seen: Seen) -> Reply:
        command = seen.headers["x-goog-upload-command"]
        if command == "query":
            state = "final" if upload.finished else "active"
            received = {"X-Goog-Upload-Size-Received": str(upload.received), "X-Goog-Upload-Status": state}
            return Reply(b"", headers=received)
        if command == "cancel":
            upload.cancelled = True
            return Reply(b"")
        if int(seen.headers["x-goog-upload-offset"]) != upload.received:
            return _error(400, "wrong offset")
        last = "finalize" in command
        if not last and seen.body_bytes % GRANULE_BYTES:
            return _error(400, "a chunk is no multiple of the granularity")
        upload.received += seen.body_bytes
        upload.chunks.append(seen.body_bytes)
        upload.digest.update(seen.body)
        if not last:
            return Reply(b"", headers={"X-Goog-Upload-Status": "active"})
        upload.finished = upload.received == upload.size
        return Reply.json({"file": self._facts(number)}) if upload.finished else _error(400, "incomplete")

    def _facts(self, number: int) -> dict[str, str]:
        upload = self.uploads[number]
        waiting = upload.polls < self.polls_until_active
        name = f"files/video-{number}"
        state = "PROCESSING" if waiting else self.ends_as
        return {"name": name, "uri": f"{self.url}/v1beta/{name}", "state": state}

    def _file(self, number: int, method: str) -> Reply:
        if method == "DELETE":
            self.uploads[number].deleted = True
            return Reply.json({})
        self.uploads[number].polls += 1
        return Reply.json(self._facts(number))

    def _generate(self, model: str) -> Reply:
        parts = [{"text": "the model thinks", "thought": True}, {"text": DESCRIPTION}]
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
        return Reply.json({"candidates": [candidate], "modelVersion": self.states_model or model})


def _error(status: int, message: str) -> Reply:
    return Reply.json({"error": {"code": status, "message": message}}, status)
