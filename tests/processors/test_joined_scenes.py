"""Scenes as a library keeps them: never more than the limit, whatever the container says of the length."""

from __future__ import annotations

import json
from itertools import chain, pairwise
from pathlib import Path

import pytest

from mediamill.media.frames import Footage
from mediamill.processors.video.joined_scenes import JoinedScenes
from mediamill.processors.video.scenes import Scene
from tests.media.clips import encode, pan

pytestmark = pytest.mark.spec("L21")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cuts after 4, 8, 9, 10 and 14 seconds."""
    shots = (pan(seed, length, 4.0) for seed, length in enumerate((4, 4, 1, 1, 4, 4)))
    return encode(tmp_path_factory.mktemp("joined") / "a.mp4", chain.from_iterable(shots))


def join(source: Path, limit: int, duration_seconds: float, *, save_at: float = -1) -> list[Scene]:
    """`save_at`: then its state is saved as JSON, and another goes on with it."""
    joined, told = JoinedScenes(limit, duration_seconds), list[Scene]()
    with Footage(source) as footage:
        for glance in footage.glances():
            told += joined.feed(glance)
            if 0 <= save_at <= glance.time_seconds:
                state, save_at = json.loads(json.dumps(joined.save())), -1
                joined = JoinedScenes.restore(state, limit, duration_seconds, len(told))
    return [*told, *joined.finish(18.0)]


@pytest.mark.parametrize(
    ("limit", "duration_seconds", "ends"),
    [
        (100, 18.0, [4, 8, 14, 18]),
        (3, 18.0, [8, 14, 18]),
        (2, 18.0, [9, 18]),
        (2, 0.0, [4, 18]),
        (1, 18.0, [18]),
    ],
)
def test_there_are_no_more_scenes_than_the_limit(
    source: Path, limit: int, duration_seconds: float, ends: list[float]
) -> None:
    told = join(source, limit, duration_seconds)
    assert [scene.end_seconds for scene in told] == pytest.approx(ends, abs=0.2)
    assert told[0].start_seconds == 0
    assert all(one.end_seconds == other.start_seconds for one, other in pairwise(told))


def test_the_longest_part_shows_what_the_whole_is(source: Path) -> None:
    short_ones_first = join(source, 100, 18.0)[2]
    assert 10 <= short_ones_first.best_seconds < 14


@pytest.mark.spec("L7")
@pytest.mark.parametrize("save_at", [0.5, 4.5, 8.6, 9.5, 10.5, 17.0])
def test_it_resumes_anywhere(source: Path, save_at: float) -> None:
    assert join(source, 3, 18.0, save_at=save_at) == join(source, 3, 18.0)


def test_a_state_of_another_limit_is_refused(source: Path) -> None:
    state = JoinedScenes(3, 18.0).save()
    with pytest.raises(ValueError, match="another limit"):
        JoinedScenes.restore(state, 4, 18.0, 0)
