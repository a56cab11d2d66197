"""A field catalog as a form: a row of inputs for each field, in the order of the page."""

from __future__ import annotations

from mediamill.intake.findings import name_of
from mediamill.intake.model import MOST_FIELDS, Field

PARTS = ("name", "label", "type", "unit", "description", "categories")
MOST_INPUTS = len(PARTS) * (MOST_FIELDS + 10)


def rows_of(form: dict[str, list[str]]) -> list[dict[str, str]]:
    """What was typed, row by row; a row with neither a label nor a name is none."""
    columns = {part: form.get(part, []) for part in PARTS}
    count = max((len(column) for column in columns.values()), default=0)
    rows = [
        {part: column[number].strip() if number < len(column) else "" for part, column in columns.items()}
        for number in range(count)
    ]
    return [row for row in rows if row["name"] or row["label"]]


def read_catalog(form: dict[str, list[str]]) -> list[Field]:
    """The fields of the form; where no name was given, one is made from the label."""
    return [
        Field(
            row["name"] or name_of(row["label"]),
            row["type"] or "text",
            row["label"],
            row["description"],
            row["unit"],
            tuple(each for each in row["categories"].split(",") if each.strip()),
        )
        for row in rows_of(form)
    ]
