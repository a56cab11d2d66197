"""EfficientNet-lite0 written as ONNX from its weights: stem, 16 inverted residual blocks, head, classifier.

Batch norms are folded into the convolutions before them. Outputs: `logits` (1000 classes) and `emb` (1280 numbers).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper

SIDE = 224
OPSET = 17
IR_VERSION = 8
EPSILON = 1e-3
# A stage: its blocks, the stride of the first, the expansion (1: none). Sizes of kernels are those of the weights.
STAGES = ((1, 1, 1), (2, 2, 6), (2, 2, 6), (3, 2, 6), (3, 1, 6), (4, 2, 6), (1, 1, 6))

Weights = Mapping[str, NDArray[Any]]


class Graph:
    """Nodes and weights so far; `side` is that of the picture at this depth."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[NodeProto] = []
        self.tensors: list[TensorProto] = []
        self.side = SIDE

    def add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """One node; its output's name."""
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def keep(self, name: str, values: NDArray[Any]) -> str:
        """One constant; its name. The bytes are little-endian, as ONNX wants them."""
        numbers = np.ascontiguousarray(values, dtype="<f4")
        self.tensors.append(
            helper.make_tensor(name, TensorProto.FLOAT, numbers.shape, numbers.tobytes(), raw=True)
        )
        return name

    def convolve(self, x: str, conv: str, norm: str, stride: int = 1, *, depthwise: bool = False) -> str:
        """A convolution with its batch norm folded in, padded as TensorFlow does: what is odd goes to the end."""
        kernel = self.weights[f"{conv}.weight"].astype(np.float64)
        scale, shift, mean, variance = (
            self.weights[f"{norm}.{part}"].astype(np.float64)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        factor = scale / np.sqrt(variance + EPSILON)
        size = kernel.shape[2]
        before, after = _padding(self.side, size, stride)
        self.side = -(-self.side // stride)
        inputs = [
            x,
            self.keep(f"{conv}.weight", kernel * factor[:, None, None, None]),
            self.keep(f"{conv}.bias", shift - mean * factor),
        ]
        return self.add(
            "Conv",
            inputs,
            f"{conv}.out",
            kernel_shape=[size, size],
            strides=[stride, stride],
            pads=[before, before, after, after],
            group=kernel.shape[0] if depthwise else 1,
        )

    def relu6(self, x: str) -> str:
        """Cut to 0 … 6."""
        return self.add("Clip", [x, "zero", "six"], f"{x}.relu6")

    def block(self, x: str, name: str, stride: int, expansion: int, *, residual: bool) -> str:
        """Widen, look around in each channel, narrow; a block that keeps the shape adds its input."""
        out = x
        if expansion != 1:
            out = self.relu6(self.convolve(out, f"{name}._expand_conv", f"{name}._bn0"))
        out = self.relu6(
            self.convolve(out, f"{name}._depthwise_conv", f"{name}._bn1", stride, depthwise=True)
        )
        out = self.convolve(out, f"{name}._project_conv", f"{name}._bn2")
        return self.add("Add", [out, x], f"{name}.out") if residual else out


def _padding(side: int, size: int, stride: int) -> tuple[int, int]:
    total = max((-(-side // stride) - 1) * stride + size - side, 0)
    return total // 2, total - total // 2


def build_efficientnet(weights: Weights) -> ModelProto:
    """The whole network."""
    graph = Graph(weights)
    graph.keep("zero", np.array(0.0))
    graph.keep("six", np.array(6.0))
    x = graph.relu6(graph.convolve("x", "_conv_stem", "_bn0", 2))
    number = 0
    for blocks, first_stride, expansion in STAGES:
        for place in range(blocks):
            stride = first_stride if place == 0 else 1
            x = graph.block(x, f"_blocks.{number}", stride, expansion, residual=place > 0)
            number += 1
    x = graph.relu6(graph.convolve(x, "_conv_head", "_bn1"))
    x = graph.add("GlobalAveragePool", [x], "pooled")
    graph.add("Flatten", [x], "emb", axis=1)
    classifier = [graph.keep(f"_fc.{part}", weights[f"_fc.{part}"]) for part in ("weight", "bias")]
    graph.add("Gemm", ["emb", *classifier], "logits", transB=1)
    return _model(graph)


def _model(graph: Graph) -> ModelProto:
    def value(name: str, *shape: int | str) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    made = helper.make_graph(
        graph.nodes,
        "efficientnet-lite0",
        [value("x", "images", 3, SIDE, SIDE)],
        [value("logits", "images", 1000), value("emb", "images", 1280)],
        graph.tensors,
    )
    return helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="mediamill"
    )


def write_efficientnet(weights: Weights, path: Path) -> None:
    """The network as a file, the same bytes each time."""
    path.write_bytes(build_efficientnet(weights).SerializeToString(deterministic=True))
