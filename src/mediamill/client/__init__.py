"""The Python client: `Client`, and `AsyncClient` for asyncio, send messages with images and follow the answers."""

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
)
from mediamill.client.problems import NoServerError, ProblemError, RunFailedError

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
    "Restarted",
    "Run",
    "RunEvent",
    "RunFailedError",
    "RunState",
    "StateChanged",
    "TextPiece",
]
