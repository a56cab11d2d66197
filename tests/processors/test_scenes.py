import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mediamill.media.frames import Footage, Glance
from mediamill.processors.video.scenes import (
    Scene,
    SceneFinder,
    SceneRules,
    distance,
    perceptual_hash,
)
from tests.media.clips import FPS, HEIGHT, WIDTH, Image, dissolve, encode, flash, noise, pan, still

pytestmark = pytest.mark.spec("L6")


def find_scenes(glances: Iterable[Glance], rules: SceneRules | None = None) -> list[Scene]:
    finder = SceneFinder(rules)
    scenes = [scene for glance in glances for scene in finder.feed(glance)]
    return scenes + list(finder.finish())


def scenes_of(path: Path, rules: SceneRules | None = None) -> list[Scene]:
    with Footage(path, rough=True) as footage:
        return find_scenes(footage.glances(), rules)


def cuts_of(scenes: list[Scene]) -> list[float]:
    return [scene.start_seconds for scene in scenes[1:]]


def clip_with_cuts(path: Path, seed: int, speed: float) -> list[float]:
    """Ten shots of 1 to 8 seconds, the camera moving; the times of the cuts."""
    random = np.random.default_rng(seed)
    frames = [int(count) for count in random.integers(FPS, 8 * FPS, 10)]
    shots = [pan(100 * seed + number, count / FPS, speed) for number, count in enumerate(frames)]
    encode(path, chain.from_iterable(shots))
    return [float(at) for at in np.cumsum(frames)[:-1] / FPS]


def count_near(times: list[float], others: list[float]) -> int:
    return sum(any(abs(at - other) < 0.25 for other in others) for at in times)


def test_known_cuts_are_found_and_hardly_any_others(tmp_path: Path) -> None:
    known = found = right = hit = 0
    for seed, speed in ((1, 0.0), (2, 2.0), (3, 4.0), (4, 4.0)):
        true = clip_with_cuts(tmp_path / f"{seed}.mp4", seed, speed)
        cuts = cuts_of(scenes_of(tmp_path / f"{seed}.mp4"))
        known, found = known + len(true), found + len(cuts)
        right, hit = right + count_near(cuts, true), hit + count_near(true, cuts)
    assert hit / known >= 0.9, "recall"
    assert right / found >= 0.9, "precision"


def test_without_the_jump_rule_cuts_are_missed(tmp_path: Path) -> None:
    true = clip_with_cuts(tmp_path / "a.mp4", 5, 2.0)
    without = SceneRules(jump_bits=65)
    assert count_near(true, cuts_of(scenes_of(tmp_path / "a.mp4", without))) < len(true)
    assert count_near(true, cuts_of(scenes_of(tmp_path / "a.mp4"))) == len(true)


@pytest.mark.parametrize(
    ("images", "least", "most"),
    [
        pytest.param(lambda: still(1, 10), 0, 0, id="nothing happens"),
        pytest.param(lambda: noise(1, 8), 0, 2, id="noise"),
        pytest.param(lambda: flash(1, 8, 4.0), 0, 0, id="a flash"),
        pytest.param(lambda: (np.zeros((HEIGHT, WIDTH, 3), np.uint8) for _ in range(60)), 0, 0, id="black"),
        pytest.param(lambda: pan(1, 16, 6.0), 2, 5, id="slow drift"),
    ],
)
def test_what_is_no_cut_makes_no_more_than_a_few_scenes(
    tmp_path: Path, images: Callable[[], Iterator[Image]], least: int, most: int
) -> None:
    scenes = scenes_of(encode(tmp_path / "a.mp4", images()))
    assert least <= len(scenes) - 1 <= most
    assert all(scene.keep_reason == "phash" for scene in scenes[:-1])


def test_a_dissolve_is_found_where_it_happens(tmp_path: Path) -> None:
    images = chain(still(7, 5), dissolve(7, 8, 1.5), still(8, 5))
    (cut,) = cuts_of(scenes_of(encode(tmp_path / "a.mp4", images)))
    assert 5 <= cut <= 6.75


