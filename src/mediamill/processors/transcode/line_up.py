"""Which qualities an attempt makes, which are there already, and which this source does not get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mediamill.errors import GiveUpError
from mediamill.processors.transcode.kept import Facts, Kept, find_kept
from mediamill.processors.transcode.ladder import QUALITIES, Rung, rungs_for, wanted_but_above
from mediamill.processors.transcode.quality import Quality
from mediamill.processors.transcode.request import Request
from mediamill.processors.transcode.source_facts import SourceFacts
from mediamill.processors.transcode.timeline import one_of

NOT_ASKED_FOR = "not asked for"


class NoQualityError(GiveUpError):
    """None of the qualities that were asked for can be made from this source."""

    code = "no_quality"


@dataclass(frozen=True, slots=True)
class LineUp:
    """All qualities by name, highest first, and the rungs of those that are made here."""

    qualities: Sequence[Quality]
    rungs: Sequence[Rung]
    critical: str  # its failure is the attempt's
    warnings: list[str] = field(default_factory=list)

    def of(self, name: str) -> Quality:
        """The quality of a rung."""
        return next(one for one in self.qualities if one.name == name)


def line_up(facts: SourceFacts, request: Request, kept: Mapping[str, Facts]) -> LineUp:
    """By the size of the source, what was asked for, and what is kept."""
    rate = (facts.media.video.fps if facts.media.video else None) or 0.0
    rate /= one_of(rate)
    had = {name: find_kept(kept, name) for name in QUALITIES}
    ready = [name for name in request.skip if name in had and had[name].is_complete]
    missing = [name for name in request.skip if name not in ready]
    rungs = tuple(
        rung
        for rung in rungs_for(facts.width, facts.height, rate, request.qualities)
        if rung.name not in ready
    )
    if not rungs and not ready:
        raise NoQualityError(
            f"none of {', '.join(request.qualities or QUALITIES)} can be made"
            f" from {facts.width} × {facts.height} pixels"
        )
    above = wanted_but_above(facts.width, facts.height, request.qualities)
    qualities = [_quality(name, rungs, had[name], name in ready, above, rate) for name in QUALITIES]
    lowest = rungs[-1].name if rungs else ""
    named = request.critical if request.critical in [rung.name for rung in rungs] else lowest
    warnings = [f"{name} was to be left as it is, but is not there" for name in missing]
    return LineUp(qualities, rungs, named, warnings)


def _quality(
    name: str, rungs: Sequence[Rung], had: Kept, is_ready: bool, above: Mapping[str, str], rate: float
) -> Quality:
    rung = next((one for one in rungs if one.name == name), None)
    if rung is None and not is_ready:
        return Quality(name, state="skipped", error=above.get(name, NOT_ASKED_FOR))
    init = had.init or {}
    quality = Quality(
        name,
        width=rung.width if rung else init.get("width"),
        height=rung.height if rung else init.get("height"),
        frame_rate=rate or init.get("frame_rate"),
        codecs=str(init.get("codecs") or ""),
        segments=dict(had.segments),
    )
    quality.state = "completed" if had.is_complete else "pending"
    return quality
