"""Reads the tensors of a PyTorch checkpoint without PyTorch, and without calling anything that the file names.

A checkpoint is a pickle, and a pickle can name any function. Here only four names mean something, and all of them
are stand-ins of ours. The format: magic number, version and platform, the tree of tensors, the list of their
storages, then for each storage its length and its raw numbers.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mediamill.errors import InvalidError

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
LARGEST_BYTES = 1 << 30
Array = NDArray[Any]
STORAGES: dict[str, np.dtype[Any]] = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}


class CheckpointError(InvalidError):
    """The checkpoint cannot be read."""

    code = "checkpoint_unreadable"


@dataclass
class Storage:
    """A run of numbers that tensors are views of; they follow after the tree."""

    dtype: np.dtype[Any]
    length: int
    numbers: Array = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class Tensor:
    """A view of a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def array(self) -> Array:
        """A copy of its numbers, in order; none from outside the storage."""
        wrong = len(self.shape) != len(self.strides) or min((0, self.offset, *self.shape, *self.strides)) < 0
        last = self.offset + sum(
            (size - 1) * step for size, step in zip(self.shape, self.strides, strict=False)
        )
        if wrong or 0 in self.shape or last >= len(self.storage.numbers):
            raise CheckpointError("a tensor of the checkpoint lies outside its storage")
        steps = [step * self.storage.dtype.itemsize for step in self.strides]
        seen = np.lib.stride_tricks.as_strided(self.storage.numbers[self.offset :], self.shape, steps)
        if seen.nbytes > LARGEST_BYTES:
            raise CheckpointError("a tensor of the checkpoint is too large")
        return seen.copy()


class Tree(OrderedDict[str, Any]):
    """Stands for collections.OrderedDict; what a file wants to set on it is ignored."""

    def __setstate__(self, state: object) -> None:
        del state


def _tensor(
    storage: Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object
) -> Tensor:
    if not isinstance(storage, Storage):
        raise CheckpointError("a tensor of the checkpoint has no storage")
    return Tensor(storage, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


class Reader(pickle.Unpickler):
    """Knows four names, and refuses all others."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.storages: dict[str, Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return Tree
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if module == "torch" and name in STORAGES:
            return name  # a word, not a class: nothing can be made of it
        raise CheckpointError(f"the checkpoint names {module}.{name}, which no checkpoint of weights needs")

    def persistent_load(self, pid: Any) -> Storage:
        kind, name, key, _device, length, *_ = pid
        if kind != "storage" or name not in STORAGES:
            raise CheckpointError(f"the checkpoint refers to {str(pid)[:80]}")
        made = Storage(STORAGES[name], int(length))
        if not 0 <= made.length * made.dtype.itemsize <= LARGEST_BYTES:
            raise CheckpointError("a storage of the checkpoint is too large")
        return self.storages.setdefault(str(key), made)


def read_checkpoint(path: Path) -> dict[str, Array]:
    """Every tensor by its name."""
    try:
        with path.open("rb") as file:
            return _read(file)
    except CheckpointError:
        raise
    except Exception as error:  # a broken pickle raises almost anything
        raise CheckpointError(f"the checkpoint cannot be read: {type(error).__name__}: {error}") from error


def _read(file: BinaryIO) -> dict[str, Array]:
    if Reader(file).load() != MAGIC or Reader(file).load() != PROTOCOL:
        raise CheckpointError("the file is not a checkpoint of PyTorch's older format")
    Reader(file).load()  # the sizes of the writer's machine
    reader = Reader(file)
    tree = reader.load()
    keys = Reader(file).load()
    for key in keys:
        storage = reader.storages[key]
        if int.from_bytes(file.read(8), "little") != storage.length:
            raise CheckpointError("a storage of the checkpoint has another length than its tensors say")
        numbers = file.read(storage.length * storage.dtype.itemsize)
        storage.numbers = np.frombuffer(numbers, storage.dtype, storage.length)
    if not isinstance(tree, Mapping):
        raise CheckpointError("the checkpoint holds no named tensors")
    return {str(name): tensor.array() for name, tensor in tree.items() if isinstance(tensor, Tensor)}
