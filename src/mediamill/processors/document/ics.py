"""Calendars: events and tasks with their times as written, places, people and repetitions."""

from __future__ import annotations

import re
from pathlib import Path

from mediamill.processors.document.content_lines import ContentLine, content_lines
from mediamill.processors.document.document_text import (
    DocumentText,
    Limits,
    Part,
    TextRoom,
    one_line,
    plural,
    until_full,
)
from mediamill.processors.document.plain import decode_text, read_bytes

KINDS = {"VEVENT": "Event", "VTODO": "Task", "VJOURNAL": "Note"}
EVENT_LINES = 500
MAX_DEPTH = 50
PEOPLE = 50
MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)?(Z?))?$")
DURATION = re.compile(r"P(?:(\d{1,4})W)?(?:(\d{1,4})D)?(?:T(?:(\d{1,4})H)?(?:(\d{1,4})M)?(?:(\d{1,5})S)?)?$")
DAYS = {
    "MO": "Monday",
    "TU": "Tuesday",
    "WE": "Wednesday",
    "TH": "Thursday",
    "FR": "Friday",
    "SA": "Saturday",
    "SU": "Sunday",
}
UNITS = {"DAILY": "day", "WEEKLY": "week", "MONTHLY": "month", "YEARLY": "year", "HOURLY": "hour"}
ORDINALS = {"1": "first ", "2": "second ", "3": "third ", "4": "fourth ", "-1": "last "}


def read_ics(path: Path, limits: Limits) -> DocumentText:
    """A calendar."""
    document = DocumentText("ics", unit="event", count=0)
    room = TextRoom(limits)
    open_parts: list[str] = []
    event: list[ContentLine] = []
    with until_full(document):
        for line in content_lines(decode_text(read_bytes(path, limits, document))):
            if line.name == "BEGIN":
                if len(open_parts) < MAX_DEPTH:
                    open_parts.append(line.value.strip().upper())
                event = [] if open_parts[-1] in KINDS else event
            elif line.name == "END":
                kind = open_parts.pop() if open_parts else ""
                if kind in KINDS:
                    document.count = (document.count or 0) + 1
                    if document.count <= limits.entries:
                        document.parts.append(Part("", room.take(event_text(KINDS[kind], event))))
            elif line.name == "X-WR-CALNAME":
                document.title = one_line(line.text)
            elif open_parts and open_parts[-1] in KINDS and len(event) < EVENT_LINES:
                event.append(line)
    if (count := document.count or 0) > limits.entries:
        document.warn(f"{plural(count - limits.entries, 'event')} not read")
    return document


def event_text(kind: str, lines: list[ContentLine]) -> str:
    """An event as a few lines."""
    first: dict[str, ContentLine] = {}
    for line in lines:
        first.setdefault(line.name, line)
    told = [f"{kind}: {_field(first, 'SUMMARY') or '(no title)'}", _when(first)]
    for name, label in (("DUE", "Due"), ("COMPLETED", "Completed")):
        if name in first:
            told.append(f"{label}: {moment_text(first[name])}")
    if "RRULE" in first:
        told.append(f"Repeats: {rule_text(first['RRULE'].value)}")
    for name, label in (("STATUS", "Status"), ("LOCATION", "Where"), ("URL", "Web")):
        if value := _field(first, name):
            told.append(f"{label}: {value.lower() if name == 'STATUS' else value}")
    if "ORGANIZER" in first:
        told.append(f"Organiser: {_person(first['ORGANIZER'])}")
    told += _attendees([line for line in lines if line.name == "ATTENDEE"])
    if "DESCRIPTION" in first and (text := first["DESCRIPTION"].text[:10_000]):
        told.append(text)
    return "\n".join(filter(None, told))


def _field(first: dict[str, ContentLine], name: str) -> str:
    return one_line(first[name].text, 1_000) if name in first else ""


def _when(first: dict[str, ContentLine]) -> str:
    if "DTSTART" not in first:
        return ""
    start = moment_text(first["DTSTART"])
    if "DTEND" in first:
        end = moment_text(first["DTEND"])
        zone = start.partition(" (")[2]
        same_zone = zone and end.endswith(f" ({zone}")
        start = start.removesuffix(f" ({zone}") if same_zone else start
        if end[:10] == start[:10] and len(end) > 10:
            end = end[11:]
        return f"When: {start} – {end}" if end != start else f"When: {start}"
    duration = DURATION.match(first["DURATION"].value.strip()) if "DURATION" in first else None
    if duration and any(duration.groups()):
        names = ("week", "day", "hour", "minute", "second")
        parts = [plural(int(n), name) for n, name in zip(duration.groups(), names, strict=True) if n]
        return f"When: {start}, for {', '.join(parts)}"
    return f"When: {start}"


def moment_text(line: ContentLine) -> str:
    """`2026-03-01 10:00 (Europe/Berlin)`; what is no date stays as it is."""
    found = MOMENT.match(line.value.strip())
    if not found:
        return one_line(line.value, 60)
    year, month, day, hour, minute, second, utc = found.groups()
    told = f"{year}-{month}-{day}"
    if hour:
        told += f" {hour}:{minute}" + (f":{second}" if second not in (None, "00") else "")
    zone = "UTC" if utc else one_line(line.parameters.get("TZID", ""), 60)
    return f"{told} ({zone})" if zone else told


def rule_text(rule: str) -> str:
    """A repetition in words where it is simple, else as it is written."""
    parts = dict(part.partition("=")[::2] for part in rule.strip().upper()[:500].split(";"))
    unit = UNITS.get(parts.pop("FREQ", ""))
    every = parts.pop("INTERVAL", "1")
    parts.pop("WKST", None)
    if not unit or not every.isdecimal():
        return one_line(rule)
    told = f"every {unit}" if every == "1" else f"every {every} {unit}s"
    days = [_day(day) for day in parts.pop("BYDAY", "").split(",") if day]
    month_days = parts.pop("BYMONTHDAY", "")
    count, until = parts.pop("COUNT", ""), parts.pop("UNTIL", "")
    if parts or None in days:
        return one_line(rule)
    if days:
        told += f" on {', '.join(filter(None, days))}"
    if month_days:
        told += f" on day {month_days}"
    if count:
        told += f", {count} times"
    if until:
        told += f", until {moment_text(ContentLine('UNTIL', until))}"
    return one_line(told)


def _day(text: str) -> str | None:
    name, place = DAYS.get(text[-2:]), text[:-2].lstrip("+")
    if name is None or (place and place not in ORDINALS):
        return None
    return f"the {ORDINALS[place]}{name}" if place else name


def _person(line: ContentLine) -> str:
    name = one_line(line.parameters.get("CN", ""), 100)
    mail = re.sub(r"(?i)^mailto:", "", one_line(line.value, 200))
    return f"{name} <{mail}>" if name and mail and name != mail else name or mail


def _attendees(lines: list[ContentLine]) -> list[str]:
    if not lines:
        return []
    names = []
    for line in lines[:PEOPLE]:
        answer = line.parameters.get("PARTSTAT", "").lower()
        names.append(
            _person(line) + (f" ({answer})" if answer in ("accepted", "declined", "tentative") else "")
        )
    if len(lines) > PEOPLE:
        names.append(f"{len(lines) - PEOPLE} more")
    return [f"Attendees: {', '.join(names)}"]
