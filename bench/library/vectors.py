"""Indexes of vectors side by side: over the vectors themselves, and over the signs of their numbers.

What is compared are vectors of our own models: by meaning of sentences of the standard library's documentation (real
ones, and others between two neighbours), and by look of made-up images: mixtures of classes, most of them alike.
Counted is the CPU of the backend that does the work.

python -m bench.library.vectors --amount 100000
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import re
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import numpy as np
import psutil
from numpy.typing import NDArray

from bench.machine import describe_machine
from bench.superuser import superuser_url
from mediamill.db.embedded import EmbeddedServer
from mediamill.db.migrate import upgrade
from mediamill.processors.models.image_classes import read_class_words
from mediamill.processors.models.local_embedder import CLASSES, EVENING, PROMPT, LocalTextEmbedder, unit

Vectors = NDArray[np.float32]
CACHE = Path(".cache/vectors")
DIMENSIONS, QUERIES, INSERTED = 384, 200, 2_000
NEAREST = (20, 100)  # the first page, and as far as most people look
ASKED = 100  # of the queries
SHARES = {2: 50, 3: 10, 4: 1}  # of the libraries, in percent; the first has the rest
FILTERED = 200  # candidates of a filtered search: as many as the application takes
MEMORY = "1GB"  # for making an index: a graph that does not fit is made much more slowly
WAYS = {
    "halfvec": ("(v::halfvec(384)) halfvec_cosine_ops", "v::halfvec(384) <=> $1::text::halfvec(384)"),
    "bits": (
        "(binary_quantize(v)::bit(384)) bit_hamming_ops",
        "binary_quantize(v)::bit(384) <~> binary_quantize($1::text::halfvec)::bit(384)",
    ),
}
# As compare_nearest: the index in its order, then by the vectors themselves.
SEARCH = """
select asset_id from (select asset_id, v from search_vectors
    where model_id = 1 and library = any ($2::int[]) order by {order} limit {limit}) near
