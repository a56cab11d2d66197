"""CLIP and SigLIP from a model hub on this machine: what is fetched, when, and what the networks are fed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tokenizers import Tokenizer, models, pre_tokenizers

from mediamill.errors import GiveUpError, RetryLaterError
from mediamill.processors.models.endpoint import ModelNotSetError
from mediamill.processors.models.hub import HubModel, HubModelMissingError, fetch_hub_model, find_hub_model
from mediamill.processors.models.hub_embedder import FILES, KNOWN, HubEmbedder, chosen_model
from mediamill.settings import Settings
from mediamill.testing.hub_server import HubServer
from mediamill.testing.model_server import BROKEN, failing

pytestmark = pytest.mark.spec("C26")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SIZE, LENGTH = 4, 6
WORDS = {"<pad>": 0, "cat": 1, "Cat": 2, "dog": 3, "<unk>": 4}


def write_networks(folder: Path) -> None:
    """The eye gives the mean of each colour, the reader its tokens as they are."""
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])
    seen = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [1, 3])
    mean = helper.make_node("ReduceMean", ["image"], ["embedding"], axes=[2, 3], keepdims=0)
    save(helper.make_graph([mean], "eye", [image], [seen]), folder / "visual" / "model.onnx")
    text = helper.make_tensor_value_info("text", TensorProto.INT32, [1, LENGTH])
    told = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [1, LENGTH])
    cast = helper.make_node("Cast", ["text"], ["embedding"], to=TensorProto.FLOAT)
    save(helper.make_graph([cast], "reader", [text], [told]), folder / "textual" / "model.onnx")


def save(graph: onnx.GraphProto, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def write_model(folder: Path, preprocess: dict[str, Any] | None = None, **text_config: Any) -> Path:
    """A model in the layout of the hub, with a file that nobody wants."""
    write_networks(folder)
    recipe = {"size": [SIZE, SIZE], "mean": [0.5] * 3, "std": [0.5] * 3, **(preprocess or {})}
    (folder / "visual" / "preprocess_cfg.json").write_text(json.dumps(recipe))
    config = {"embed_dim": LENGTH, "text_cfg": {"context_length": LENGTH, **text_config}}
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "textual" / "tokenizer.json"))
    (folder / "textual" / "tokenizer_config.json").write_text('{"pad_token": "<pad>"}')
    (folder / "pytorch_model.bin").write_bytes(b"much that is not needed")
    return folder


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        yield server


def settings(folder: Path, repository: str = "somebody/ViT-B-SigLIP2") -> Settings:
    return Settings(embedding="hub", embedding_model=f"{repository}@{COMMIT}", models=folder / "models")


@pytest.fixture
def published(hub: HubServer, tmp_path: Path) -> Settings:
    hub.publish("somebody/ViT-B-SigLIP2", COMMIT, write_model(tmp_path / "origin"))
    return settings(tmp_path)


def make_embedder(settings: Settings) -> HubEmbedder:
    """As a worker does: the files first, then the adapter."""
    fetch_hub_model(chosen_model(settings), settings.models_folder)
    return HubEmbedder(settings)


def test_the_files_of_the_pinned_revision_are_fetched_and_no_others(
    hub: HubServer, published: Settings
) -> None:
    embedder = make_embedder(published)
    assert hub.fetched == {f"{COMMIT}/{name}" for name in FILES}
    assert embedder.model == f"somebody/ViT-B-SigLIP2@{COMMIT[:12]}"
    assert embedder.network is False
    folder = published.models_folder / "hub" / f"somebody--ViT-B-SigLIP2@{COMMIT[:12]}"
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == set(FILES)


def test_the_second_time_nobody_is_asked(hub: HubServer, published: Settings) -> None:
    make_embedder(published)
    asked = len(hub.seen)
    make_embedder(published)
    assert len(hub.seen) == asked


def test_an_adapter_never_fetches_and_says_who_does(hub: HubServer, published: Settings) -> None:
    with pytest.raises(HubModelMissingError) as failure:
        HubEmbedder(published)
    assert failure.value.fix == "mediamill models fetch"
    assert hub.seen == []


def test_images_are_seen_as_the_recipe_says(hub: HubServer, published: Settings) -> None:
    red = np.zeros((20, 30, 3), np.uint8)
    red[..., 0] = 255
    vectors = make_embedder(published).embed_images([red, 255 - red])
    expected = np.array([[1, -1, -1], [-1, 1, 1]]) / np.sqrt(3)  # 255 becomes 1, 0 becomes -1
    assert np.allclose(vectors, expected, atol=1e-5)
    assert vectors.dtype == np.float32


@pytest.mark.parametrize(("mode", "share"), [("squash", 0.5), ("shortest", 1.0)])
def test_an_image_is_squashed_or_cut_as_the_recipe_says(
    hub: HubServer, tmp_path: Path, mode: str, share: float
) -> None:
    origin = write_model(tmp_path / "origin", {"resize_mode": mode, "mean": [0.0] * 3, "std": [1.0] * 3})
    hub.publish("somebody/ViT-B-SigLIP2", COMMIT, origin)
    image = np.zeros((40, 80, 3), np.uint8)
    image[..., 1] = 255
    image[:, 20:60, 0] = 255  # red only in the middle half
    (vector,) = make_embedder(settings(tmp_path)).embed_images([image])
    assert vector[0] / vector[1] == pytest.approx(share, abs=0.05)


def tokens(vector: Any) -> list[int]:
    """What the reader was fed: its vector is the tokens, made one long."""
    smallest = min(value for value in vector[0] if value > 0)
    return [round(float(value / smallest)) for value in vector[0]]


def test_a_query_is_lower_case_for_siglip2(hub: HubServer, published: Settings) -> None:
    embedder = make_embedder(published)
    assert tokens(embedder.embed_query("  Cat\n DOG ")) == [1, 3, 0, 0, 0, 0]
    assert embedder.dimensions == LENGTH
    assert np.linalg.norm(embedder.embed_query("dog " * 5000)) == pytest.approx(1)


def test_a_query_keeps_its_capitals_for_other_models(hub: HubServer, tmp_path: Path) -> None:
    hub.publish("somebody/CLIP", COMMIT, write_model(tmp_path / "origin"))
    embedder = make_embedder(settings(tmp_path, "somebody/CLIP"))
    assert tokens(embedder.embed_query("Cat Cat"))[:3] == [1, 1, 0]
    assert not np.allclose(embedder.embed_query("Cat dog"), embedder.embed_query("cat dog"))


def test_punctuation_goes_if_the_model_wants_it_so(hub: HubServer, tmp_path: Path) -> None:
    origin = write_model(tmp_path / "origin", tokenizer_kwargs={"clean": "canonicalize"})
    hub.publish("somebody/CLIP", COMMIT, origin)
    embedder = make_embedder(settings(tmp_path, "somebody/CLIP"))
    assert np.allclose(embedder.embed_query("Cat, dog!"), embedder.embed_query("cat dog"))


def test_a_model_that_the_hub_does_not_have_is_final(hub: HubServer, tmp_path: Path) -> None:
    with pytest.raises(GiveUpError, match=r"does not give somebody/ViT-B-SigLIP2 at 0123456789ab"):
        make_embedder(settings(tmp_path))
    left = [path for path in (tmp_path / "models" / "hub").iterdir() if path.name.endswith(COMMIT[:12])]
    assert left == []


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub's own library pauses for long between its tries."""
    clock = SimpleNamespace(**{**vars(time), "sleep": lambda _seconds: None})
    monkeypatch.setattr("huggingface_hub.utils._http.time", clock)


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("act", [BROKEN, failing(503)], ids=["500", "503"])
def test_a_hub_that_fails_is_tried_later(hub: HubServer, published: Settings, act: Any) -> None:
    hub.always(act)
    with pytest.raises(RetryLaterError):
        make_embedder(published)


