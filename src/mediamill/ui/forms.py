"""What a page's form sent."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import Request

from mediamill.errors import InvalidError

MOST_FIELDS = 100


async def read_form(request: Request, most_fields: int = MOST_FIELDS) -> dict[str, list[str]]:
    """Its fields with their values."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        return parse_qs(body, keep_blank_values=True, max_num_fields=most_fields)
    except ValueError as error:
        raise InvalidError(f"a form has at most {most_fields} fields") from error
