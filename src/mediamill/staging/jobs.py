"""The job kind of a file that is processed for its own sake."""

from __future__ import annotations

from mediamill.engine.kinds import JobKind

PROCESS = "media.process"

KINDS = (
    JobKind(
        PROCESS,
        release_counts=False,
        local=True,
        description="Turns one file into text, tags and facts, and previews if asked for. Its pool is that of the "
        "file's type.",
    ),
)
