"""Videos on the terminal: the list, one with its qualities, and how far each of them is."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from mediamill.cli.terminal import ago, clean, clock, make_table, one_line, size, styled
from mediamill.cli.watch import bar
from mediamill.videos.model import make_slug

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

COLUMNS = ("video", "~title", "state", "~category", ">length", "qualities", ">size", ">age", "~about")
QUALITY_COLUMNS = (
    "quality",
    "state",
    "progress",
    ">segments",
    ">picture",
    ">size",
    ">rate",
    "codecs",
    "~about",
)
STATES = ("completed", "in_progress", "pending", "failed", "skipped")
STEPS = ("probe", "thumbnail", "transcode", "master_playlist", "finalize")
STEP_WORDS = {"master_playlist": "master playlist"}


def video_row(video: dict[str, Any]) -> list[Any]:
    """A video as a row of the list."""
    return [
        one_line(video["slug"], 40),
        one_line(video["title"], 40) if video["slug"] != make_slug(video["title"]) else "",  # it says no more
        styled("deleted" if video["deleted_at"] else video["state"]),
        one_line(video["category"], 20),
        length(video["duration_seconds"]),
        qualities_text(video),
        size(video["output_bytes"] or video["source_bytes"]),
        ago(video["created_at"]),
        one_line(about(video)),
    ]


def qualities_text(video: dict[str, Any]) -> Text:
    """The best that plays and how many more; how many failed, how many are to come."""
    from rich.text import Text

    named = {
        state: [row["quality"] for row in video["qualities"] if row["state"] == state] for state in STATES
    }
    done, failed = named["completed"], named["failed"]
    coming = len(named["in_progress"]) + len(named["pending"])
    words = [
        (f"{done[0]} +{len(done) - 1}" if len(done) > 1 else "".join(done), "completed"),
        (f"{coming} to come" if coming else "", "in_progress"),
        (f"{len(failed)} failed" if failed else "", "failed"),
    ]
    return Text(", ").join(Text(word, style=styled(state).style) for word, state in words if word)


def about(video: dict[str, Any]) -> str:
    """What is worth saying of a video in a few words."""
    if video["job_state"] == "running":
        percent = "" if video["percent"] is None else f"{video['percent']:.0f} %"
        step = STEP_WORDS.get(video["step"], video["step"])
        return " ".join(part for part in (percent, step, f"on {video['worker_name']}") if part)
    if video["state"] == "ready" and video["job_id"] is not None:
        return "plays while a retranscode waits"
    if video["state"] == "ready" and video["error"]:
        return f"the retranscode failed: {video['error']}"
    if video["error"] and video["state"] == "pending":
        return f"tried again: {video['error']}"
    return str(video["error"] or "")


def length(seconds: float | None) -> str:
    """How long it plays: 0:07, 1:02:03."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def video_fields(video: dict[str, Any]) -> dict[str, Any]:
    """What is known of one video, for people."""
    picture = f"{video['width']}x{video['height']}" if video["width"] else None
    rate = f" at {video['frame_rate']:g} fps" if video["frame_rate"] else ""
    sound = {True: "yes", False: "none", None: None}[video["has_audio"]]
    captions = video["captions_state"] + (f": {video['captions_error']}" if video["captions_error"] else "")
    return {
        "title": video["title"],
        "slug": video["slug"],
        "id": video["id"],
        "state": styled(video["state"]),
        "error": video["error"],
        "in the trash": clock(video["deleted_at"]),
        "description": video["description"] or None,
        "category": video["category"] or None,
        "source": f"{video['source_name']} ({size(video['source_bytes'])}, {video['mime_type']})",
        "length": length(video["duration_seconds"]) or None,
        "picture": picture and picture + rate + (", HDR" if video["hdr"] else ""),
        "sound": sound,
        "captions": captions,
        "stream": size(video["output_bytes"]) if video["output_bytes"] else None,
        "warnings": "; ".join(video["warnings"]) or None,
        "created": clock(video["created_at"]),
        "ready": clock(video["ready_at"]),
        "job": _job(video),
    }


def _job(video: dict[str, Any]) -> str | None:
    if video["job_id"] is None:
        return (
            None
            if video["dead_job_id"] is None
            else f"{video['dead_job_id']} is dead: mediamill dead show {video['dead_job_id']}"
        )
    wish = video.get("retranscode")
    what = f", makes {', '.join(wish['qualities'] or ['all'])} anew" if wish else ""
    tries = f", attempt {video['attempts']} of {video['max_attempts']}" if video["attempts"] else ""
    return f"{video['job_id']} {video['job_state']}{tries}{what}"


def quality_rows(video: dict[str, Any]) -> list[list[Any]]:
    """Its qualities, the highest first."""
    return [
        [
            row["quality"],
            styled(row["state"].replace("_", " ")),
            bar(row["percent"], 16) if row["state"] in ("in_progress", "pending") else "",
            _segments(row),
            f"{row['width']}x{row['height']}" if row["width"] else "",
            size(row["bytes"]) if row["bytes"] else "",
            rate(row["bitrate"]),
            row["codecs"],
            one_line(row["error"] or _made(row), 60),
        ]
        for row in video["next_qualities"] or video["qualities"]
    ]


def rate(bits: int | None) -> str:
    """Bits per second."""
    if bits is None:
        return ""
    return f"{bits / 1e6:.1f} Mbit/s" if bits >= 1e6 else f"{bits / 1e3:.0f} kbit/s"


def _segments(row: dict[str, Any]) -> str:
    if row["segments_total"] is None:
        return ""
    return f"{row['segments_done']}/{row['segments_total']}"


def _made(row: dict[str, Any]) -> str:
    by = f"by {row['worker_name']}" if row["worker_name"] and row["state"] == "completed" else ""
    return " ".join(part for part in (took(row["started_at"], row["ended_at"]), by) if part)


def took(started_at: datetime | None, ended_at: datetime | None) -> str:
    """How long it was made."""
    from mediamill.cli.terminal import span

    return (
        ""
        if started_at is None or ended_at is None
        else f"in {span((ended_at - started_at).total_seconds())}"
    )


def draw_progress(video: dict[str, Any]) -> RenderableType:
    """One video while it is made: the steps, and a bar for each quality."""
    from rich.console import Group
    from rich.text import Text

    title = Text.assemble((clean(video["title"]), "bold"), "  ", styled(video["state"]), "  ", _where(video))
    parts: list[RenderableType] = [title]
    if video["job_state"] == "running":
        parts.append(Text.assemble(bar(video["percent"], 40), "  ", _steps(video["step"])))
    if video["next_qualities"] or video["qualities"]:
        parts.append(make_table(QUALITY_COLUMNS, quality_rows(video)))
    return Group(*parts)


def _where(video: dict[str, Any]) -> Text:
    from rich.text import Text

    words = {
        "queued": "waits for a worker",
        "held": "waits in the trash",
        "scheduled": f"is tried again soon: {one_line(video['error'])}",
        "running": f"on {video['worker_name']}",
    }
    return Text(clean(words.get(video["job_state"], "")), style="dim")


def _steps(current: str | None) -> Text:
    """All steps in one line; what is done is green, what comes is dim."""
    from rich.text import Text

    at = STEPS.index(current) if current in STEPS else -1
    styles = [
        "green" if number < at else "bold cyan" if number == at else "dim" for number in range(len(STEPS))
    ]
    words = [Text(STEP_WORDS.get(step, step), style=style) for step, style in zip(STEPS, styles, strict=True)]
    return Text(" · ", style="dim").join(words)
