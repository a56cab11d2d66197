"""The page of one asset: its picture or player, scenes on a time line, and all that is known of it."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi import Path as InPath
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.db.connection import Database
from mediamill.libraries.assets import show_asset
from mediamill.libraries.remake import remake_asset
from mediamill.libraries.retry import retry_asset
from mediamill.ui.rendering import Renderer

AssetId = Annotated[int, InPath(ge=1, le=2**63 - 1)]
MOST_TAGS = 30
OFFSET = re.compile(r"[+-]\d\d:\d\d$")
ORIGINS = {
    "exif_offset": "By the camera's clock",
    "exif_gps": "By the camera's clock; the offset by GPS",
    "exif": "By the camera's clock, which names no time zone",
    "xmp": "As an editor wrote it (XMP)",
    "gps": "By GPS",
    "text": "As the file says",
    "quicktime": "By the camera's clock",
    "container": "As the file says",
    "container_utc": "By the file, which only keeps UTC",
}
SHORTEST_SHARE = 0.6  # per cent of the time line: what is shorter could not be hit


def add_asset_page(router: APIRouter, renderer: Renderer, database: Database) -> None:
    """Its routes."""
    page = _AssetPage(renderer, database)
    router.get("/assets/{asset_id}")(page.show)
    router.post("/assets/{asset_id}/retry")(page.retry)
    router.post("/assets/{asset_id}/remake")(page.remake)


class _AssetPage:
    def __init__(self, renderer: Renderer, database: Database) -> None:
        self._renderer, self._database = renderer, database

    async def show(self, asset_id: AssetId, t: float | None = None, part: str | None = None) -> HTMLResponse:
        """`t`: at which second a video begins; `part`: only what changes while it is worked on."""
        async with self._database.connection() as connection:
            asset = await show_asset(connection, asset_id)
        return self._renderer.page(
            "assets/state.html" if part else "assets/one.html",
            asset=asset,
            tags=_tags(asset["tags"]),
            exposure=exposure(asset["facts"]),
            place=place(asset["facts"]),
            taken=taken(asset["shown_at"], asset["facts"]),
            moments=moments(asset),
            start=t if t is not None and math.isfinite(t) and t >= 0 else None,
        )

    async def retry(self, asset_id: AssetId) -> Response:
        """What failed waits again; back to its page."""
        async with self._database.transaction() as connection:
            await retry_asset(connection, asset_id)
        return RedirectResponse(f"/assets/{asset_id}", 303)

    async def remake(self, asset_id: AssetId) -> Response:
        """It is made again from its file; back to its page."""
        async with self._database.transaction() as connection:
            await remake_asset(connection, asset_id)
        return RedirectResponse(f"/assets/{asset_id}", 303)


def moments(asset: dict[str, Any]) -> list[dict[str, Any]]:
    """Scenes, or else frames, each with its stretch of the time line in per cent; a frame lasts to the next one."""
    if asset["scenes"]:
        found = [{**scene, "at": scene["start_ts"], "end": scene["end_ts"]} for scene in asset["scenes"]]
    else:
        ends = [frame["seconds"] for frame in asset["frames"][1:]] + [asset["duration_seconds"] or math.inf]
        found = [
            {**frame, "at": frame["seconds"], "end": end}
            for frame, end in zip(asset["frames"], ends, strict=False)
        ]
    length = asset["duration_seconds"] or max((one["end"] for one in found), default=0)
    if not math.isfinite(length) or length <= 0:
        return [{**one, "x": 0.0, "width": 0.0} for one in found]
    return [{**one, **_stretch(one["at"], one["end"], length)} for one in found]


def _stretch(at: float, end: float, length: float) -> dict[str, float]:
    x = min(100 * at / length, 100 - SHORTEST_SHARE)
    return {"x": x, "width": min(max(100 * (min(end, length) - at) / length, SHORTEST_SHARE), 100 - x)}


def exposure(facts: dict[str, Any]) -> str:
    """As photographers write it: 1/250 s, f/2.8, ISO 100, 35 mm."""
    seconds, stop, iso, length = (
        _number(facts.get(name)) for name in ("exposure_seconds", "f_number", "iso", "focal_length_mm")
    )
    parts = []
    if seconds:
        parts.append(f"1/{round(1 / seconds)} s" if seconds < 0.4 else f"{seconds:g} s")
    parts += [f"f/{stop:.3g}"] if stop else []
    parts += [f"ISO {iso:.0f}"] if iso else []
    parts += [f"{length:.3g} mm"] if length else []
    return ", ".join(parts)


def taken(shown_at: datetime, facts: dict[str, Any]) -> dict[str, str]:
    """The local time of the capture, with its offset where it is known, and where that comes from."""
    origin = ORIGINS.get(str(facts.get("taken_from")))
    offset = OFFSET.search(str(facts.get("taken_at"))) if origin else None
    zone = offset[0] if offset else "" if origin else "UTC"
    return {
        "name": "Taken" if origin else "File changed",
        "time": f"{shown_at:%-d %B %Y, %H:%M}{' ' if zone else ''}{'UTC' if zone == '+00:00' else zone}",
        "machine": f"{shown_at:%Y-%m-%dT%H:%M:%S}{zone.replace('UTC', 'Z')}",
        "origin": origin or "The file says nothing of when it was taken",
    }


def place(facts: dict[str, Any]) -> dict[str, float] | None:
    """Where it was taken, if the camera knew."""
    gps = facts.get("gps")
    if not isinstance(gps, dict):
        return None
    latitude, longitude = _number(gps.get("latitude")), _number(gps.get("longitude"))
    if latitude is None or longitude is None:
        return None
    return {"latitude": latitude, "longitude": longitude}


def _number(value: Any) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None


def _tags(tags: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best ones, with a score where there is one."""
    told = [{"label": str(tag.get("label", "")), "score": _number(tag.get("score"))} for tag in tags]
    return [tag for tag in told if tag["label"]][:MOST_TAGS]
