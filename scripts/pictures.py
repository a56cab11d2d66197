"""Takes the pictures of docs/images/ anew, by the tests that pictures.toml there names; small files of what they saw.

`scripts/pictures.py video chat` takes only these.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
LIST = IMAGES / "pictures.toml"
SHOTS = ROOT / "tests" / "screenshots"
WIDEST = 1280
MOST_BYTES = 150_000


def read_list() -> dict[str, dict[str, str]]:
    """Every picture: the test that takes it, and the name of its screenshot."""
    found: dict[str, dict[str, str]] = tomllib.loads(LIST.read_text())
    return found


def make_small(shot: Path, picture: Path) -> int:
    """WebP, not wider than people can see in a page; its size."""
    with Image.open(shot) as image:
        seen = image.convert("RGB")
    if seen.width > WIDEST:
        seen = seen.resize((WIDEST, round(seen.height * WIDEST / seen.width)), Image.Resampling.LANCZOS)
    for quality in (85, 75, 60, 45):
        seen.save(picture, "WEBP", quality=quality, method=6)
        if picture.stat().st_size <= MOST_BYTES:
            break
    return picture.stat().st_size


def main(chosen: list[str]) -> int:
    """Returns 1 if a test failed, or took no picture."""
    pictures = {name: each for name, each in read_list().items() if not chosen or name in chosen}
    for each in pictures.values():
        (SHOTS / each["shot"]).unlink(missing_ok=True)
    tests = dict.fromkeys(each["test"] for each in pictures.values())
    if subprocess.run([sys.executable, "-m", "pytest", "-q", *tests], cwd=ROOT, check=False).returncode:
        return 1
    for name, each in pictures.items():
        shot = SHOTS / each["shot"]
        if not shot.exists():
            print(f"{each['test']} took no {shot.name}", file=sys.stderr)
            return 1
        size = make_small(shot, IMAGES / f"{name}.webp")
        print(f"docs/images/{name}.webp  {size // 1000} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
