"""Leaves out what a reasoning model thinks aloud (`<think>…</think>`) at the head of an answer, piece by piece."""

from __future__ import annotations

OPENING, CLOSING = "<think>", "</think>"


class WithoutThinking:
    """Give it the pieces of one answer as they come; it gives back what may be shown."""

    def __init__(self) -> None:
        self._held = ""
        self._state = "head"  # head (not clear yet), thinking, text

    def take(self, piece: str) -> str:
        """What of it, and of what was held back, is part of the answer."""
        if self._state == "text":
            return piece
        self._held += piece
        if self._state == "head":
            head = self._held.lstrip()
            if OPENING.startswith(head[: len(OPENING)]) and len(head) < len(OPENING):
                return ""
            self._state = "thinking" if head.startswith(OPENING) else "text"
        if self._state == "thinking":
            before, closing, after = self._held.partition(CLOSING)
            if not closing:
                self._held = before[-len(CLOSING) :]
                return ""
            self._held, self._state = after, "head"  # some think twice
            return self.take("") if after else ""
        shown, self._held = self._held.lstrip(), ""
        return shown

    def rest(self) -> str:
        """What was still held back at the end."""
        held, self._held = (self._held if self._state == "head" else ""), ""
        return held.strip()
