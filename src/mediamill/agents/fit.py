"""How much of a conversation a model can hold: the newest turns that fit, and of their images the newest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mediamill.agents.contract import Turn

BYTES_PER_TOKEN = 3  # English has more, other scripts about so many in UTF-8
MOST_PAST_IMAGES = 10
IMAGE_BYTES = 1_600 * BYTES_PER_TOKEN  # an image of the largest size is about so many tokens


def fit_history(history: Sequence[Turn], text: str, context_tokens: int) -> list[Turn]:
    """The newest turns that leave room for the text and, with a quarter of the whole, for the answer.

    Images take half of that at most.
    """
    left = context_tokens * BYTES_PER_TOKEN * 3 // 4 - len(text.encode())
    images = min(MOST_PAST_IMAGES, left // 2 // IMAGE_BYTES)
    kept: list[Turn] = []
    for turn in reversed(history):
        left -= len(turn.text.encode())
        if left < 0:
            break
        shown = turn.images[-images:] if images > 0 else ()
        images = min(images - len(shown), (left - len(shown) * IMAGE_BYTES) // IMAGE_BYTES)
        left -= len(shown) * IMAGE_BYTES
        kept.append(replace(turn, images=shown))
    return kept[::-1]
