"""When a photo was taken: the local time at the place, its offset from UTC where known, and where both come from.

A photo taken at half past midnight belongs to that day, wherever it is looked at. So local time is what counts, and an
offset is only added to it where something says so; it is never guessed from the machine that reads the photo.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Literal

Origin = Literal[
    "exif_offset", "exif_gps", "exif", "xmp", "gps", "text", "quicktime", "container", "container_utc"
]

FIRST_YEAR = 1971  # clocks that were never set begin in 1904 or 1970
LAST_YEAR = 2200
MOST_OFFSET = timedelta(hours=14)
QUARTER = timedelta(minutes=15)
ODD_OFFSETS = {timedelta(minutes=minutes) for minutes in (345, 525, 765)}  # Nepal, Eucla, Chatham
FIX_AGE = timedelta(minutes=5)  # GPS may know the time of its last fix only
_XMP_NAMES = (b"exif:DateTimeOriginal", b"photoshop:DateCreated", b"xmp:CreateDate")
_XMP_VALUE = rb"""(?:\s*=\s*["']|>\s*)([0-9T:.,+\-Z ]{4,40})"""


@dataclass(frozen=True, slots=True)
class CaptureTime:
    """`moment` has a time zone only where the offset is known."""

    moment: datetime
    origin: Origin

    def facts(self) -> dict[str, str]:
        """As facts of an asset."""
        return {"taken_at": self.moment.isoformat(), "taken_from": self.origin}


def captured(moment: datetime | None, origin: Origin) -> CaptureTime | None:
    """Nothing for a clock that was never set."""
    if moment is None or not FIRST_YEAR <= moment.year < LAST_YEAR:
        return None
    return CaptureTime(moment, origin)


def read_exif_time(text: str | None, offset: str | None, fraction: str | None = None) -> datetime | None:
    """As EXIF writes it: `2024:06:01 00:30:00`, and beside it `+02:00` and digits of a second."""
    try:
        moment = datetime.strptime((text or "")[:19], "%Y:%m:%d %H:%M:%S")
    except ValueError:
        return None
    if fraction and fraction.strip().isdecimal():
        moment += timedelta(microseconds=int(fraction.strip()[:6].ljust(6, "0")))
    return moment.replace(tzinfo=read_offset(offset))


def read_offset(text: str | None) -> timezone | None:
    """+02:00 as a time zone."""
    found = re.fullmatch(r"([+-])(\d{1,2}):?(\d{2})", (text or "").strip())
    if found is None:
        return UTC if (text or "").strip() == "Z" else None
    offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
    return timezone(-offset if found[1] == "-" else offset) if offset <= MOST_OFFSET else None


def offset_by_gps(local: datetime, utc: datetime) -> timezone | None:
    """The offset of the camera's clock, told by the satellites' time; None where the two do not fit."""
    apart = local.replace(tzinfo=None) - utc.replace(tzinfo=None)
    offset = round(apart / QUARTER) * QUARTER
    is_usual = offset % (2 * QUARTER) == timedelta() or offset in ODD_OFFSETS
    if not is_usual or abs(apart - offset) > FIX_AGE or abs(offset) > MOST_OFFSET:
        return None
    return timezone(offset)


def read_iso_time(text: str) -> datetime | None:
    """As XMP and containers write it; a mere year or month is no day, so it is nothing."""
    text = re.sub(r"([+-]\d{2})(\d{2})$", r"\1:\2", text.strip())
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def read_xmp_time(xmp: bytes) -> CaptureTime | None:
    """When the photo was taken, as an editor or a scanner wrote it down."""
    for name in _XMP_NAMES:
        found = re.search(re.escape(name) + _XMP_VALUE, xmp)
        taken = captured(read_iso_time(found[1].decode("ascii")) if found else None, "xmp")
        if taken is not None:
            return taken
    return None


def read_text_time(text: str) -> CaptureTime | None:
    """A PNG's `Creation Time`, which is written in three ways."""
    for pattern in ("%Y:%m:%d %H:%M:%S", "%a, %d %b %Y %H:%M:%S %z", "%d %b %Y %H:%M:%S %z"):
        try:
            return captured(datetime.strptime(text.strip().replace("GMT", "+0000"), pattern), "text")
        except ValueError:
            continue
    return captured(read_iso_time(text), "text")


def read_container_time(tags: Mapping[str, str]) -> CaptureTime | None:
    """Of a video: the camera's local time where there is one; else what the container says, which is UTC in most."""
    local = captured(read_iso_time(tags.get("com.apple.quicktime.creationdate", "")), "quicktime")
    if local is not None and local.moment.tzinfo is not None:
        return local
    moment = read_iso_time(tags.get("creation_time", ""))
    utc = captured(moment and moment.replace(tzinfo=moment.tzinfo or UTC), "container_utc")
    return utc or local or captured(read_iso_time(tags.get("date", "")), "container")


def gps_moment(day: str | None, clock: tuple[float, float, float] | None) -> datetime | None:
    """The satellites' date and time, which are UTC."""
    try:
        began = date.fromisoformat((day or "").replace(":", "-"))
        hours, minutes, seconds = clock or (0, 0, 0)
        passed = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return datetime(began.year, began.month, began.day, tzinfo=UTC) + passed if clock else None
    except (ValueError, OverflowError):
        return None
