"""What can go wrong between client and server. What the server refuses comes with its own stable code."""

from __future__ import annotations

from mediamill.client.model import Run
from mediamill.client.video import Video
from mediamill.errors import MediamillError, UnavailableError


class ProblemError(MediamillError):
    """The server refused. `code` is stable: `image_count_exceeded`, `idempotency_payload_mismatch`, …"""

    def __init__(self, code: str, status: int, detail: str, fix: str | None = None) -> None:
        super().__init__(f"{detail} ({code})", fix=fix)
        self.code, self.status, self.detail = code, status, detail


class NoServerError(UnavailableError):
    """No mediamill answers there."""

    code = "no_server"


class RunFailedError(MediamillError):
    """The run failed; `run` is how it ended."""

    code = "run_failed"

    def __init__(self, run: Run) -> None:
        why = f"{run.error or 'nobody knows why'}" + (f" ({run.error_code})" if run.error_code else "")
        super().__init__(f"the run failed: {why}", fix=f"try it again: mediamill runs retry {run.run_id}")
        self.run = run


class VideoFailedError(MediamillError):
    """The video, or its retranscode, failed; `video` is how it ended."""

    code = "video_failed"

    def __init__(self, video: Video) -> None:
        why = video.error or "nobody knows why"
        super().__init__(f"the video failed: {why}", fix=f"try it again: mediamill videos retry {video.slug}")
        self.video = video
