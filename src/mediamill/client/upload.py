"""Uploading a video: in chunks, on from where it broke off, also after a restart of either side (tus 1.0).

The server is told when its last answer was heard. Whoever is killed before that and begins again is given the video
that there is; whoever sends the same file after it means another one.
"""

from __future__ import annotations

import hashlib
import os
from base64 import b64encode
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mediamill.client.body import Progress
from mediamill.client.model import UploadedVideo
from mediamill.client.plans import Answer, Ask, Lost, Pause, Plan, Plans, Reply, Waits
from mediamill.client.problems import ProblemError
from mediamill.errors import InvalidError, MediamillError
from mediamill.media.peek import open_regular

UPLOADS = "/api/uploads"
TUS = {"Tus-Resumable": "1.0.0"}
CHUNK_BYTES = 1 << 30  # of one request; each is on the server's disk before the next one begins
PIECE_BYTES = 1 << 18
ENDS_BYTES = 1 << 16  # of the file's beginning and end go into its fingerprint
MOST_BEGINNINGS = 3
# Stalled; begun elsewhere; somebody else sends (perhaps ourselves, on a line that broke).
PASSING = (408, 409, 423)
GONE = (404, 410)


class VideoChangedError(InvalidError):
    """The file changed while it was sent."""

    code = "video_changed"


@dataclass(frozen=True, slots=True)
class VideoFile:
    """A file as it was when its upload began."""

    path: Path
    size: int
    changed_ns: int
    fingerprint: str

    @classmethod
    def of(cls, path: Path) -> VideoFile:
        """Known by its size, its time, its beginning and its end; wherever it lies, whatever its name."""
        with open_regular(path) as file:
            facts = os.fstat(file.fileno())
            if not facts.st_size:
                raise InvalidError(f"{path.name} is empty")
            known = hashlib.sha256(f"{facts.st_size} {facts.st_mtime_ns} ".encode())
            known.update(file.read(ENDS_BYTES))
            file.seek(max(facts.st_size - ENDS_BYTES, 0))
            known.update(file.read(ENDS_BYTES))
        return cls(path, facts.st_size, facts.st_mtime_ns, f"mediamill-{known.hexdigest()}")

    def check(self, descriptor: int) -> None:
        """Is it still that file?"""
        facts = os.fstat(descriptor)
        if (facts.st_size, facts.st_mtime_ns) != (self.size, self.changed_ns):
            raise VideoChangedError(f"{self.path.name} changed while it was sent", fix="send it again")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some of the file's bytes, as the body of a request."""

    file: VideoFile
    offset: int
    length: int
    progress: Progress | None
    content_type: str = "application/offset+octet-stream"

    def pieces(self) -> Generator[bytes, None, None]:
        """Never more than was announced."""
        sent, end = self.offset, self.offset + self.length
        with open_regular(self.file.path) as file:
            self.file.check(file.fileno())
            file.seek(sent)
            while sent < end:
                piece = file.read(min(PIECE_BYTES, end - sent))
                if not piece:
                    raise VideoChangedError(f"{self.file.path.name} got shorter while it was sent")
                sent += len(piece)
                if sent == end:
                    self.file.check(file.fileno())  # before it counts as sent
                yield piece
                if self.progress:
                    self.progress(sent, self.file.size)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an upload is, and how far."""

    path: str
    offset: int
    video_id: str | None

    def moved(self, answer: Answer) -> _Place:
        told = answer.headers
        return _Place(self.path, int(told.get("upload-offset", self.offset)), told.get("video-id"))


def upload_video(
    plans: Plans, path: Path, said: Mapping[str, str | None], progress: Progress | None
) -> Plan[UploadedVideo]:
    """Begin, or go on by the fingerprint; begin anew if the server has dropped it meanwhile."""
    file = VideoFile.of(path)
    resumed_from: int | None = None
    for beginnings_left in reversed(range(MOST_BEGINNINGS)):
        place = yield from _begin(plans, file, said)
        resumed_from = place.offset if resumed_from is None else resumed_from
        if progress:
            progress(place.offset, file.size)
        reply = yield from _send_all(plans, file, place, progress)
        if isinstance(reply, _Place):
            assert reply.video_id is not None
            # Heard. If that does not arrive, the same file is found again once more, and nothing else.
            yield Ask("DELETE", reply.path, headers=TUS)
            return UploadedVideo(reply.video_id, file.size, resumed_from)
        if not (beginnings_left and isinstance(reply, Answer) and reply.status in GONE):
            raise _refusal(plans, reply)
    raise AssertionError


def _refusal(plans: Plans, reply: Reply) -> MediamillError:
    """As the server worded it; an answer to HEAD has no words."""
    if isinstance(reply, Answer) and not reply.body:
        return ProblemError("upload_refused", reply.status, f"the server answered {reply.status}")
    plans.read(reply)
    return plans.stranger()


def _begin(plans: Plans, file: VideoFile, said: Mapping[str, str | None]) -> Plan[_Place]:
    facts = {"filename": file.path.name, "fingerprint": file.fingerprint, **said}
    told = ",".join(
        f"{key} {b64encode(value.encode(errors='replace')).decode()}" for key, value in facts.items() if value
    )
    headers = {**TUS, "Upload-Length": str(file.size), "Upload-Metadata": told}
    reply = yield from plans.insist(Ask("POST", UPLOADS, headers=headers))
    if isinstance(reply, Answer) and reply.status == 201 and "location" in reply.headers:
        path = f"{UPLOADS}/{reply.headers['location'].rstrip('/').rpartition('/')[2]}"
        return _Place(path, 0, None).moved(reply)
    raise _refusal(plans, reply)


def _send_all(
    plans: Plans, file: VideoFile, place: _Place, progress: Progress | None
) -> Plan[_Place | Reply]:
    """Chunk after chunk; after whatever broke off, ask where to go on. What cannot be helped is given back."""
    waits, lost_track = Waits(plans.patience), False
    while place.video_id is None:
        if lost_track or place.offset >= file.size:
            ask = Ask("HEAD", place.path, headers=TUS)
        else:
            chunk = Chunk(file, place.offset, min(CHUNK_BYTES, file.size - place.offset), progress)
            headers = {**TUS, "Upload-Offset": str(place.offset)}
            ask = Ask("PATCH", place.path, body=chunk, headers=headers)
        reply = yield ask
        if isinstance(reply, Answer) and 200 <= reply.status < 300:
            before, place, lost_track = place, place.moved(reply), False
            if place.offset > before.offset:
                waits = Waits(plans.patience)
            if place.offset < file.size or place.video_id:
                continue
            reply = Lost("the upload is not finished")  # all of it is there, and somebody is at it
        seconds = waits.again(reply, repeatable=True, also=PASSING)
        if seconds is None:
            return reply
        lost_track = True
        yield Pause(seconds)
    return place
