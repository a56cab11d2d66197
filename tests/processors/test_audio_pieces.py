from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise, repeat

import numpy as np
import pytest

from mediamill.media.sound import RATE, Samples
from mediamill.processors.audio.pieces import find_pieces
from tests.media.speech import AMIABLE, DASHWOOD, melody, noise, read, silence


def blocks(*parts: Samples) -> Iterator[Samples]:
    joined = np.concatenate(parts)
    return (joined[start : start + RATE] for start in range(0, len(joined), RATE))


@pytest.mark.spec("C26")
def test_speech_is_cut_at_long_silences_and_keeps_its_times() -> None:
    one, other = read(AMIABLE), read(DASHWOOD)
    found = list(find_pieces(blocks(silence(4), one, silence(5), other, silence(3))))
    begins = [4, 4 + len(one) / RATE + 5]
    ends = [begins[0] + len(one) / RATE, begins[1] + len(other) / RATE]
    assert [piece.start_seconds for piece in found] == pytest.approx(begins, abs=0.5)
    assert [piece.end_seconds for piece in found] == pytest.approx(ends, abs=0.6)
    assert found[0].speech_seconds == pytest.approx(2.5, abs=0.8)


@pytest.mark.spec("C26")
@pytest.mark.parametrize(
    "sound",
    [silence(20), noise(20), noise(20, 0.0005), melody(20)],
    ids=["silence", "noise", "hiss", "music"],
)
def test_what_is_no_speech_makes_no_piece(sound: Samples) -> None:
    assert list(find_pieces(blocks(sound))) == []


def test_no_piece_is_longer_than_a_model_takes_and_nothing_is_lost() -> None:
    said = read(DASHWOOD)
    found = list(find_pieces(blocks(*repeat(said, 9))))
    assert len(found) >= 3
    assert all(len(piece.samples) <= 30 * RATE for piece in found)
    heard = sum(len(piece.samples) for piece in found)
    assert heard == pytest.approx(9 * len(said), rel=0.1)
    assert all(one.end_seconds <= other.start_seconds + 0.001 for one, other in pairwise(found))


def test_somebody_far_from_the_microphone_is_heard() -> None:
    [piece] = find_pieces(blocks(read(DASHWOOD) * np.float32(0.02)))
    assert piece.speech_seconds > 4


def test_a_piece_comes_as_soon_as_it_ends_though_the_file_does_not() -> None:
    endless = chain(blocks(read(AMIABLE)), repeat(silence(1)))
    assert next(find_pieces(endless)).start_seconds < 1


def test_no_sound_at_all_makes_no_piece() -> None:
    assert list(find_pieces([])) == []
    assert list(find_pieces([silence(0.001)])) == []
