"""What a camera wrote into an image (EXIF, a small TIFF of tags), read within bounds: a stranger wrote it."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from mediamill.media.capture_time import (
    CaptureTime,
    captured,
    gps_moment,
    offset_by_gps,
    read_exif_time,
    read_text_time,
    read_xmp_time,
)

MAX_ENTRIES = 512  # of one directory
MAX_VALUE_BYTES = 64 * 1024
MAX_TEXT = 200

ORIENTATION = 0x0112
SUB_IFDS = 0x014A
DNG_VERSION = 0xC612
_EXIF_POINTER, _GPS_POINTER = 0x8769, 0x8825
_MAKE, _MODEL, _SOFTWARE, _LENS = 0x010F, 0x0110, 0x0131, 0xA434
# A time, its offset, its digits behind the second: of the photo, of its digitizing, of its last change.
_TAKEN, _DIGITIZED, _CHANGED = (0x9003, 0x9011, 0x9291), (0x9004, 0x9012, 0x9292), (0x0132, 0x9010, 0x9290)
_GPS_TIME, _GPS_DATE = 7, 29
_XMP = 0x02BC
_NUMBERS = {0x829A: "exposure_seconds", 0x829D: "f_number", 0x8827: "iso", 0x920A: "focal_length_mm"}
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 7: 1, 9: 4, 10: 8, 13: 4}  # bytes of one value, by type
_CODES = {3: "H", 4: "I", 9: "i", 13: "I"}


@dataclass(frozen=True, slots=True)
class _Entry:
    kind: int
    data: bytes


class Blob(Protocol):
    """Bytes, or a file that is read as if it were."""

    def __getitem__(self, part: slice, /) -> bytes: ...


class Exif:
    """The tags of an image: of its first directory, of the camera's and of the place's; and other notes about it.

    `xmp`: what editors write. `created`: a time as text, as a PNG may have it.
    """

    def __init__(self, blob: Blob = b"", xmp: bytes = b"", created: str = "") -> None:
        self._blob = blob
        self._xmp_time, self._created = read_xmp_time(xmp), created
        self._start = 6 if blob[0:6] == b"Exif\0\0" else 0
        self._order = {b"II": "<", b"MM": ">"}.get(bytes(blob[self._start : self._start + 2]), "")
        self.main: Mapping[int, _Entry] = {}
        self.camera: Mapping[int, _Entry] = {}
        self.place: Mapping[int, _Entry] = {}
        if self._order:
            self.main = self._directory(self._number_at(4, "I"))
            self.camera = self._directory(self._pointer(_EXIF_POINTER))
            self.place = self._directory(self._pointer(_GPS_POINTER))
            self._xmp_time = self._xmp_time or read_xmp_time(self.raw(_XMP) or b"")
        self._blob = b""  # it may be a whole photo, which must not be held

    @classmethod
    def of_parts(cls, main: bytes, camera: bytes, place: bytes, xmp: bytes = b"") -> Exif:
        """Where each directory is a small TIFF of its own, as in CR3."""
        whole = cls(main, xmp)
        whole.camera, whole.place = cls(camera).main, cls(place).main
        return whole

    def raw(self, tag: int) -> bytes | None:
        """The bytes of a tag of the first directory."""
        entry = self.main.get(tag)
        return entry.data if entry else None

    def facts(self) -> dict[str, Any]:
        """Time, camera, lens, exposure and place, as JSON; what is missing or makes no sense is left out."""
        found: dict[str, Any] = {
            **(taken.facts() if (taken := self.taken()) else {}),
            "camera": self._camera(),
            "lens": _text(self.camera.get(_LENS)),
            "software": _text(self.main.get(_SOFTWARE)),
            **{name: self._first_number(self.camera.get(tag)) for tag, name in _NUMBERS.items()},
            "gps": self._gps(),
        }
        return {name: value for name, value in found.items() if value is not None}

    def _number_at(self, offset: int, code: str) -> int | None:
        at = self._start + offset
        data = self._blob[at : at + struct.calcsize(code)] if offset >= 0 else b""
        if len(data) < struct.calcsize(code):
            return None
        return int(struct.unpack(self._order + code, data)[0])

    def _directory(self, offset: int | None) -> dict[int, _Entry]:
        if not offset:
            return {}
        entries: dict[int, _Entry] = {}
        for number in range(min(self._number_at(offset, "H") or 0, MAX_ENTRIES)):
            at = self._start + offset + 2 + 12 * number
            line = self._blob[at : at + 12]
            if len(line) < 12:
                break
            tag, kind, count = struct.unpack(self._order + "HHI", line[:8])
            entry = self._entry(kind, count, line[8:])
            if entry is not None:
                entries.setdefault(tag, entry)
        return entries

    def _entry(self, kind: int, count: int, inline: bytes) -> _Entry | None:
        length = _SIZES.get(kind, 0) * count
        if not 0 < length <= MAX_VALUE_BYTES:
            return None
        if length <= 4:
            return _Entry(kind, inline[:length])
        at = self._start + struct.unpack(self._order + "I", inline)[0]
        return _Entry(kind, bytes(self._blob[at : at + length]))

    def _pointer(self, tag: int) -> int | None:
        number = self._first_number(self.main.get(tag))
        return None if number is None else int(number)

    def _numbers(self, entry: _Entry | None) -> list[float]:
        if entry is None:
            return []
        if entry.kind in (5, 10):  # fractions
            code = "I" if entry.kind == 5 else "i"
            count = len(entry.data) // 8 * 2
            parts = struct.unpack(f"{self._order}{count}{code}", entry.data[: count * 4])
            return [top / low if low else math.nan for top, low in zip(parts[::2], parts[1::2], strict=True)]
        code = _CODES.get(entry.kind, "B")
        count = len(entry.data) // struct.calcsize(code)
        return list(struct.unpack(f"{self._order}{count}{code}", entry.data[: count * struct.calcsize(code)]))

    def _first_number(self, entry: _Entry | None) -> float | None:
        numbers = self._numbers(entry)
        if not numbers or not math.isfinite(numbers[0]):
            return None
        return round(numbers[0], 6) if isinstance(numbers[0], float) else numbers[0]

    def _camera(self) -> str | None:
        make, model = _text(self.main.get(_MAKE)), _text(self.main.get(_MODEL))
        if make and model and not model.lower().startswith(make.split()[0].lower()):
            return f"{make} {model}"
        return model or make

    def taken(self) -> CaptureTime | None:
        """When it was taken: by the camera's clock, by an editor's word, by the satellites; else its last change."""
        return (
            self._written(*_TAKEN)
            or self._written(*_DIGITIZED)
            or self._xmp_time
            or captured(self._gps_time(), "gps")
            or self._written(*_CHANGED)
            or read_text_time(self._created)
        )

    def _written(self, time: int, offset: int, fraction: int) -> CaptureTime | None:
        """A time of the camera's clock. Some cameras write its offset beside the same time of the last change only."""
        text, changed = self._time_text(time), self._time_text(_CHANGED[0])
        zone = _text(self.camera.get(offset))
        if zone is None and text == changed:
            zone = _text(self.camera.get(_CHANGED[1]))
        moment = read_exif_time(text, zone, _text(self.camera.get(fraction)))
        if moment is None or moment.tzinfo is not None:
            return captured(moment, "exif_offset")
        utc = self._gps_time()
        found = offset_by_gps(moment, utc) if utc else None
        return captured(moment.replace(tzinfo=found), "exif_gps" if found else "exif")

    def _time_text(self, tag: int) -> str | None:
        return _text((self.main if tag == _CHANGED[0] else self.camera).get(tag))

    def _gps_time(self) -> datetime | None:
        clock = self._numbers(self.place.get(_GPS_TIME))[:3]
        if len(clock) < 3 or not all(map(math.isfinite, clock)):
            return None
        return gps_moment(_text(self.place.get(_GPS_DATE)), (clock[0], clock[1], clock[2]))

    def _gps(self) -> dict[str, float] | None:
        latitude, longitude = self._degrees(2, 1, "S", 90), self._degrees(4, 3, "W", 180)
        if (
            latitude is None or longitude is None or latitude == longitude == 0
        ):  # 0, 0: the camera did not know
            return None
        place = {"latitude": latitude, "longitude": longitude}
        altitude = self._first_number(self.place.get(6))
        if altitude is not None and altitude < 100_000:
            below = (self.place.get(5) or _Entry(1, b"\0")).data[:1] == b"\1"
            place["altitude_metres"] = -altitude if below else altitude
        return place

    def _degrees(self, tag: int, sign_tag: int, negative: str, limit: int) -> float | None:
        numbers = self._numbers(self.place.get(tag))[:3]
        if len(numbers) < 3 or not all(map(math.isfinite, numbers)):
            return None
        degrees = numbers[0] + numbers[1] / 60 + numbers[2] / 3600
        if (_text(self.place.get(sign_tag)) or "").upper() == negative:
            degrees = -degrees
        return round(degrees, 6) if abs(degrees) <= limit else None


def _text(entry: _Entry | None) -> str | None:
    """One line of printable text."""
    if entry is None or entry.kind not in (2, 7):
        return None
    line = entry.data.split(b"\0")[0][: MAX_TEXT * 4].decode("utf-8", "replace")
    return " ".join("".join(c if c.isprintable() else " " for c in line).split())[:MAX_TEXT] or None