def grays(seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """A soft picture: its hash is that of its large shapes."""
    coarse = np.random.default_rng(seed).integers(0, 256, (8, 8))
    return np.kron(coarse, np.ones((4, 4))).astype(np.uint8)


def run(*shots: tuple[int, float], fps: int = 10) -> Iterator[Glance]:
    """Frames of shots (picture, seconds), without a file."""
    number = 0
    for picture, seconds in shots:
        tiny = grays(picture)
        for _ in range(round(seconds * fps)):
            yield Glance(number / fps, tiny, sharpness=1.0)
            number += 1


def test_a_scene_never_lasts_longer_than_the_ceiling() -> None:
    scenes = find_scenes(run((1, 70)))
    assert [(scene.start_seconds, scene.end_seconds, scene.keep_reason) for scene in scenes] == [
        (0, 30, "temporal"),
        (30, 60, "temporal"),
        (60, 69.9, "forced"),
    ]


def test_drift_waits_for_the_debounce() -> None:
    no_jumps = SceneRules(jump_bits=65)
    scenes = find_scenes(run((1, 1), (2, 9)), no_jumps)
    assert cuts_of(scenes) == [3.0]
    assert scenes[0].keep_reason == "phash"


def test_a_cut_soon_after_drift_moves_the_boundary() -> None:
    slow = [*run((1, 4.0))]
    for number, glance in enumerate(slow):  # the picture turns into another one, slowly, until 4.0
        share = number / len(slow)
        tiny = (grays(1) * (1 - share) + grays(2) * share).astype(np.uint8)
        slow[number] = Glance(glance.time_seconds, tiny, 1.0)
    later = [Glance(4.0 + glance.time_seconds, glance.tiny, 1.0) for glance in run((3, 6))]
    assert cuts_of(find_scenes(slow)) != []
    assert cuts_of(find_scenes([*slow, *later])) == [4.0]


def test_a_cut_very_soon_after_a_cut_belongs_to_the_scene_that_began() -> None:
    assert cuts_of(find_scenes(run((1, 5), (2, 0.3), (3, 5)))) == [5.0]
    assert cuts_of(find_scenes(run((1, 5), (2, 1), (3, 5)))) == [5.0, 6.0]


def test_the_best_frame_is_the_sharpest_but_not_one_of_the_first_two() -> None:
    sharpness = [9.0, 8.0, 1.0, 3.0, 2.0, 3.0]
    frames = [Glance(number / 10, grays(1), value) for number, value in enumerate(sharpness)]
    (scene,) = find_scenes(frames)
    assert (scene.best_seconds, scene.sharpness) == (0.3, 3.0)


def test_a_single_frame_is_a_scene() -> None:
    (scene,) = find_scenes([Glance(0.0, grays(1), 5.0)])
    assert (scene.start_seconds, scene.best_seconds, scene.keep_reason) == (0.0, 0.0, "forced")
    assert scene.anchor_hash == f"{perceptual_hash(grays(1)):016x}"


def test_no_frames_make_no_scene() -> None:
    assert find_scenes([]) == []


def test_the_hash_stays_when_a_picture_gets_brighter_and_changes_with_the_picture() -> None:
    dark = (grays(1) * 0.7).astype(np.uint8)
    assert distance(perceptual_hash(dark), perceptual_hash(dark + 60)) <= 2
    assert distance(perceptual_hash(grays(1)), perceptual_hash(grays(2))) > 16


def test_the_version_names_every_rule() -> None:
    version = SceneRules().segmentation_version
    assert "drift_bits=26" in version
    assert "debounce_seconds=3.0" in version
    assert version != SceneRules(drift_bits=20).segmentation_version


shots = st.lists(st.tuples(st.integers(1, 6), st.floats(0.1, 12.0)), min_size=1, max_size=6)


@settings(max_examples=60)
@given(shots, st.data())
def test_scenes_are_the_same_if_the_state_is_saved_and_restored_anywhere(
    made: list[tuple[int, float]], data: st.DataObject
) -> None:
    frames = list(run(*made, fps=6))
    for number, glance in enumerate(frames):
        frames[number] = Glance(glance.time_seconds, glance.tiny, sharpness=(number * 7919) % 101)
    stop = data.draw(st.integers(0, len(frames)), label="saved after so many frames")
    back = data.draw(st.integers(0, stop), label="read again from")
    finder = SceneFinder()
    found = [scene for glance in frames[:stop] for scene in finder.feed(glance)]
    finder = SceneFinder.restore(json.loads(json.dumps(finder.save())))
    found += [scene for glance in frames[back:] for scene in finder.feed(glance)]
    assert found + list(finder.finish()) == find_scenes(frames)


@settings(max_examples=60)
@given(shots)
def test_scenes_cover_the_video_without_gaps(made: list[tuple[int, float]]) -> None:
    frames = list(run(*made, fps=6))
    scenes = find_scenes(frames)
    if frames:
        assert scenes[0].start_seconds == 0
        assert scenes[-1].end_seconds == frames[-1].time_seconds
    assert all(before.end_seconds == after.start_seconds for before, after in pairwise(scenes))
    assert all(scene.start_seconds <= scene.best_seconds <= scene.end_seconds for scene in scenes)


def test_a_state_of_other_rules_is_refused() -> None:
    state = SceneFinder(SceneRules(drift_bits=20)).save()
    with pytest.raises(ValueError, match="other rules"):
        SceneFinder.restore(state)
