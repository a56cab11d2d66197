"""Has this machine a graphics card that encodes? Asked in a process of its own: drivers crash, and stay loaded."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

from mediamill.environment import plain_environment

log = logging.getLogger(__name__)

LIMIT_SECONDS = 60.0
DEVICES = ("nvidia0", "nvidiactl", "dri")
SOFTWARE = ("libx264",)
_QUESTION = (
    "import json; from mediamill.processors.transcode.encoders import usable_encoders; "
    "print(json.dumps(list(usable_encoders())))"
)


def find_encoders() -> tuple[str, ...]:
    """The encoders in hardware that have encoded a picture here; none where there is no card to ask."""
    if not any((Path("/dev") / name).exists() for name in DEVICES):
        return ()
    try:
        asked = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", _QUESTION],
            capture_output=True,
            timeout=LIMIT_SECONDS,
            check=True,
            env=plain_environment(),
        )
        usable = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        log.warning("the encoders of this machine cannot be found out: %s", error)
        return ()
    return tuple(name for name in usable if name not in SOFTWARE)
