"""The Python client: `Client`, and `AsyncClient` for asyncio, send messages with images and follow the
answers, and upload videos."""

from __future__ import annotations

from mediamill.client.awaiting import AsyncClient
from mediamill.client.blocking import Client
from mediamill.client.body import ImageChangedError
from mediamill.client.model import (
    DeliveryMode,
    Finished,
    Image,
    ImageLike,
    Restarted,
    Run,
    RunEvent,
    RunState,
    StateChanged,
    TextPiece,
    UploadedVideo,
)
from mediamill.client.problems import NoServerError, ProblemError, RunFailedError, VideoFailedError
from mediamill.client.upload import VideoChangedError
from mediamill.client.video import Quality, Retranscode, Video

__all__ = [
    "AsyncClient",
    "Client",
    "DeliveryMode",
    "Finished",
    "Image",
    "ImageChangedError",
    "ImageLike",
    "NoServerError",
    "ProblemError",
    "Quality",
    "Restarted",
    "Retranscode",
    "Run",
    "RunEvent",
    "RunFailedError",
    "RunState",
    "StateChanged",
    "TextPiece",
    "UploadedVideo",
    "Video",
    "VideoChangedError",
    "VideoFailedError",
]
