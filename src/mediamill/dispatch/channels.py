"""What other programs are told by Redis Pub/Sub: which event goes to which channel, as JSON.

The relay publishes it. Nothing here is needed by mediamill itself, and nobody waits for those who listen.
"""

from __future__ import annotations

import json

from mediamill.engine.events import Event

WORKERS = "worker_status"
PROGRESS = "transcode_progress"
COMPLETE = "transcode_complete"
TRANSCODE = "video.transcode"
ENDS = {"job.completed": "completed", "job.failed": "failed"}


def message_of(event: Event) -> tuple[str, str] | None:
    """Channel and text; None if the event is for no channel."""
    if event.topic == "worker.status":
        return WORKERS, json.dumps(event.data)
    if event.data.get("kind") != TRANSCODE:
        return None
    said = {"video_id": event.subject, "job_id": event.data["id"]}
    if event.topic == "job.progress":
        more = {name: event.data.get(name) for name in ("step", "percent", "parts")}
        return f"{PROGRESS}:{event.subject}", json.dumps(said | more)
    if event.topic in ENDS:
        more = {"state": ENDS[event.topic], "error": event.data.get("error")}
        return f"{COMPLETE}:{event.subject}", json.dumps(said | more)
    return None
