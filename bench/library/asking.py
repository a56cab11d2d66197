"""What is asked of a catalogue, each time for something else: pages of grids, counts, searches.

What is rare is so by how many rows have it, in either catalogue; the rest is the same in both.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bench.library.catalogue import LIBRARIES, MODELS, Size, directions
from mediamill.db.connection import Connection
from mediamill.libraries.assets import list_assets, show_asset
from mediamill.libraries.browse import list_stretch
from mediamill.libraries.cursors import write_path
from mediamill.libraries.look import list_libraries, show_library
from mediamill.libraries.timeline import newest_of_month, timeline
from mediamill.search.find import search
from mediamill.search.model import QueryVector, Wanted

BIG = "l1"  # half of all
Ask = Callable[[Connection, Size, random.Random], Awaitable[Any]]
Make = Callable[[Size, random.Random], Wanted]


@dataclass(frozen=True, slots=True)
class Question:
    """`group`: what may grow with the catalogue, and how much."""

    name: str
    group: str
    ask: Ask


def _month(chance: random.Random) -> str:
    return f"{chance.randint(2006, 2025)}-{chance.randint(1, 12):02}"


async def _newest_page(connection: Connection, _size: Size, _chance: random.Random) -> Any:
    return await list_assets(connection, BIG, amount=100)


async def _deep_page(connection: Connection, _size: Size, chance: random.Random) -> Any:
    after = await newest_of_month(connection, BIG, _month(chance))
    return await list_assets(connection, BIG, after=after, amount=100)


async def _by_type(connection: Connection, _size: Size, chance: random.Random) -> Any:
    after = await newest_of_month(connection, BIG, _month(chance))
    return await list_assets(connection, BIG, type="video", after=after, amount=100)


async def _by_status(connection: Connection, _size: Size, _chance: random.Random) -> Any:
    """From the newest on: the small catalogue has just one page of them."""
    return await list_assets(connection, BIG, status="failed", amount=100)


async def _by_path(connection: Connection, _size: Size, chance: random.Random) -> Any:
    after = write_path(f"{chance.randint(2006, 2025)}/trip")
    return await list_assets(connection, BIG, order="path", after=after, amount=100)


async def _cells(connection: Connection, _size: Size, chance: random.Random) -> Any:
    after = await newest_of_month(connection, BIG, _month(chance))
    return await list_stretch(connection, BIG, after=after, skip=100, amount=100)


async def _libraries(connection: Connection, _size: Size, _chance: random.Random) -> Any:
    return await list_libraries(connection)


async def _library(connection: Connection, _size: Size, _chance: random.Random) -> Any:
    return await show_library(connection, BIG)


async def _months(connection: Connection, _size: Size, _chance: random.Random) -> Any:
    return await timeline(connection, BIG)


async def _some_months(connection: Connection, _size: Size, _chance: random.Random) -> Any:
    return await timeline(connection, BIG, ["video"], ["completed"])


async def _image(connection: Connection, size: Size, chance: random.Random) -> Any:
    return await show_asset(connection, chance.randrange(size.assets // 5) * 5 + 1)


async def _video(connection: Connection, size: Size, chance: random.Random) -> Any:
    return await show_asset(connection, chance.randrange(size.assets // 5) * 5 + 5)


LISTING = (
    ("grid, newest page", _newest_page),
    ("grid, a page in the middle", _deep_page),
    ("grid, only videos", _by_type),
    ("grid, only failed", _by_status),
    ("grid, by path", _by_path),
    ("grid, a jump behind a page", _cells),
    ("libraries with counts", _libraries),
    ("one library with counts", _library),
    ("months", _months),
    ("months of some", _some_months),
    ("page of an image", _image),
    ("page of a video", _video),
)


def _word(chance: random.Random, low: int, high: int) -> str:
    return f"w{chance.randint(low, high)}"


def _found_in(size: Size, chance: random.Random, rows: int) -> str:
    """A word that about so many rows have: in a larger catalogue, another one. See catalogue.WORDS."""
    return f"w{round((size.assets + size.scenes) * 5 / (13.8 * rows) * chance.uniform(0.8, 1.2))}"


def _rare_phrase(size: Size, chance: random.Random, rows: int) -> str:
    """Two words that follow each other in about so many rows."""
    product = (size.assets + size.scenes) / (13.8**2 * rows)
    first = round(product**0.5 * chance.uniform(0.5, 1))
    return f'"w{first} w{round(product / first)}"'


def _searching(make: Make) -> Ask:
    async def ask(connection: Connection, size: Size, chance: random.Random) -> Any:
        return (await search(connection, make(size, chance))).hits

    return ask


def _vector(chance: random.Random) -> QueryVector:
    return QueryVector(MODELS[1], _DIRECTIONS[chance.randrange(1000)].tolist())


_DIRECTIONS = directions()
_SEARCHES: dict[str, Make] = {
    "rare word": lambda size, chance: Wanted(words=_found_in(size, chance, 10)),
    "middling word": lambda _, chance: Wanted(words=_word(chance, 100, 1000)),
    "common word": lambda _, chance: Wanted(words=_word(chance, 0, 4)),
    "word of every row": lambda *_: Wanted(words="photo"),
    "two common words": lambda _, chance: Wanted(words=f"{_word(chance, 0, 4)} {_word(chance, 5, 20)}"),
    "common and rare word": lambda size, chance: Wanted(
        words=f"{_word(chance, 0, 4)} {_found_in(size, chance, 200)}"
    ),
    "phrase": lambda _, chance: Wanted(words=f'"{_word(chance, 0, 1)} {_word(chance, 2, 4)}"'),
    "rare phrase": lambda size, chance: Wanted(words=_rare_phrase(size, chance, 10)),
    "phrase with a small word": lambda _, chance: Wanted(words=f'"photo of {_word(chance, 5, 50)}"'),
    # words that a tenth of all rows have, but never in this order
    "phrase of nothing": lambda _, chance: Wanted(words=f'"{_word(chance, 0, 9)} photo"'),
    "phrase of nothing, or a word": lambda _, chance: Wanted(
        words=f'"{_word(chance, 0, 9)} photo" or {_word(chance, 100, 1000)}'
    ),
    "one or another": lambda _, chance: Wanted(words=f"{_word(chance, 5, 50)} or {_word(chance, 5, 50)}"),
    "one without another": lambda _, chance: Wanted(words=f"{_word(chance, 5, 50)} -{_word(chance, 0, 4)}"),
    "word in one library": lambda _, chance: Wanted(words=_word(chance, 0, 4), library=_library_of(chance)),
    "rarer word in one library": lambda size, chance: Wanted(
        words=_found_in(size, chance, 1000), library=_library_of(chance)
    ),
    "word in videos": lambda _, chance: Wanted(words=_word(chance, 0, 4), types=("video",)),
    "nothing found": lambda _, chance: Wanted(words=f"nobody{chance.randint(1, 999)}"),
    "newest": lambda *_: Wanted(),
    "newest of one library": lambda _, chance: Wanted(library=_library_of(chance)),
    "meaning": lambda _, chance: Wanted(meaning=_vector(chance)),
    "words and meaning": lambda _, chance: Wanted(words=_word(chance, 0, 900), meaning=_vector(chance)),
}


def _library_of(chance: random.Random) -> str:
    """Not the big one, which may be in the trash."""
    return f"l{chance.randint(2, LIBRARIES)}"


def questions(*, vectors: bool) -> list[Question]:
    """All of them but claims; those by meaning only where there are vectors."""
    listing = [Question(name, "listing", ask) for name, ask in LISTING]
    finding = [
        Question(name, "search", _searching(make))
        for name, make in _SEARCHES.items()
        if vectors or "meaning" not in name
    ]
    return listing + finding
