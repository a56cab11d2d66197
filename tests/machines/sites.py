"""Machines for tests: skipped where network namespaces cannot be made, as in tests/namespaces.py."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from bench.machines.network import Network, network, why_impossible

_why = cache(why_impossible)


def skip_unless_possible() -> None:
    if why := _why():
        pytest.skip(why)


@pytest.fixture
def two_machines() -> Iterator[Network]:
    """`home` and `alpha`."""
    skip_unless_possible()
    with network(["home", "alpha"]) as made:
        yield made
