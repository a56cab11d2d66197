"""Libraries and their assets on the terminal. Names of files come from strangers, and need not be readable."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mediamill.cli.terminal import ago, clock, one_line, plural, size, span, styled
from mediamill.cli.video_screen import length
from mediamill.errors import InvalidError

if TYPE_CHECKING:
    from rich.text import Text

COLUMNS = (
    "library",
    "~name",
    "state",
    ">assets",
    ">done",
    ">failed",
    ">gone",
    ">size",
    ">scanned",
    "~folder",
)
TRASH_COLUMNS = ("library", "~name", ">assets", ">size", ">removed", "state", "~folder")
ASSET_COLUMNS = (">id", "~path", "type", "status", "when", ">picture", ">length", ">size", "~about")
SCENE_COLUMNS = (">scene", ">from", ">to", "kept by", ">sharp", "~description", "~tags")
FRAME_COLUMNS = (">at", "key", "~description", "~tags")
UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
LONGEST_SECONDS = 366 * 86_400


def read_span(text: str | None) -> int | None:
    """`15m`, `6h`, `1d`; `never` is 0, and nothing is None."""
    if text is None:
        return None
    if text == "never":
        return 0
    found = re.fullmatch(r"([0-9]{1,9})(s|m|min|h|d)", text.strip(), re.ASCII)
    seconds = int(found[1]) * UNITS[found[2]] if found else 0
    if not 0 < seconds <= LONGEST_SECONDS:
        raise InvalidError(f"{text!r} is no length of time", fix="for example 15m, 6h or 1d; or never")
    return seconds


def library_row(library: dict[str, Any]) -> list[Any]:
    """A library as a row of the list."""
    statuses = library["statuses"]
    return [
        library["slug"],
        one_line(library["name"], 40),
        _state(library),
        library["assets"],
        statuses["completed"],
        _worrying(statuses["failed"] + statuses["poisoned"]),
        library["vanished"] or "",
        size(library["bytes"]),
        ago(library["scanned_at"]) or "never",
        one_line(library["absolute_path"], 120),
    ]


def trash_row(library: dict[str, Any]) -> list[Any]:
    """A library in the trash."""
    return [
        library["slug"],
        one_line(library["name"], 40),
        library["assets"],
        size(library["bytes"]),
        ago(library["deleted_at"]),
        "being erased" if library.get("erasing") else "",
        one_line(library["absolute_path"], 120),
    ]


def library_fields(library: dict[str, Any]) -> dict[str, Any]:
    """All that is worth saying of one."""
    mode = library["sampling_policy"].get("mode", "scenes")
    every = library["rescan_seconds"]
    return {
        "library": library["slug"],
        "name": library["name"],
        "folder": library["absolute_path"],
        "state": _state(library),
        "in the trash": clock(library["deleted_at"]),
        "assets": ", ".join(plural(n, name) for name, n in library["types"].items() if n) or "none",
        "size": size(library["bytes"]),
        "status": _counted(library["statuses"]),
        "gone": f"{library['vanished']} not found by the last scan" if library["vanished"] else None,
        "scanned": clock(library["scanned_at"]) or "never",
        "scan": _counted({k: v for k, v in library["scan_counts"].items() if isinstance(v, int)}) or None,
        "scan failed": library["scan_error"],
        "jobs wait": library["warning"],
        "scanned again": f"every {span(every)}" if every else "when asked to",
        "videos by": f"{mode}, at most {library['sampling_limit']}",
        "raw images": "developed" if library["ignore_previews"] else "by their own previews",
        "tagger": library.get("tagger") or "that of the settings",
        "added": clock(library["created_at"]),
    }


def asset_row(asset: dict[str, Any]) -> list[Any]:
    """An asset as a row of the list."""
    return [
        asset["id"],
        one_line(asset["path"], 70),
        asset["type"],
        styled("gone") if asset["vanished_at"] else styled(asset["status"]),
        f"{asset['shown_at']:%Y-%m-%d}",
        _picture(asset),
        length(asset["duration_seconds"]) if asset["duration_seconds"] is not None else "",
        size(asset["size"]),
        one_line(asset["error"] or asset["description"] or ""),
    ]


def asset_fields(asset: dict[str, Any]) -> dict[str, Any]:
    """All that is worth saying of one."""
    job = asset["job"]
    return {
        "asset": asset["id"],
        "library": f"{asset['library_slug']} ({asset['library_name']})",
        "path": asset["path"],
        "type": asset["type"],
        "status": styled(asset["status"]),
        "gone since": clock(asset["vanished_at"]),
        "error": asset["error"],
        "retries": asset["retry_count"] or None,
        "job": job and " ".join(str(job[name]) for name in ("id", "kind", "state", "step") if job[name]),
        "when": f"{asset['shown_at']:%Y-%m-%d %H:%M:%S}",
        "picture": _picture(asset) or None,
        "length": None if asset["duration_seconds"] is None else length(asset["duration_seconds"]),
        "size": size(asset["size"]),
        "description": asset["description"],
        "tags": tags_text(asset["tags"]) or None,
        "tagged by": asset["tagger"],
        **{
            name: value
            for name, value in sorted(asset["facts"].items())
            if isinstance(value, str | int | float)
        },
    }


def scene_row(scene: dict[str, Any]) -> list[Any]:
    """A scene of a video."""
    return [
        scene["number"],
        length(scene["start_ts"]),
        length(scene["end_ts"]),
        scene["keep_reason"],
        f"{scene['sharpness_score']:.0f}",
        one_line(scene["description"] or "", 60),
        one_line(tags_text(scene["tags"]), 60),
    ]


def frame_row(frame: dict[str, Any]) -> list[Any]:
    """A frame of a video."""
    return [
        length(frame["seconds"]),
        "yes" if frame["is_keyframe"] else "",
        one_line(frame["description"] or "", 60),
        one_line(tags_text(frame["tags"]), 60),
    ]


def tags_text(tags: list[dict[str, Any]]) -> str:
    """Labels, the surest first."""
    ranked = sorted(tags, key=lambda tag: -(tag.get("score") or 0))
    return ", ".join(str(tag["label"]) for tag in ranked)


def _state(library: dict[str, Any]) -> Text:
    if not library["is_active"]:
        return styled("paused")
    word = {"scan_req": "to be scanned", "scanning": "scanning"}.get(library["scan_status"])
    if word is None and library["scan_error"]:
        return styled("scan failed")
    if word is None and library["warning"]:
        return styled("waits")
    return styled(word or "idle")


def _worrying(count: int) -> Any:
    from rich.text import Text

    return Text(str(count), style="red") if count else ""


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"


def _picture(asset: dict[str, Any]) -> str:
    return f"{asset['width']}×{asset['height']}" if asset["width"] else ""


def erased_text(libraries: int, assets: int, moments: int) -> str:
    """What is gone for good."""
    shown = "1 library" if libraries == 1 else f"{libraries} libraries"
    return f"{shown} erased, with {plural(assets, 'asset')} and {plural(moments, 'moment')} of videos"
