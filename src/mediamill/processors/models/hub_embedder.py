"""Images, and searches for them, to vectors by CLIP or SigLIP: two ONNX networks from the model hub.

The layout is the one that Immich publishes: `visual/` and `textual/`, each with a network and how to feed it.
"""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mediamill.processors.models.contract import Pixels, Vectors
from mediamill.processors.models.hub import HubModel, HubModelUnusableError, find_hub_model, hub_model_folder

if TYPE_CHECKING:
    from mediamill.settings import Settings

DEFAULT_MODEL = "ViT-B-32__laion2b-s34b-b79k"
FILES = (
    "config.json",
    "textual/model.onnx",
    "textual/tokenizer.json",
    "textual/tokenizer_config.json",
    "visual/model.onnx",
    "visual/preprocess_cfg.json",
)
KNOWN = (
    HubModel(
        "ViT-B-32__laion2b-s34b-b79k",
        "immich-app/ViT-B-32__laion2b-s34b-b79k",
        "19a057a0fb927cf239541300e74237cd56c7ffe2",
        FILES,
        sha256={
            "visual/model.onnx": "b9ce24b91a8c62ef8d40ea786051709c93140104cbf2b6b4a2cc270df3838f9c",
            "textual/model.onnx": "48c25be37b352398f2533c9426dab6f9340535e14e46f884cc894236a5060722",
        },
    ),
)
QUERY_CHARACTERS = 1_000


def chosen_model(settings: Settings) -> HubModel:
    """The one of the settings."""
    return find_hub_model(KNOWN, settings.embedding_model or DEFAULT_MODEL, "MEDIAMILL_EMBEDDING_MODEL")


class HubEmbedder:
    """Its files are fetched before: see fetch_hub.py."""

    network = False

    def __init__(self, settings: Settings) -> None:
        model = chosen_model(settings)
        folder = hub_model_folder(model, settings.models_folder)
        self.model = model.id
        try:
            self._eye = _Eye(folder / "visual", settings.processor_threads)
            self._reader = _Reader(folder, model.name, settings.processor_threads)
        except Exception as error:
            raise HubModelUnusableError(f"{model.name} cannot be loaded: {error}") from error
        self.dimensions = int(self.embed_query("size").shape[1])

    def embed_images(self, images: Sequence[Pixels]) -> Vectors:
        """One vector an image; one at a time, so that memory does not grow with their number."""
        if not images:
            return np.empty((0, self.dimensions), np.float32)
        return np.concatenate([_normalised(self._eye.see(pixels)) for pixels in images])

    def embed_query(self, text: str) -> Vectors:
        """The vector of a search, one row."""
        return _normalised(self._reader.read(text))


@dataclass(slots=True)
class _Network:
    """An ONNX network with one input."""

    session: Any
    name: str
    kind: str

    @classmethod
    def load(cls, path: Path, threads: int) -> _Network:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        given = session.get_inputs()[0]
        return cls(session, given.name, given.type)

    def run(self, value: NDArray[Any]) -> Vectors:
        out: Vectors = np.asarray(self.session.run(None, {self.name: value})[0], np.float32)
        return out


class _Eye:
    """The network for images, and how an image must be cut for it."""

    def __init__(self, folder: Path, threads: int) -> None:
        recipe = json.loads((folder / "preprocess_cfg.json").read_text("utf-8"))
        size = recipe["size"]
        self._size = int(size[0] if isinstance(size, list) else size)
        self._squash = recipe.get("resize_mode", "shortest") == "squash"
        self._mean, self._spread = np.array(recipe["mean"], np.float32), np.array(recipe["std"], np.float32)
        self._network = _Network.load(folder / "model.onnx", threads)

    def see(self, pixels: Pixels) -> Vectors:
        import pyvips

        how = {"size": "force"} if self._squash else {"crop": "centre"}
        image = pyvips.Image.new_from_array(pixels)
        small = image.thumbnail_image(self._size, height=self._size, **how).numpy()
        values = (small.astype(np.float32) / 255 - self._mean) / self._spread
        return self._network.run(np.ascontiguousarray(values.transpose(2, 0, 1)[None], np.float32))


class _Reader:
    """The network for searches, and how a text becomes its tokens."""

    def __init__(self, folder: Path, model_name: str, threads: int) -> None:
        from tokenizers import Tokenizer

        config = json.loads((folder / "config.json").read_text("utf-8")).get("text_cfg") or {}
        recipe = json.loads((folder / "textual" / "tokenizer_config.json").read_text("utf-8"))
        pad = recipe["pad_token"]
        pad = pad["content"] if isinstance(pad, dict) else pad
        length = int(config.get("context_length", 77))
        self._tokenizer = Tokenizer.from_file(str(folder / "textual" / "tokenizer.json"))
        self._tokenizer.enable_padding(
            length=length, pad_token=pad, pad_id=self._tokenizer.token_to_id(pad) or 0
        )
        self._tokenizer.enable_truncation(max_length=length)
        clean = (config.get("tokenizer_kwargs") or {}).get("clean")
        self._bare = clean == "canonicalize"
        # SigLIP 2 was trained on lower-case texts only; its tokenizer keeps capitals.
        self._lower = self._bare or clean == "lower" or "siglip2" in model_name.lower()
        self._network = _Network.load(folder / "textual" / "model.onnx", threads)

    def read(self, text: str) -> Vectors:
        text = " ".join(text[:QUERY_CHARACTERS].split())
        text = text.lower() if self._lower else text
        text = text.translate(str.maketrans("", "", string.punctuation)) if self._bare else text
        kind = np.int64 if "int64" in self._network.kind else np.int32
        return self._network.run(np.array([self._tokenizer.encode(text).ids], kind))


def _normalised(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    result: Vectors = vectors / np.maximum(lengths, 1e-12)
    return result
