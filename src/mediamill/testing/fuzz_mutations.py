"""What happens to a good file on its way into the fuzz corpus. The same random numbers, the same bytes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

Mutation = Callable[[bytes, bytes, random.Random], bytes]  # of a file, with another one at hand
EDGES = (
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\x7f",
    b"\0\0\0\1",
)


def truncate(data: bytes, _: bytes, dice: random.Random) -> bytes:
    """The end is missing."""
    return data[: dice.randrange(1, max(2, len(data)))]


def behead(data: bytes, _: bytes, dice: random.Random) -> bytes:
    """The beginning is missing."""
    return data[dice.randrange(1, max(2, min(64, len(data)))) :]


def flip_bits(data: bytes, __: bytes, dice: random.Random) -> bytes:
    """Single bits are wrong."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 2, 8, 64))):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def overwrite(data: bytes, _: bytes, dice: random.Random) -> bytes:
    """A run of bytes is noise, or all the same."""
    start, end = _span(data, dice)
    run = dice.randbytes(end - start) if dice.random() < 0.5 else bytes([dice.randrange(256)]) * (end - start)
    return data[:start] + run + data[end:]


def put_edge(data: bytes, __: bytes, dice: random.Random) -> bytes:
    """Where a length may be, there is now 0, -1 or the largest number. Most lengths are near the beginning."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 3))):
        at = dice.randrange(min(len(data), dice.choice((64, 512, len(data)))))
        changed[at : at + 4] = dice.choice(EDGES)
    return bytes(changed[: len(data)])


def duplicate(data: bytes, _: bytes, dice: random.Random) -> bytes:
    """A piece comes twice, or very often."""
    start, end = _span(data, dice)
    return data[:end] + data[start:end] * dice.choice((1, 1, 2, 200)) + data[end:]


def delete(data: bytes, _: bytes, dice: random.Random) -> bytes:
    """A piece is missing."""
    start, end = _span(data, dice)
    return data[:start] + data[end:]


def insert(data: bytes, _: bytes, dice: random.Random) -> bytes:
    """There is something in between."""
    at = dice.randrange(len(data))
    return data[:at] + dice.randbytes(dice.choice((1, 4, 100, 5000))) + data[at:]


def swap(data: bytes, _: bytes, dice: random.Random) -> bytes:
    """Two pieces have changed places."""
    a, b, c = sorted(dice.randrange(len(data) + 1) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def graft(data: bytes, other: bytes, dice: random.Random) -> bytes:
    """The head of one file on the body of another."""
    return data[: dice.choice((16, 64, 256))] + other[dice.choice((0, 16, 64)) :]


def append(data: bytes, other: bytes, _: random.Random) -> bytes:
    """Two files in one."""
    return data + other


def keep(data: bytes, _: bytes, __: random.Random) -> bytes:
    """Nothing is wrong but the name."""
    return data


MUTATIONS: Sequence[Mutation] = (
    *(truncate, truncate, flip_bits, flip_bits, overwrite, overwrite, put_edge, put_edge),
    *(behead, duplicate, delete, insert, swap, graft, append, keep),
)


def _span(data: bytes, dice: random.Random) -> tuple[int, int]:
    start = dice.randrange(len(data))
    return start, min(len(data), start + dice.choice((1, 4, 32, 256, 4096)))
