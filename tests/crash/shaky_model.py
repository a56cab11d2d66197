"""A text model that reads numbered invoices, fails a third of the time, and counts what it was asked and answered."""

from __future__ import annotations

import json
import random
import re
import threading
from collections import Counter
from collections.abc import Container
from typing import Any

from mediamill.testing.model_server import (
    NONSENSE,
    RESET,
    SILENT,
    WRONG_SHAPE,
    Act,
    Handler,
    Seen,
    failing,
    rate_limited,
)
from mediamill.testing.openai_server import OpenAiServer

AWAY: tuple[Act, ...] = (failing(500), failing(503), rate_limited(0.05), RESET)
FAULTS = (*AWAY, *AWAY, NONSENSE, WRONG_SHAPE)  # who talks nonsense twice is not asked again
_NUMBER = re.compile(r"INV-(\d+)")


class ShakyModel(OpenAiServer):
    """Whether it fails depends on the document and on how often it was asked about it, not on who is quicker.

    `share`: how often it fails. `never`: documents that it never answers. `slow`: those that it keeps waiting at first.
    """

    def __init__(
        self, share: float = 1 / 3, *, never: Container[int] = (), slow: Container[int] = ()
    ) -> None:
        self.asked: Counter[int] = Counter()
        self.answered: Counter[int] = Counter()  # counted before it is sent: whoever asks may be dead by then
        self.failed = 0
        self.mute = threading.Event()  # while it is set, whoever asks gets no answer
        self._share, self._never, self._slow = share, never, slow
        self._counting = threading.Lock()
        super().__init__(say=say_fields)

    def next_act(self, seen: Seen) -> Act:
        number = number_in(seen.json()["messages"])
        with self._counting:
            self.asked[number] += 1
            fault = SILENT if self.mute.is_set() else self._fault(number, self.asked[number])
            if fault is not None:
                self.failed += 1
                return fault
            self.answered[number] += 1
        return self._good(seen)

    def _good(self, seen: Seen) -> Act:
        def act(handler: Handler) -> None:
            handler.reply(self.answer(seen))

        return act

    def _fault(self, number: int, time: int) -> Act | None:
        if number in self._never:
            return FAULTS[0]
        if number in self._slow and time == 1:
            return SILENT
        chance = random.Random(f"{number}/{time}")
        return chance.choice(FAULTS) if chance.random() < self._share else None


def number_in(messages: list[Any]) -> int:
    """Which invoice is asked about."""
    found = _NUMBER.search(messages[1]["content"])
    assert found is not None, messages[1]["content"]
    return int(found[1])


def say_fields(messages: list[Any]) -> str:
    """What is really in it."""
    text = messages[1]["content"]

    def line(start: str) -> dict[str, Any]:
        quote = next(one for one in text.splitlines() if one.startswith(start))
        return {"value": quote.removeprefix(start).strip(), "quote": quote, "confidence": 0.9}

    fields = {"invoice_number": line("Invoice number:"), "total": line("Total:")}
    return json.dumps({"summary": f"Invoice {number_in(messages)}.", "fields": fields})


def invoice(number: int) -> bytes:
    """Its text; no two are the same."""
    return f"Mill & Co\nInvoice number: INV-{number}\nTotal: {number}.50 EUR\nThank you.\n".encode()