@pytest.mark.usefixtures("no_pauses")
def test_a_hub_that_is_away_is_tried_later(hub: HubServer, published: Settings) -> None:
    hub.close()
    with pytest.raises(RetryLaterError, match="could not be fetched"):
        make_embedder(published)


def test_a_repository_that_lacks_a_file_is_no_model(
    hub: HubServer, published: Settings, tmp_path: Path
) -> None:
    (tmp_path / "origin" / "textual" / "tokenizer.json").unlink()
    with pytest.raises(GiveUpError, match=r"has no textual/tokenizer\.json"):
        make_embedder(published)


def test_a_file_that_is_not_the_one_that_was_checked_is_refused_and_not_kept(
    hub: HubServer, published: Settings
) -> None:
    model = HubModel("m", "somebody/ViT-B-SigLIP2", COMMIT, FILES, sha256={"visual/model.onnx": "0" * 64})
    with pytest.raises(GiveUpError, match="not the file that was checked"):
        fetch_hub_model(model, published.models_folder)
    left = [path.name for path in (published.models_folder / "hub").iterdir() if path.is_dir()]
    assert left == []


def test_networks_that_cannot_be_loaded_are_told(hub: HubServer, published: Settings, tmp_path: Path) -> None:
    (tmp_path / "origin" / "visual" / "model.onnx").write_bytes(b"no network")
    with pytest.raises(GiveUpError, match="cannot be loaded"):
        make_embedder(published)


@pytest.mark.parametrize(
    "name", ["unknown", "owner/name", "owner/name@main", f"../../x@{COMMIT}", f"a/b/c@{COMMIT}"]
)
def test_a_model_without_a_commit_is_not_taken(name: str) -> None:
    with pytest.raises(ModelNotSetError) as failure:
        find_hub_model(KNOWN, name, "MEDIAMILL_EMBEDDING_MODEL")
    assert KNOWN[0].name in (failure.value.fix or "")
