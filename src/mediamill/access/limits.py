"""How often somebody may try: a bucket for each, which fills up again with time. In memory, and bounded.

Each server process has its own: with three of them behind a balancer, a guesser has three times as many tries, which is
still nothing against a password of twelve characters, and no request waits for another's write.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Hashable

MOST_KEYS = 10_000


class Buckets:
    """`most` at once, and as many again in `seconds`, for each key; who was seen least lately is forgotten first."""

    def __init__(self, most: float, seconds: float, keys: int = MOST_KEYS) -> None:
        self._most, self._seconds, self._keys = most, seconds, keys
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, key: Hashable) -> float:
        """How long until this one may try again; 0 if now."""
        left = self._now(key, time.monotonic())
        return 0.0 if left >= 1 else (1 - left) * self._seconds / self._most

    def take(self, key: Hashable) -> None:
        """One try is spent, if there is one."""
        now = time.monotonic()
        self._left[key] = (max(0.0, self._now(key, now) - 1), now)
        self._left.move_to_end(key)
        while len(self._left) > self._keys:
            self._left.popitem(last=False)

    def give_back(self, key: Hashable) -> None:
        """It was none that counts."""
        left, at = self._left.pop(key, (self._most, 0.0))
        if left + 1 < self._most:
            self._left[key] = (left + 1, at)

    def __len__(self) -> int:
        return len(self._left)

    def _now(self, key: Hashable, now: float) -> float:
        left, at = self._left.get(key, (self._most, now))
        return min(self._most, left + (now - at) * self._most / self._seconds)


class Lately:
    """Who was let in lately: neighbours that guess must not lock them out."""

    def __init__(self, keys: int = MOST_KEYS) -> None:
        self._keys = keys
        self._seen: OrderedDict[Hashable, None] = OrderedDict()

    def add(self, key: Hashable) -> None:
        """Seen now."""
        self._seen[key] = None
        self._seen.move_to_end(key)
        while len(self._seen) > self._keys:
            self._seen.popitem(last=False)

    def discard(self, key: Hashable) -> None:
        """Not welcome any more."""
        self._seen.pop(key, None)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._seen


def neighbourhood(address: str | None) -> str:
    """One address; of IPv6, the network that one household or machine has to choose from."""
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return "unknown"
    if found.version == 6:
        mapped = found.ipv4_mapped
        return str(mapped) if mapped else str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
