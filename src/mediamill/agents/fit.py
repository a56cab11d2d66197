"""How much of a conversation a model can hold: the newest turns that fit."""

from __future__ import annotations

from collections.abc import Sequence

from mediamill.agents.contract import Turn

BYTES_PER_TOKEN = 3  # English has more, other scripts about so many in UTF-8


def fit_history(history: Sequence[Turn], text: str, context_tokens: int) -> list[Turn]:
    """The newest turns that leave room for the text and, with a quarter of the whole, for the answer."""
    left = context_tokens * BYTES_PER_TOKEN * 3 // 4 - len(text.encode())
    kept: list[Turn] = []
    for turn in reversed(history):
        left -= len(turn.text.encode())
        if left < 0:
            break
        kept.append(turn)
    return kept[::-1]
