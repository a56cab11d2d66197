"""Measure libraries and search at scale: two million assets and ten million scenes beside a hundredth of that.

python -m bench.library --keep /tmp/catalogue
python -m bench.library --quick --parts growth,delete
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.frame import RESULTS, Found, head_of, look_at_machine, measure_parts, names_from, tell
from bench.library.catalogue import Size, ensure_catalogue
from bench.library.erasing import measure_erasing
from bench.library.growth import measure_growth
from bench.library.pipeline import COUNT, QUICK_COUNT, measure_pipeline
from bench.library.report import demands_of, print_report
from bench.library.scan import FOLDERS, measure_scan
from bench.superuser import superuser_url
from mediamill.db.embedded import EmbeddedServer


@dataclass(frozen=True)
class Sizes:
    """How much of everything. An index of ten million vectors takes hours here, so they are fewer."""

    small: int = 20_000
    large: int = 2_000_000
    small_vectors: int = 20_000
    vectors: int = 100_000
    rounds: int = 300  # or the 99th of a hundred would be the worst that happened
    worked_rounds: int = 3  # of scans and images
    shrink: float = 1.0  # of how long searches are watched while a library is erased
    erasing_seconds: float = 3600
    folders: int = FOLDERS  # that are scanned
    images: int = COUNT


QUICK = Sizes(10_000, 100_000, 5_000, 10_000, 30, 1, 0.2, 60, 200, QUICK_COUNT)


@dataclass(frozen=True)
class Ground:
    """What the parts share: a folder, and catalogues in an embedded server that are made when they are first wanted."""

    folder: Path
    sizes: Sizes

    @property
    def small(self) -> Size:
        """The small catalogue."""
        vectors = min(self.sizes.small // 2, self.sizes.small_vectors, self.sizes.vectors)
        return Size("small", self.sizes.small, vectors)

    @property
    def large(self) -> Size:
        """The large one."""
        return Size("large", self.sizes.large, min(self.sizes.large // 2, self.sizes.vectors))

    @contextmanager
    def room(self, name: str) -> Iterator[Path]:
        """A folder of its own for a part."""
        with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=self.folder) as room:
            yield Path(room)

    @contextmanager
    def catalogues(self) -> Iterator[str]:
        """The address of the server with both."""
        use = EmbeddedServer(self.folder / "catalogue").start()
        url = superuser_url(use.url, self.folder / "catalogue")
        try:
            for size in (self.small, self.large):
                asyncio.run(ensure_catalogue(url, size, self.folder / "media", tell))
            yield url
        finally:
            use.close()


def measure_grown(ground: Ground) -> Found:
    """Claims, lists, searches."""
    with ground.catalogues() as url:
        told = measure_growth(
            url, ground.small, ground.large, ground.folder / "data", ground.sizes.rounds, tell
        )
        return asyncio.run(told)


def measure_deleted(ground: Ground) -> Found:
    """Beside searches."""
    with ground.catalogues() as url:
        sizes = ground.sizes
        told = measure_erasing(
            url, ground.large, tell, shrink=sizes.shrink, most_seconds=sizes.erasing_seconds
        )
        return asyncio.run(told)


def measure_scanned(ground: Ground) -> Found:
    """Beside bare reading."""
    with ground.room("scan") as room:
        return measure_scan(room, ground.sizes.worked_rounds, tell, folders=ground.sizes.folders)


def measure_piped(ground: Ground) -> Found:
    """Beside the processor alone."""
    with ground.room("pipeline") as room:
        return measure_pipeline(room, ground.sizes.worked_rounds, tell, count=ground.sizes.images)


PARTS: dict[str, Callable[[Ground], Found]] = {
    "growth": measure_grown,
    "delete": measure_deleted,
    "scan": measure_scanned,
    "pipeline": measure_piped,
}


def main() -> int:
    """Measure, print, write; 1 if a demand was not met or a part could not be measured."""
    options = _parse(sys.argv[1:])
    machine = look_at_machine()
    found, errors = _measure_all(options)
    demands = demands_of(found)
    results = {
        **head_of("bench.library", machine),
        **found,
        "errors": errors,
        "demands": demands,
    }
    options.out.write_text(json.dumps(results, indent=2) + "\n")
    print_report(found)
    return int(bool(errors) or not all(demand["met"] for demand in demands))


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.library", description=__doc__.splitlines()[0])
    parser.add_argument("--parts", type=names_from(PARTS), default=list(PARTS), help=",".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="a small run, to see that everything works")
    parser.add_argument("--assets", type=int, default=None, help="of the large catalogue")
    parser.add_argument("--vectors", type=int, default=None, help="of the large catalogue")
    parser.add_argument("--rounds", type=int, default=None, help="of every question")
    parser.add_argument("--erasing", type=float, default=None, help="seconds of erasing, at most")
    parser.add_argument(
        "--keep", type=Path, default=None, help="a folder for the catalogues, kept and used again"
    )
    parser.add_argument("--out", type=Path, default=None, help="results file")
    options = parser.parse_args(arguments)
    sizes = QUICK if options.quick else Sizes()
    chosen = {
        "large": options.assets,
        "vectors": options.vectors,
        "rounds": options.rounds,
        "erasing_seconds": options.erasing,
    }
    options.sizes = _replace(sizes, {name: value for name, value in chosen.items() if value is not None})
    # neither a quick run nor a part of one must pass for the real figures
    whole = options.sizes == Sizes() and options.parts == list(PARTS)
    options.out = options.out or RESULTS / ("library.json" if whole else "library-quick.json")
    return options


def _replace(sizes: Sizes, chosen: dict[str, Any]) -> Sizes:
    return Sizes(**{**sizes.__dict__, **chosen})


def _measure_all(options: argparse.Namespace) -> tuple[Found, dict[str, str]]:
    with _folder(options.keep) as folder:
        ground = Ground(folder, options.sizes)
        return measure_parts(options.parts, lambda name: PARTS[name](ground))


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="bench-library-") as folder:
        yield Path(folder)


if __name__ == "__main__":
    sys.exit(main())
