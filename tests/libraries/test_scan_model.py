"""What a scan counts."""

from __future__ import annotations

import pytest

from mediamill.libraries.scan_model import ScanCounts


def test_counts_begin_with_nothing_and_come_back_as_they_were_kept() -> None:
    counts = ScanCounts()
    assert set(counts.as_dict()) == {
        *("folders", "files", "new", "changed", "vanished", "back", "renamed", "unchanged"),
        *("links", "others", "too_long", "unreadable", "left_alone", "warnings"),
    }
    assert {str(value) for value in counts.as_dict().values()} == {"0", "[]"}
    counts.add("files", 3)
    counts.add("files", 2)
    counts.warn("odd")
    assert (counts.files, counts.warnings) == (5, ["odd"])
    assert ScanCounts.read({**counts.as_dict(), "from a later version": 1}) == counts


@pytest.mark.parametrize("name", ["new", "changed", "vanished", "back", "renamed"])
def test_any_of_these_is_a_change(name: str) -> None:
    assert ScanCounts(**{name: 1}).found_changes is True  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["files", "unchanged", "links", "others", "too_long", "unreadable"])
def test_none_of_these_is_a_change(name: str) -> None:
    assert ScanCounts(**{name: 1}).found_changes is False  # type: ignore[arg-type]


def test_twenty_warnings_say_enough() -> None:
    counts = ScanCounts()
    for number in range(25):
        counts.warn(str(number))
    assert counts.warnings == [str(number) for number in range(20)]
