"""A package as pip would have installed it: modules, and what it announces."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(
    place: Path, name: str, modules: Mapping[str, str], entry_points: Mapping[str, Mapping[str, str]]
) -> None:
    """Into a folder that is, or will be, on the path."""
    place.mkdir(parents=True, exist_ok=True)
    for module, code in modules.items():
        (place / f"{module}.py").write_text(code)
    info = place / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = [
        f"[{group}]\n" + "".join(f"{point} = {value}\n" for point, value in points.items())
        for group, points in entry_points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