order by v <=> $1::text::halfvec limit 100"""
ALL = """
select asset_id from search_vectors where model_id = 1 and library = any ($2::int[])
order by v <=> $1::text::halfvec limit 100"""


@dataclass(frozen=True)
class Set:
    """Vectors, what is searched for, and vectors that come later."""

    vectors: Vectors
    queries: Vectors
    later: Vectors


def sentences() -> Iterator[str]:
    """Of docstrings and comments of the standard library, each once, in the order of the files."""
    seen = set()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("**/*.py")):
        if {"site-packages", "test", "tests", "idlelib"} & set(path.parts):
            continue
        try:
            nodes = list(ast.walk(ast.parse(path.read_bytes())))
        except (SyntaxError, ValueError):
            continue
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for one in re.split(r"(?<=[.!?])\s+|\n\s*\n", node.value):
                    text = " ".join(one.split())
                    if 25 <= len(text) <= 200 and text.count(" ") >= 4 and text not in seen:
                        seen.add(text)
                        yield text


def texts_set(amount: int, real: int) -> Set:
    """Real sentences, and others between each of them and one of its neighbours; searched for are parts of others."""
    said = list(sentences())
    rng = np.random.default_rng(7)
    rng.shuffle(said)
    asked, said = said[:QUERIES], said[QUERIES : QUERIES + real]
    asked = [
        " ".join(one.split()[:words]) for one, words in zip(asked, [3, 5, 9, 40] * QUERIES, strict=False)
    ]
    made = _embed("texts", [*asked, *said])
    queries, vectors = made[:QUERIES], made[QUERIES:]
    grown = _between_neighbours(vectors, amount + INSERTED - len(vectors), rng)
    whole = np.concatenate([vectors, grown])
    rng.shuffle(whole)
    return Set(whole[:amount], queries, whole[amount:])


def looks_set(amount: int) -> Set:
    """Images of a class and of some that are like it or not, with shares that fall as a classifier's do."""
    words = read_class_words()
    named = [word.label if word.label == word.group else f"{word.label}, {word.group}" for word in words]
    classes = _embed("classes", [PROMPT + name for name in named])
    rng = np.random.default_rng(8)
    alike = np.argsort(-(classes @ classes.T), axis=1)[:, :30]
    made = np.empty((amount + INSERTED, DIMENSIONS), np.float32)
    for number in range(len(made)):
        first = rng.integers(len(classes))
        near = rng.choice(alike[first], CLASSES, replace=False)
        far = rng.integers(len(classes), size=CLASSES)
        members = np.where(rng.random(CLASSES) < 0.6, near, far)
        members[0] = first
        shares = np.sort(rng.dirichlet(np.full(CLASSES, rng.choice([0.15, 0.5, 1.5]))))[::-1] ** EVENING
        made[number] = (shares[:, None] * classes[members]).sum(axis=0)
    made = unit(made)
    asked = [PROMPT + word.label for word in words[:: len(words) // QUERIES][:QUERIES]]
    return Set(made[:amount], _embed("asked", asked), made[amount:])


def _embed(name: str, texts: Sequence[str]) -> Vectors:
    path = CACHE / f"{name}-{len(texts)}.npy"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        np.save(path, LocalTextEmbedder(1).embed_texts(texts))
    made: Vectors = np.load(path)
    return made


def _between_neighbours(vectors: Vectors, amount: int, rng: np.random.Generator) -> Vectors:
    made = []
    for first in range(0, amount, 2000):
        ones = rng.integers(len(vectors), size=min(2000, amount - first))
        near = np.argpartition(-(vectors[ones] @ vectors.T), 10, axis=1)[:, :10]
        others = vectors[near[np.arange(len(ones)), rng.integers(10, size=len(ones))]]
        share = rng.uniform(0.2, 0.8, size=(len(ones), 1)).astype(np.float32)
        made.append(unit(share * vectors[ones] + (1 - share) * others))
    return np.concatenate(made)


class Bench:
    """One connection, whose backend is measured."""

    def __init__(self, connection: Any, given: Set) -> None:
        self.connection, self.given = connection, given
        self.backend = psutil.Process(connection.get_server_pid())
        chance = np.random.default_rng(9).random(len(given.vectors))
        bounds = np.cumsum([share / 100 for share in SHARES.values()])
        self.libraries = np.array([2, 3, 4, 1])[np.searchsorted(bounds, chance, side="right")]
        self.texts = [text_of(query) for query in given.queries[:ASKED]]
        kept = given.vectors.astype(np.float16).astype(np.float32)
        kept /= np.linalg.norm(kept, axis=1, keepdims=True)
        self.near = given.queries[:ASKED] @ kept.T

    def cpu(self) -> float:
        times = self.backend.cpu_times()
        return float(times.user + times.system)

    async def fill(self) -> None:
        """Through a table of texts, by COPY."""
        await self.connection.execute("truncate search_vectors")
        await self.put(self.given.vectors, self.libraries, 0)
        await self.connection.execute("vacuum analyze search_vectors")

    async def put(self, vectors: Vectors, libraries: NDArray[np.int64], first: int) -> float:
        """CPU seconds of the insert alone."""
        execute = self.connection.execute
        spent = 0.0
        for begin in range(0, len(vectors), 10_000):
            rows = [
                (first + begin + number, int(library), text_of(vector))
                for number, (vector, library) in enumerate(
                    zip(vectors[begin : begin + 10_000], libraries[begin : begin + 10_000], strict=True)
                )
            ]
            await execute("create temp table packed (asset_id bigint, library int, v text)")
            await self.connection.copy_records_to_table("packed", records=rows)
            before = self.cpu()
            await execute(
                "insert into search_vectors (model_id, library, asset_id, v)"
                " select 1, library, asset_id, v::halfvec from packed"
            )
            spent += self.cpu() - before
            await execute("drop table packed")
        return spent

    def truth(self, libraries: Sequence[int]) -> list[list[int]]:
        """The nearest of each query, the nearest first."""
        ours = np.flatnonzero(np.isin(self.libraries, libraries))
        return [ours[np.argsort(-row[ours])[: NEAREST[-1]]].tolist() for row in self.near]

    async def ask(self, sql: str, libraries: Sequence[int]) -> dict[str, float]:
        """Recall of the nearest 20 and 100, and CPU milliseconds of the backend for a search."""
        right = self.truth(libraries)
        for text in self.texts[:5]:
            await self.connection.fetch(sql, text, list(libraries))
        before, began, hits = self.cpu(), time.perf_counter(), dict.fromkeys(NEAREST, 0)
        for text, expected in zip(self.texts, right, strict=True):
            rows = [row["asset_id"] for row in await self.connection.fetch(sql, text, list(libraries))]
            for nearest in NEAREST:
                hits[nearest] += len(set(rows[:nearest]) & set(expected[:nearest]))
        told = {f"recall_{nearest}": round(hits[nearest] / nearest / len(right), 3) for nearest in NEAREST}
        return told | {
            "cpu_ms": round(1000 * (self.cpu() - before) / len(right), 2),
            "wall_ms": round(1000 * (time.perf_counter() - began) / len(right), 2),
        }

    async def measure(self, way: str, options: str, limits: Sequence[int]) -> dict[str, Any]:
        """Make the index, ask, insert, and drop it."""
        what, order = WAYS[way]
        execute = self.connection.execute
        await execute(f"set maintenance_work_mem = '{MEMORY}'")
        await execute("set max_parallel_maintenance_workers = 0")
        before = self.cpu()
        await execute(f"create index near on search_vectors using hnsw ({what}) {options} where model_id = 1")
        found: dict[str, Any] = {"build_cpu_seconds": round(self.cpu() - before, 1)}
        found["megabytes"] = round(
            await self.connection.fetchval("select pg_relation_size('near') / 1e6::float8"), 1
        )
        await execute("select set_config('hnsw.iterative_scan', 'relaxed_order', false)")
        for name, libraries in (("all", [1, 2, 3, 4]), ("50 %", [2]), ("10 %", [3]), ("1 %", [4])):
            for limit in limits if name == "all" else [FILTERED]:
                await execute(f"set hnsw.ef_search = {min(1000, max(limit, 40))}")
                sql = SEARCH.format(order=order, limit=limit)
                found[f"{name}, {limit} candidates"] = told = await self.ask(sql, libraries)
                tell(f"{way} {name} {limit} {told}")
        spent = await self.put(self.given.later, np.ones(len(self.given.later), np.int64), 10_000_000)
        found["insert_cpu_ms"] = round(1000 * spent / len(self.given.later), 3)
        await execute("drop index near")
        await execute("delete from search_vectors where asset_id >= 10000000")
        await execute("vacuum search_vectors")
        tell(
            f"{way} {found['build_cpu_seconds']} s, {found['megabytes']} MB, {found['insert_cpu_ms']} ms an insert"
        )
        return found

    async def without(self) -> dict[str, Any]:
        """Every vector of the libraries looked at."""
        found: dict[str, Any] = {}
        for name, libraries in (("10 %", [3]), ("1 %", [4])):
            found[name] = await self.ask(ALL, libraries)
        spent = await self.put(self.given.later, np.ones(len(self.given.later), np.int64), 10_000_000)
        await self.connection.execute("delete from search_vectors where asset_id >= 10000000")
        await self.connection.execute("vacuum search_vectors")
        return {**found, "insert_cpu_ms": round(1000 * spent / len(self.given.later), 3)}


def text_of(vector: Vectors) -> str:
    """As the database reads it."""
    return "[" + ",".join(f"{number:.5g}" for number in vector.tolist()) + "]"


async def run(
    url: str, sets: dict[str, Set], ways: Sequence[str], limits: Sequence[int], options: str
) -> dict[str, Any]:
    """These ways on every set."""
    await upgrade(url)
    found: dict[str, Any] = {}
    for name, given in sets.items():
        connection = await asyncpg.connect(url, server_settings={"plan_cache_mode": "force_custom_plan"})
        await connection.execute(
            "alter table search_vectors drop constraint if exists search_vectors_asset_id_fkey"
        )
        await connection.execute(
            "insert into ai_models (name, task, engine) values ('m', 'text', 'local') on conflict do nothing"
        )
        await connection.execute("set enable_seqscan = off")
        bench = Bench(connection, given)
        await bench.fill()
        found[name] = {"none": await bench.without()}
        tell(f"{name} none {found[name]['none']}")
        for way in ways:
            found[name][way] = await bench.measure(way, options, limits)
        await connection.close()
    return found


def tell(text: str) -> None:
    """Progress; standard output has the figures only."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.library.vectors", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--amount", type=int, default=100_000)
    parser.add_argument("--real", type=int, default=12_000, help="sentences of which vectors are made")
    parser.add_argument("--sets", nargs="+", default=["meaning", "look"])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--limits", type=int, nargs="+", default=[20, 40, 100, 200, 400, 800])
    parser.add_argument("--options", default="", help="of the indexes, as `with (m = 12)`")
    parser.add_argument("--out", type=Path, default=None, help="results file")
    options = parser.parse_args()
    machine = describe_machine()
    makers: dict[str, Callable[[], Set]] = {
        "meaning": lambda: texts_set(options.amount, options.real),
        "look": lambda: looks_set(options.amount),
    }
    sets = {name: makers[name]() for name in options.sets}
    folder = Path(tempfile.mkdtemp(prefix="bench-vectors-"))
    use = EmbeddedServer(folder).start()
    try:
        found = asyncio.run(
            run(
                superuser_url(use.url, folder, "mediamill"),
                sets,
                options.ways,
                options.limits,
                options.options,
            )
        )
    finally:
        use.close()
        shutil.rmtree(folder, ignore_errors=True)
    text = json.dumps({"machine": machine, "amount": options.amount, **found}, indent=2)
    if options.out:
        options.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
