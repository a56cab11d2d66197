"""The bench of indexes over vectors, with some dozens of them: each way is built, asked and added to."""

from __future__ import annotations

import numpy as np

from bench.library.vectors import DIMENSIONS, WAYS, Set, Vectors, run
from mediamill.processors.models.local_embedder import unit


def drawn(amount: int) -> Vectors:
    return unit(np.random.default_rng(amount).standard_normal((amount, DIMENSIONS)).astype(np.float32))


async def test_every_way_to_find_vectors_is_measured(new_url: str) -> None:
    found = await run(new_url, {"drawn": Set(drawn(60), drawn(4), drawn(5))}, list(WAYS), [20], "")
    assert found["drawn"].keys() == {"none", *WAYS}
    for way in WAYS:
        assert found["drawn"][way]["all, 20 candidates"]["recall_20"] > 0
