"""Lists page by page: how many at once, and where a page begins."""

from __future__ import annotations

from mediamill.intake.model import BadListError

MOST_AMOUNT = 500
MOST_ID = 2**63 - 1


def check_amount(amount: int) -> int:
    """Of one page."""
    if not 1 <= amount <= MOST_AMOUNT:
        raise BadListError(f"between 1 and {MOST_AMOUNT} can be asked for at once")
    return amount


def read_cursor(text: str | None, start: int) -> int:
    """Where a page begins: the `next` of the page before."""
    if text is None:
        return start
    if len(text) > 19 or not text.isascii() or not text.isdecimal() or int(text) > MOST_ID:
        raise BadListError("that is no place in this list", fix="use the `next` of a page of the same list")
    return int(text)


def write_place(file_id: int, proposal_id: int) -> str:
    """One proposal, in the order of files."""
    return f"{file_id}-{proposal_id}"


def read_place(text: str | None) -> tuple[int, int]:
    """As it was written; the beginning, if nothing is given."""
    if text is None:
        return 0, 0
    file, _, proposal = text.partition("-")
    return read_cursor(file, 0), read_cursor(proposal, 0)
