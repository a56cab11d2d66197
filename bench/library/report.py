"""What was asked for beside what was measured, as a table."""

from __future__ import annotations

from typing import Any

from bench.video.report import Demand

FLAT, SEARCH = 1.5, 3.0
OTHERS_P99 = 1.5
WORKED = ("scan", "pipeline")  # parts with demands of their own
Found = dict[str, Any]


def demands_of(found: Found) -> list[Found]:
    """Of all parts that were measured, as they are told."""
    told = [demand.told() for demand in _own_demands(found)]
    return told + [demand for part in WORKED for demand in found.get(part, {}).get("demands", ())]


def _own_demands(found: Found) -> list[Demand]:
    lines = _growth_demands(found["growth"]["growth"]) if "growth" in found else []
    if delete := found.get("delete"):
        phases = delete["phases"]
        ratio = phases["erasing"]["p99_ms"] / phases["before"]["p99_ms"]
        lines.append(
            Demand("searches while a library is erased: p99 to that before", ratio, OTHERS_P99, True)
        )
    return lines


def _growth_demands(growth: Found) -> list[Demand]:
    """Of each group the question that grew most, by what people wait and by what the server works."""
    lines = []
    for group, limit in (("claim", FLAT), ("listing", FLAT), ("search", SEARCH)):
        for measure, said in (("p50", "p50"), ("p99", "p99"), ("cpu", "CPU of the server")):
            if group != "search" and measure == "p99":  # of a millisecond: whatever else the machine did
                continue
            grown = {name: told[measure] for name, told in growth.items() if told["group"] == group}
            worst = max(grown, key=grown.__getitem__)
            lines.append(Demand(f"{group}, {said}, large to small ({worst})", grown[worst], limit, True))
    return lines


def print_report(found: Found) -> None:
    """Tables for people."""
    if growth := found.get("growth"):
        print_growth(growth)
    if delete := found.get("delete"):
        print_erasing(delete)
    for part in WORKED:
        if part in found:
            print(f"\n{part}")
            for name, value in found[part]["figures"].items():
                print(f"  {name:<32}{value}")
    print(f"\n{'asked for':<76}{'measured':>10}{'limit':>18}")
    for told in demands_of(found):
        met = "met" if told["met"] else "NOT MET"
        print(f"{told['what']:<76}{told['measured']:>10.3f}{told['asked']:>18}  {met}")


def print_growth(growth: Found) -> None:
    """Milliseconds in both catalogues, and bytes of the large one."""
    small, large = growth["small"], growth["large"]
    print(
        f"\nms; CPU is the server's{'':<9}{small['assets']:>9} assets{'':<11}{large['assets']:>9} assets{'':<13}growth"
    )
    print(
        f"{'':<32}"
        + f"{'p50':>8}{'p99':>9}{'CPU':>8} " * 2
        + f"{'p50':>8}{'p99':>7}{'CPU':>7}{'first':>7}{'rows':>7}"
    )
    for question, grown in growth["growth"].items():
        row = f"{question:<32}"
        for side in (small, large):
            told = side["times"][question]
            row += f"{told['p50_ms']:>8.1f}{told['p99_ms']:>9.1f}{told['cpu_p50_ms']:>8.1f} "
        for name, width in (("p50", 8), ("p99", 7), ("cpu", 7), ("first", 7)):
            row += f"{grown.get(name, 0):>{width}.2f}"
        print(f"{row}{large['times'][question]['rows']:>7.0f}")
    print(
        f"\n{large['size']['bytes_per_asset']} bytes for each asset, {large['size']['database_mb']} MB in all"
    )
    for name, size in large["size"]["parts"].items():
        print(f"  {name:<40}{size:>10.1f}")


def print_erasing(delete: Found) -> None:
    """Searches by phase."""
    left = f", {delete['left']} left" if delete["left"] else ""
    print(f"\n{delete['assets']} assets erased in {delete['erasing_seconds']} s{left}; searches meanwhile:")
    for phase, told in delete["phases"].items():
        print(
            f"  {phase:<12}{told['searches']:>7}  p50 {told['p50_ms']:>7.1f}  p90 {told['p90_ms']:>7.1f}"
            f"  p99 {told['p99_ms']:>7.1f} ms"
        )
