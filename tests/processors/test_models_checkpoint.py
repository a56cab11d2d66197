"""A checkpoint is read without calling what it names; EfficientNet-lite0 is written from one, always the same."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import checker

from mediamill.processors.models.catalogue import find_model
from mediamill.processors.models.checkpoint import MAGIC, PROTOCOL, CheckpointError, read_checkpoint
from mediamill.processors.models.efficientnet import STAGES, build_efficientnet
from mediamill.processors.models.installed import model_folder
from mediamill.processors.models.sessions import open_session

HEAD = pickle.dumps(MAGIC, 2) + pickle.dumps(PROTOCOL, 2) + pickle.dumps({"little_endian": True}, 2)
# Opcodes of a tree with one tensor: its name, a storage of six numbers by reference, a view of it.
TREE = (
    b"\x80\x02ccollections\nOrderedDict\n)R(X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n"
    b"((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06NtQ"
    b"K%c(K%cK%ct(K%cK%ct\x89ccollections\nOrderedDict\n)Rt"
    b"Ru."
)


class Hostile:
    """A pickle that would run a command."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


def _checkpoint(path: Path, offset: int, shape: tuple[int, int], strides: tuple[int, int]) -> Path:
    numbers = struct.pack("<q6f", 6, *range(6))
    view = [bytes([number]) for number in (offset, *shape, *strides)]
    path.write_bytes(HEAD + TREE % tuple(view) + pickle.dumps(["0"], 2) + numbers)
    return path


def test_tensors_are_read_in_whatever_order_they_lie(tmp_path: Path) -> None:
    rows = read_checkpoint(_checkpoint(tmp_path / "rows", 0, (2, 3), (3, 1)))
    columns = read_checkpoint(_checkpoint(tmp_path / "columns", 0, (3, 2), (1, 3)))
    assert rows["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert columns["w"].tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize(("offset", "shape"), [(1, (2, 3)), (0, (3, 3)), (0, (0, 3))])
def test_a_tensor_outside_its_storage_is_refused(tmp_path: Path, offset: int, shape: tuple[int, int]) -> None:
    with pytest.raises(CheckpointError, match="outside its storage"):
        read_checkpoint(_checkpoint(tmp_path / "bad", offset, shape, (3, 1)))


@pytest.mark.spec("C26")
def test_a_hostile_pickle_is_refused_and_nothing_runs(tmp_path: Path) -> None:
    attack, traces = tmp_path / "attack.pth", tmp_path / "ran"
    bad = pickle.dumps(Hostile(traces), 2)
    for data in (bad, HEAD + bad, HEAD + pickle.dumps({}, 2) + bad):
        attack.write_bytes(data)
        with pytest.raises(CheckpointError, match="system, which no checkpoint of weights needs"):
            read_checkpoint(attack)
    assert not traces.exists()
    attack.write_bytes(bad)
    with attack.open("rb") as file:
        pickle.load(file)
    assert traces.exists()  # so it would have run


@pytest.mark.parametrize(
    "name", [b"cbuiltins\neval\n", b"ctorch\nload\n", b"ctorch.storage\n_load_from_bytes\n"]
)
def test_no_other_name_is_known(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / "bad.pth"
    path.write_bytes(HEAD + b"\x80\x02" + name + b"X\x01\x00\x00\x001\x85R.")
    with pytest.raises(CheckpointError, match="no checkpoint of weights needs"):
        read_checkpoint(path)


@pytest.mark.parametrize("keep", [0, 5, 40, 200, -1])
def test_a_torn_checkpoint_is_refused(tmp_path: Path, keep: int) -> None:
    path = _checkpoint(tmp_path / "torn", 0, (2, 3), (3, 1))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError):
        read_checkpoint(path)


def _random_weights() -> dict[str, np.ndarray[Any, Any]]:
    """Weights of the right shapes: the widths of EfficientNet-lite0."""
    random = np.random.default_rng(1)
    weights: dict[str, np.ndarray[Any, Any]] = {}

    def layer(conv: str, norm: str, *shape: int) -> None:
        weights[f"{conv}.weight"] = random.normal(0, 0.1, shape)
        for part in ("weight", "bias", "running_mean", "running_var"):
            weights[f"{norm}.{part}"] = random.uniform(0.5, 1, shape[0])

    layer("_conv_stem", "_bn0", 32, 3, 3, 3)
    number, before = 0, 32
    outputs, kernels = (16, 24, 40, 80, 112, 192, 320), (3, 3, 5, 3, 5, 5, 3)
    for (blocks, _stride, expansion), after, kernel in zip(STAGES, outputs, kernels, strict=True):
        for _ in range(blocks):
            name, wide = f"_blocks.{number}", before * expansion
            layer(f"{name}._expand_conv", f"{name}._bn0", wide, before, 1, 1)
            layer(f"{name}._depthwise_conv", f"{name}._bn1", wide, 1, kernel, kernel)
            layer(f"{name}._project_conv", f"{name}._bn2", after, wide, 1, 1)
            number, before = number + 1, after
    layer("_conv_head", "_bn1", 1280, 320, 1, 1)
    weights["_fc.weight"], weights["_fc.bias"] = random.normal(size=(1000, 1280)), np.zeros(1000)
    return weights


def test_the_network_is_valid_onnx_and_the_same_each_time() -> None:
    weights = _random_weights()
    model = build_efficientnet(weights)
    checker.check_model(model, full_check=True)
    assert model.SerializeToString() == build_efficientnet(weights).SerializeToString()


@pytest.mark.spec("C26")
def test_the_installed_network_answers_as_the_original_does() -> None:
    file = model_folder("efficientnet-lite0") / find_model("efficientnet-lite0").files[0].name
    down, across = np.mgrid[0:224, 0:224]
    ramp = np.stack([across, down, (across + down) // 2]).astype(np.float32)[None]
    logits, embedding = open_session(file, 1).run(["logits", "emb"], {"x": (ramp - 127) / 128})
    # What the checkpoint gives by the framework that it was trained for.
    wanted = [-0.1377, 0.1868, 1.1314, 0.4245, 1.3317, 2.3603, -0.9327, -0.7637, -1.5518, -0.8401]
    assert logits[0, :10] == pytest.approx(wanted, abs=1e-3)
    assert embedding.shape == (1, 1280)
