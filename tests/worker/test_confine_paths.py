"""Which files a child may read: what its libraries look for, on whatever machine, and nothing that tells of others."""

from __future__ import annotations

import contextlib
import os
import site
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mediamill.worker import confine, seccomp
from mediamill.worker.confine import confine_calls, confine_files
from mediamill.worker.landlock import Allowed, landlock_version

pytestmark = pytest.mark.spec("C26")
MODELS = Path("/srv/models")
# Where each is on some machine that we know; most are not on this one.
READ = {
    "the loader and its list": ("/lib64/ld-linux-x86-64.so.2", "/etc/ld.so.cache", "/etc/ld.so.conf"),
    "where more libraries are": ("/etc/ld.so.conf.d/cuda.conf", "/usr/local/lib/libvips.so", "/lib/libc.so"),
    "libraries of 32 and 64 bits": ("/lib32/a.so", "/usr/lib32/a.so", "/usr/lib64/a.so", "/usr/lib/a.so"),
    "programs of libraries": ("/usr/libexec/a",),
    "fonts, colours, languages": (
        "/usr/share/fonts/a.ttf",
        "/usr/local/share/fonts/a.ttf",
        "/etc/fonts/fonts.conf",
    ),
    "the time here": ("/etc/localtime", "/etc/timezone", "/usr/share/zoneinfo/UTC"),
    "drivers of graphics cards": (
        *("/usr/local/cuda/lib64/libcudart.so", "/opt/rocm/lib/librocblas.so"),
        *("/etc/OpenCL/vendors/nvidia.icd", "/etc/vulkan/icd.d/a.json", "/proc/driver/nvidia/version"),
    ),
    "how many cores there are": (
        *("/proc/cpuinfo", "/proc/stat", "/sys/devices/system/cpu/online"),
        *("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpuset.cpus.effective"),
        *("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
        "/sys/fs/cgroup/cpuset/cpuset.cpus",
    ),
    "how much memory there is": (
        *("/proc/meminfo", "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/max_map_count"),
        *("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.high"),
        *("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/kernel/mm/transparent_hugepage/enabled"),
    ),
    "which kernel it is": ("/proc/version", "/proc/filesystems"),
    "itself": tuple(
        f"/proc/self/{name}"
        for name in ("maps", "status", "stat", "statm", "limits", "cgroup", "environ", "auxv", "fd/3")
    ),
    "code and models": (
        *(os.__file__, pytest.__file__, confine.__file__, "/srv/models/a.onnx"),
        *(f"{sys.prefix}/a", f"{sys.base_prefix}/a", f"{site.getuserbase()}/a", sys.executable),
    ),
    "its own folder": ("/scratch/1/tmp/a",),
    "chance and nothing": ("/dev/urandom", "/dev/random", "/dev/null", "/dev/zero", "/dev/full"),
}
NEVER = (
    *("/etc/passwd", "/etc/shadow", "/etc/hostname", "/etc/machine-id"),
    *(f"/{home}/.ssh/id" for home in ("root", "home/a")),
    *("/proc/net/tcp", "/proc/self/net/tcp", "/proc/self/mountinfo", "/proc/1/environ", "/proc/mounts"),
    *("/sys/class/net/eth0/address", "/sys/fs/cgroup/cgroup.procs", "/var/lib/a", "/run/a.sock", "/tmp/a"),
    *(
        "/scratch/2/made",
        "/srv/other",
        "/dev/sda",
        "/dev/shm/a",
        "/dev/tty",
        "/usr/src/a",
        "/bin/sh",
        "/opt/a",
    ),
)


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without those of this machine, which were looked for before."""
    confine._devices.cache_clear()
    yield
    confine._devices.cache_clear()


def allowed_to(monkeypatch: pytest.MonkeyPatch, *, programs: bool = False) -> Allowed:
    """What a child in /scratch/1 is left with. It holds some files open; not so this process."""
    asked: list[Allowed] = []
    held: list[list[Path]] = []
    with monkeypatch.context() as patched:
        patched.setattr(confine, "restrict", asked.append)
        patched.setattr(confine, "_hold_open", lambda paths: held.append([*paths]))
        confine_files(Path("/scratch/1"), MODELS, programs=programs)
    assert held == [list(confine._ITSELF)], "or the kernel would forget them"
    return asked[0]


def is_beneath(path: str, *folders: Path) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


@pytest.mark.parametrize("what", READ)
def test_a_child_finds_what_its_libraries_look_for(
    monkeypatch: pytest.MonkeyPatch, devices: None, what: str
) -> None:
    allowed = allowed_to(monkeypatch)
    everything = [*allowed.read, *allowed.write, *allowed.devices]
    assert [path for path in READ[what] if not is_beneath(path, *everything)] == []


@pytest.mark.parametrize("programs", [False, True])
def test_a_child_finds_nothing_that_tells_of_others(
    monkeypatch: pytest.MonkeyPatch, devices: None, programs: bool
) -> None:
    allowed = allowed_to(monkeypatch, programs=programs)
    everything = [*allowed.read, *allowed.write, *allowed.devices]
    code = [Path(sys.prefix), Path(sys.base_prefix), *map(Path, filter(None, sys.path))]
    elsewhere = [path for path in NEVER if not is_beneath(path, *code)]
    assert len(elsewhere) > 20
    assert [path for path in elsewhere if is_beneath(path, *everything)] == []
    assert [*allowed.write] == [Path("/scratch/1")]
    assert [*allowed.connect] == []


@pytest.mark.parametrize(("programs", "runs"), [(False, False), (True, True)])
def test_only_a_processor_that_runs_programs_may_run_those_of_the_system(
    monkeypatch: pytest.MonkeyPatch, programs: bool, runs: bool
) -> None:
    run = allowed_to(monkeypatch, programs=programs).run
    tools = ("/bin/sh", "/sbin/a", "/usr/bin/pdftotext", "/usr/sbin/a", "/usr/local/bin/ffmpeg")
    loaders = (
        "/lib64/ld-linux-x86-64.so.2",
        "/usr/lib/libreoffice/program/soffice",
        sys.prefix,
        sys.base_prefix,
    )
    assert [is_beneath(path, *run) for path in (*tools, *loaders)] == [runs] * 9
    assert not is_beneath("/scratch/1/made", *run), "never what it has written"
    assert not is_beneath("/srv/models/a", *run)


def test_cards_are_among_the_devices_of_a_child_and_no_disk_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, devices: None
) -> None:
    for name in ("null", "kfd", "nvidia0", "nvidiactl", "sda", "tty", "dri/card0", "snd/a"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(confine, "Path", lambda *parts: tmp_path if parts == ("/dev",) else Path(*parts))
    found = {str(path.relative_to(tmp_path)) for path in allowed_to(monkeypatch).devices}
    assert found == {"null", "kfd", "nvidia0", "nvidiactl", "dri"}
    asked: list[dict[str, bool]] = []
    monkeypatch.setattr(seccomp, "filter_calls", lambda **more: asked.append(more))
    confine_calls()
    (tmp_path / "kfd").unlink()
    confine_calls(programs=True)
    confine._devices.cache_clear()
    for name in ("nvidia0", "nvidiactl", "dri/card0"):
        (tmp_path / name).unlink()
    (tmp_path / "dri").rmdir()
    confine_calls()
    assert asked == [
        {"programs": False, "devices": True},
        {"programs": True, "devices": True},  # looked for once, as a confined process cannot
        {"programs": False, "devices": False},
    ]


def opened_now() -> dict[int, str]:
    """What this process has open."""
    found = {}
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - names only
        with contextlib.suppress(OSError):  # the one that lists them
            found[number] = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115
    return found


@pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
def test_a_confined_thread_reads_about_itself_and_leaves_the_machine_alone(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
        (folder / "file").write_text("x")
    before = opened_now()

    def said(path: Path) -> bool:
        try:
            path.read_bytes()
        except OSError:
            return False
        return True

    asked = ("/proc/cpuinfo", "/proc/self/status", "/proc/self/mountinfo", "/etc/passwd", "/dev/null")

    def attempt_all() -> list[bool]:
        confine_files(own, tmp_path / "models")
        (own / "made").write_text("y")
        return [said(path) for path in (*map(Path, asked), own / "file", other / "file")]

    with ThreadPoolExecutor(max_workers=1) as thread:
        found = thread.submit(attempt_all).result()
    held = {number: name for number, name in opened_now().items() if number not in before}
    names = {Path(name).name for name in held.values()}
    for number in held:
        os.close(number)
    assert found == [True, True, False, False, True, True, False]
    assert {"maps", "status", "stat", "statm", "limits", "cgroup", "environ", "auxv", "fd"} <= names


@pytest.mark.parametrize(
    ("version", "filtered", "setting", "says"),
    [
        (0, True, "1", ["this kernel has no Landlock"]),
        (5, True, "1", ["Landlock 5; 6 has all"]),
        (6, True, "1", []),
        (6, True, "0", ["all files of their user (switched off by setting)", "(switched off by setting)"]),
        (6, False, "1", ["no seccomp here"]),
    ],
)
def test_what_is_missing_is_said_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, version: int, filtered: bool, setting: str, says: list[str]
) -> None:
    monkeypatch.setattr(confine, "landlock_version", lambda: version)
    monkeypatch.setattr(seccomp, "is_available", lambda: filtered)
    monkeypatch.setattr(confine, "has_namespaces", lambda: True)
    monkeypatch.setenv("MEDIAMILL_SANDBOX_LANDLOCK", setting)
    monkeypatch.setenv("MEDIAMILL_SANDBOX_SECCOMP", setting)
    gaps = confine.find_gaps()
    assert [text in gap for text, gap in zip(says, gaps, strict=True)] == [True] * len(says)
    whole = "confined to their own file, by Landlock 6 and seccomp"
    assert confine.describe_confinement() == ("; ".join(gaps) or whole)


@pytest.mark.parametrize(("names", "namespaces", "said"), [(["a", "b"], False, True), (["a"], True, False)])
def test_programs_that_may_outlive_their_child_are_named(
    monkeypatch: pytest.MonkeyPatch, names: list[str], namespaces: bool, said: bool
) -> None:
    monkeypatch.setattr("mediamill.processors.registry.plugins_with_programs", lambda: names)
    monkeypatch.setattr(confine, "has_namespaces", lambda: namespaces)
    assert (
        f"programs that {', '.join(names)} starts may outlive it" in "; ".join(confine.find_gaps())
    ) is said


def test_what_is_held_open_gives_nothing_away() -> None:
    before = opened_now()
    confine._hold_open([Path("/proc/self/status"), Path("/nowhere/a"), Path("/etc/passwd")])
    held = {number: name for number, name in opened_now().items() if number not in before}
    try:
        assert [Path(name).name for name in held.values()] == ["status", "passwd"]
        for number in held:
            assert not os.get_inheritable(number)
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.read(number, 1)  # it is a name, not an open file
    finally:
        for number in held:
            os.close(number)
