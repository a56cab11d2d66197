"""Plans for videos: list, change, and wait until one can be played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mediamill.client.body import Body
from mediamill.client.plans import Ask, Pause, Plan, Plans, path_part
from mediamill.client.problems import VideoFailedError
from mediamill.client.video import Video, read_video

VIDEOS = "/api/videos"
PAGE = 100
LOOK_SECONDS = 1.0


def list_videos(plans: Plans, limit: int, filters: Mapping[str, str | None]) -> Plan[list[Video]]:
    """Page by page, newest first."""
    found: list[Video] = []
    params = {name: value for name, value in filters.items() if value is not None}
    while True:
        page = yield from _ask(plans, Ask("GET", VIDEOS, {**params, "amount": str(min(limit, PAGE))}))
        found += map(read_video, page["videos"])
        if len(found) >= limit or not page["next"]:
            return found[:limit]
        params["before"] = page["next"]


def change_video(plans: Plans, who: str, verb: str, said: Mapping[str, Any] | None = None) -> Plan[Video]:
    """Not repeatable: whoever asks twice is told that it is done already."""
    body = None if said is None else Body(said, [])
    path = f"{VIDEOS}/{path_part(who)}/{verb}"
    return read_video((yield from _ask(plans, Ask("POST", path, body=body, repeatable=False))))


def retranscode_video(
    plans: Plans, who: str, qualities: Sequence[str] | None, transcript: bool, priority: str
) -> Plan[Video]:
    """All qualities, if none is named."""
    said = {
        "qualities": None if qualities is None else list(qualities),
        "transcript": transcript,
        "priority": priority,
    }
    return change_video(plans, who, "retranscode", said)


def delete_video(plans: Plans, who: str, forever: bool) -> Plan[None]:
    """To the trash, or out of it."""
    params = {"forever": "true"} if forever else {}
    yield from _ask(plans, Ask("DELETE", f"{VIDEOS}/{path_part(who)}", params, repeatable=False))


def wait_ready(plans: Plans, who: str, timeout: float | None) -> Plan[Video]:
    """Looks now and then; what is made anew is waited for, too."""
    waited = 0.0
    while True:
        video = yield from plans.video(who)
        if video.job_id is None and video.error:
            raise VideoFailedError(video)
        if video.state == "ready" and video.job_id is None:
            return video
        if timeout is not None and waited >= timeout:
            raise TimeoutError(f"{video.title} is still {video.state} after {timeout:g} seconds")
        yield Pause(LOOK_SECONDS)
        waited += LOOK_SECONDS


def _ask(plans: Plans, ask: Ask) -> Plan[Any]:
    return plans.read((yield from plans.insist(ask)))
