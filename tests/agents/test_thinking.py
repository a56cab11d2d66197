"""However an answer is cut into pieces, the thoughts are left out and nothing else."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediamill.agents.thinking import WithoutThinking


def shown(pieces: list[str]) -> str:
    visible = WithoutThinking()
    return "".join([*(visible.take(piece) for piece in pieces), visible.rest()]).strip()


CASES = {
    "plain": "plain",
    "<think>a</think>b": "b",
    " \n<think>a < b </thin </think>\n\nb <think> c": "b <think> c",
    "<think>one</think><think>two</think>three": "three",
    "<think>never ends": "",
    "<thin": "<thin",
    "<b>bold</b>": "<b>bold</b>",
    "": "",
}


@pytest.mark.parametrize("text", CASES)
@given(data=st.data())
def test_thoughts_are_left_out_wherever_the_pieces_end(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    ends = [0, *cuts, len(text)]
    pieces = [text[start:end] for start, end in pairwise(ends)]
    assert shown(pieces) == CASES[text]
