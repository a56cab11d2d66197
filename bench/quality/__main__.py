"""Speech, reading and tags, one after the other: `python -m bench.quality` writes bench/results/quality.json."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.quality import reading, speech, tagging

RESULTS = Path("bench/results/quality.json")
SPEECH = (("whisper-base", 5), ("whisper-tiny.en", 5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verbose", action="store_true", help="print what was found in each file")
    verbose = parser.parse_args().verbose
    load = os.getloadavg()[0]
    tags, read = tagging.run(verbose), reading.run(verbose)
    spoken = speech.find_spoken()
    found = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_before": round(load, 1),
        "speech": [speech.measure(model, beam, spoken, verbose) for model, beam in SPEECH],
        "reading": read,
        "tagging": tags,
        "cpu_seconds": round(time.process_time()),
    }
    RESULTS.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    print(json.dumps(found, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
