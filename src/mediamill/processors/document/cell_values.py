"""What a number in a cell means by its number format: dates, times and percentages as a person reads them."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta

DATES = {14, 15, 16, 17, *range(27, 32), 34, 35, 36, *range(50, 59)}
TIMES = {18, 19, 20, 21, 32, 33, 45, 47}
BUILT_IN = {22: "date time", 46: "duration", 9: "percent", 10: "percent"}
QUOTED = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]', re.IGNORECASE)
LAST_DAY = 2_958_466  # 9999-12-31
EPOCH = datetime(1899, 12, 30)
EPOCH_1904 = datetime(1904, 1, 1)


def format_kind(number: int, code: str | None = None) -> str:
    """What a number format shows: date, time, date time, duration, percent, or "" for plain numbers."""
    if code is None:
        return BUILT_IN.get(number) or ("date" if number in DATES else "time" if number in TIMES else "")
    plain = QUOTED.sub("", code[:500].partition(";")[0]).lower()
    if re.search(r"\[[hms]+\]", plain):
        return "duration"
    if "%" in plain:
        return "percent"
    if "general" in plain or re.search(r"[#?]", plain):
        return ""
    date = bool(re.search(r"[yd]|mmm", plain)) or plain.strip() in ("m", "mm")
    time = bool(re.search(r"[hs]", plain))
    return " ".join(name for name, there in (("date", date), ("time", time)) if there)


def number_text(text: str, kind: str, is_1904: bool = False) -> str:
    """The number as it is shown; what is not a number stays as it is."""
    try:
        value = float(text)
    except ValueError:
        return text
    if not math.isfinite(value):
        return text
    if kind == "percent":
        return f"{value * 100:.10g}%"
    if kind == "duration" and abs(value) < LAST_DAY:
        seconds = round(abs(value) * 86_400)
        sign = "-" if value < 0 else ""
        return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if kind and 0 <= value < LAST_DAY - 1500:
        return _moment(value, kind, is_1904)
    return _plain(text, value)


def _moment(value: float, kind: str, is_1904: bool) -> str:
    if not is_1904 and value < 60:  # 1900 has a 29 February there
        value += 1
    moment = (EPOCH_1904 if is_1904 else EPOCH) + timedelta(seconds=round(value * 86_400))
    if kind == "time":
        return moment.strftime("%H:%M:%S")
    if kind == "date" or (moment.hour, moment.minute, moment.second) == (0, 0, 0):
        return f"{moment.year:04}-{moment.month:02}-{moment.day:02}"
    return moment.isoformat(" ")


def _plain(text: str, value: float) -> str:
    text = text.strip()
    if text.lstrip("-").isdecimal() or abs(value) >= 1e15:
        return text
    return f"{value:.15g}"
