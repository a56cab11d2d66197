"""Projects, their files and proposals on the terminal; and fields as they are typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mediamill.cli.terminal import ago, clean, clock, one_line, plural, size, span, styled
from mediamill.errors import InvalidError

if TYPE_CHECKING:
    from rich.text import Text

COLUMNS = ("project", "~name", ">files", ">waiting", ">done", ">failed", ">to review", "~watched folder")
FIELD_COLUMNS = ("field", "type", "unit", "~label", "~description", "~only in")
FILE_COLUMNS = (">id", "~name", "state", "~category", "type", ">size", ">to review", ">age", "~about")
PROPOSAL_COLUMNS = (">id", "~file", "field", "~value", "unit", ">sure", ">page", "state", "~as written")
FINDING_COLUMNS = (">id", "~label", "type", "~value", "unit", ">page")
TYPES = ("text", "number", "amount", "date", "boolean")


def read_field(text: str) -> dict[str, Any]:
    """`name`, `name:type`, `name:type:unit`, each with `=How documents write it` and `@Category,Other` if need be."""
    told, _, categories = text.partition("@")
    key, _, label = told.partition("=")
    name, _, rest = key.partition(":")
    kind, _, unit = rest.partition(":")
    if kind and kind not in TYPES:
        raise InvalidError(f"{text!r}: there is no type {kind}", fix=f"one of {', '.join(TYPES)}")
    return {
        "name": name.strip(),
        "type": kind or "text",
        "label": label.strip(),
        "description": "",
        "unit": unit,
        "categories": [each.strip() for each in categories.split(",") if each.strip()],
    }


def read_rule(text: str) -> dict[str, str]:
    """`*receipt*=Receipt`."""
    pattern, _, category = text.rpartition("=")
    if not pattern:
        raise InvalidError(f"{text!r} is no rule", fix="write it like '*receipt*=Receipt'")
    return {"pattern": pattern, "category": category}


def project_row(project: dict[str, Any]) -> list[Any]:
    """A project as a row of the list."""
    counts = project["counts"]
    return [
        project["slug"],
        one_line(project["name"], 40),
        sum(counts.values()),
        counts["queued"] + counts["processing"] or "",
        counts["completed"] or "",
        worrying(counts["failed"]),
        project["pending_proposals"] or "",
        one_line(project["watch_path"] or "", 120),
    ]


def project_fields(project: dict[str, Any]) -> dict[str, Any]:
    """All that is worth saying of one; its catalog is a table of its own."""
    counted = ", ".join(f"{n} {state}" for state, n in project["counts"].items() if n)
    return {
        "project": project["slug"],
        "name": project["name"],
        "description": project["description"] or None,
        "files": counted or "none",
        "to review": plural(project["pending_proposals"], "proposal"),
        "categories": "; ".join(
            f"{each['pattern']} is {each['category']}" for each in project["category_rules"]
        )
        or None,
        "watched folder": project["watch_path"],
        "looked at": clock(project["watched_at"]),
        "cannot be watched": project["watch_error"],
        "made": clock(project["created_at"]),
    }


def field_row(field: dict[str, Any]) -> list[Any]:
    """A field of the catalog."""
    return [
        field["name"],
        field["type"],
        field["unit"],
        one_line(field["label"], 60),
        one_line(field["description"]),
        ", ".join(field["categories"]),
    ]


def file_row(file: dict[str, Any]) -> list[Any]:
    """A file as a row of the list."""
    return [
        file["id"],
        one_line(file["name"], 50),
        styled(file["state"]),
        file["category"] or "",
        one_line(file["mime_type"] or "", 30),
        size(file["bytes"]),
        file["counts"]["pending"] or "",
        ago(file["created_at"]),
        one_line(about(file)),
    ]


def about(file: dict[str, Any]) -> str:
    """The one thing to know of a file."""
    if file["error"] and file["state"] != "completed":
        return str(file["error"])
    if file["unsupported"]:
        return f"not analysed: {file['unsupported']}"
    twin = f"same as {file['twin_of']}. " if file["twin_of"] else ""
    old = "outdated. " if file["outdated"] else ""
    left = f"{file['unread']}. " if file["unread"] else ""
    return f"{left}{twin}{old}{file['summary'] or ''}"


def file_fields(file: dict[str, Any]) -> dict[str, Any]:
    """All that is worth saying of one."""
    return {
        "file": file["id"],
        "name": file["name"],
        "project": file["project"],
        "state": styled(file["state"]),
        "error": file["error"],
        "not analysed": file["unsupported"],
        "category": file["category"] and f"{file['category']} (by {file['category_by']})",
        "type": file["mime_type"],
        "size": size(file["bytes"]),
        "sha256": file["sha256"],
        "same as": file["twin_of"] and f"file {file['twin_of']}",
        "outdated": "other fields, or another extractor, are set now" if file["outdated"] else None,
        "pages": len(file["pages"]) or None,
        "left out": file["unread"] and f"{file['unread']}: mediamill intake read-on {file['id']}",
        "attempts": file["attempts"] or None,
        "took": None if file["duration_ms"] is None else span(file["duration_ms"] / 1000),
        "by": ", ".join(file["models"]) or None,
        "added": clock(file["created_at"]),
        "analysed": clock(file["processed_at"]),
        "summary": file["summary"] or None,
    }


def proposal_row(proposal: dict[str, Any]) -> list[Any]:
    """A proposal; what a person wrote stands for what was found."""
    edited = proposal["edited_value"]
    return [
        proposal["id"],
        one_line(proposal.get("file") or "", 40),
        proposal["field"],
        one_line(proposal["value"] if edited is None else edited, 60),
        proposal["unit"] or "",
        f"{100 * proposal['confidence']:.0f} %",
        proposal["page"] or "",
        _state(proposal),
        one_line(proposal["raw"] or "", 60),
    ]


def finding_row(finding: dict[str, Any]) -> list[Any]:
    """What fits no field."""
    return [
        finding["id"],
        one_line(finding["label"], 40),
        finding["type"],
        one_line(finding["value"], 60),
        finding["unit"],
        finding["page"] or "",
    ]


def _state(proposal: dict[str, Any]) -> Text:
    from rich.text import Text

    word = "edited" if proposal["edited_value"] is not None else proposal["state"]
    if word == "accepted" and proposal["origin"] == "person":
        word = "entered"
    style = {"accepted": "green", "edited": "green", "entered": "green", "rejected": "red"}.get(word, "blue")
    return Text(clean(word), style=style)


def worrying(count: int) -> Any:
    """In red, if there are any."""
    from rich.text import Text

    return Text(str(count), style="red") if count else ""
