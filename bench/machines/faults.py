"""The faults: what can happen to three machines, each for a while, chosen by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from bench.machines.site import LEASE_SECONDS, MACHINES, Site
from bench.machines.switch import Way


@dataclass(frozen=True, slots=True)
class Fault:
    """`sort` is what is counted; `target` a node or a machine; it lasts so long between `begin` and `end`."""

    sort: str
    target: str
    seconds: float
    begin: Callable[[], None]
    end: Callable[[], None]

    def __str__(self) -> str:
        return f"{self.sort}, {self.target}, {self.seconds:.1f} s"


def draw_faults(site: Site, rng: random.Random) -> list[Fault]:
    """One round: one fault, or up to four at once, of different targets."""
    wanted = rng.choices((1, 2, 3, 4), (3, 3, 3, 1))[0]
    found: list[Fault] = []
    while len(found) < wanted:
        fault = _draw(site, rng)
        if fault.target not in {each.target for each in found}:
            found.append(fault)
    return found


def _draw(site: Site, rng: random.Random) -> Fault:
    makers = (_kill, _kill, _kill, _pause, _cut, _cut_one_way, _bad_line)
    return rng.choice(makers)(site, rng)


def _kill(site: Site, rng: random.Random) -> Fault:
    """And started again after a moment, or a while."""
    node = site.nodes[rng.choice(sorted(site.nodes))]
    return Fault(
        f"kill -9 of {_role(node.name)}", node.name, rng.choice((0.0, 0.5, 3.0)), node.kill, node.start
    )


def _pause(site: Site, rng: random.Random) -> Fault:
    """For longer than a lease, or shortly."""
    node = site.nodes[rng.choice(sorted(site.nodes))]
    seconds = rng.choice((2.0, 1.5 * LEASE_SECONDS, 2.5 * LEASE_SECONDS))
    return Fault(f"pause of {_role(node.name)}", node.name, seconds, node.pause, node.go_on)


def _cut(site: Site, rng: random.Random) -> Fault:
    name = rng.choice(MACHINES)
    return _on_ways("cable cut", name, site.network.switch.around(name), _cut_seconds(rng), Way(is_cut=True))


def _cut_one_way(site: Site, rng: random.Random) -> Fault:
    name, out = rng.choice(MACHINES), rng.random() < 0.5
    ways = site.network.switch.around(name, out=out, back=not out)
    return _on_ways("cable cut one way", name, ways, _cut_seconds(rng), Way(is_cut=True))


def _bad_line(site: Site, rng: random.Random) -> Fault:
    """Frames are late, and some are lost."""
    name = rng.choice(MACHINES)
    bad = Way(loss=rng.choice((0.02, 0.1, 0.3)), delay_seconds=rng.choice((0.02, 0.1, 0.2)))
    return _on_ways("late and lost frames", name, site.network.switch.around(name), 8.0, bad)


def _cut_seconds(rng: random.Random) -> float:
    return rng.choice((2.0, LEASE_SECONDS, 2.5 * LEASE_SECONDS))


def _on_ways(sort: str, name: str, ways: list[Way], seconds: float, like: Way) -> Fault:
    def set_all(to: Way) -> None:
        for way in ways:
            way.is_cut, way.loss, way.delay_seconds = to.is_cut, to.loss, to.delay_seconds

    return Fault(sort, f"cable of {name}", seconds, lambda: set_all(like), lambda: set_all(Way()))


def _role(name: str) -> str:
    return name if name in ("server", "postgresql", "redis") else "a worker"
