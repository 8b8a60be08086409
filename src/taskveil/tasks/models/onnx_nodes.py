"""A node of an ONNX graph, one run of it, and what an operator is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

KINDS: dict[int, torch.dtype] = {
    1: torch.float32,
    10: torch.float16,
    11: torch.float64,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
}
"""The types of numbers that are computed with, by TensorProto's numbering."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """One operator of a file: its name, what it takes and gives by name, its options."""

    kind: str
    inputs: tuple[str, ...]
    """Empty where one is left out."""
    outputs: tuple[str, ...]
    options: dict[str, Any]
    """Texts as str, numbers of a file's own as tensors."""
    opset: int
    constants: dict[int, Tensor]
    """The inputs that the file itself states, by their place; known while reading, for refusals."""

    def takes(self, place: int) -> bool:
        """Whether this input is there at all."""
        return len(self.inputs) > place and bool(self.inputs[place])

    def gives_more(self) -> bool:
        """Whether it has outputs beyond the first."""
        return any(self.outputs[1:])


@dataclass(frozen=True, kw_only=True)
class Call:
    """One run of a node: its inputs (None where one is left out), and what holds for the whole graph."""

    node: Node
    inputs: list[Any]
    reading: bool = False
    """Everything this node takes is stated in the file: it is computed once, while reading."""
    floating: torch.dtype | None = None
    """The one type of all floating numbers in a module that was moved to it; else every number has the file's type."""

    @property
    def first(self) -> Any:
        """The input that operators of one input take."""
        return self.inputs[0]

    def input(self, place: int) -> Any:
        """An input that may be left out, or None."""
        return self.inputs[place] if len(self.inputs) > place else None

    def option(self, name: str, default: Any = None) -> Any:
        """An option, or the specification's default; a file's options are numbers in single precision, so these are."""
        return self.node.options.get(name, float(np.float32(default)) if isinstance(default, float) else default)

    def whole(self, place: int, name: str) -> list[int] | None:
        """Shapes, axes and the like: an option in old operator sets and an input in new ones, or None."""
        given = self.option(name, self.input(place))
        return None if given is None else [int(n) for n in given]


@dataclass(frozen=True)
class Operator:
    """How a node is computed, and for which options a file is refused: `refuse` says what it holds, or None."""

    compute: Callable[[Call], Tensor | tuple[Tensor, ...]]
    refuse: Callable[[Node], str | None] = lambda node: None  # noqa: ARG005 - nothing is wrong


def first_output_only(node: Node) -> str | None:
    """Refuses a node of whose outputs more than the first is asked for."""
    return f"a second output of {node.kind}, which is not supported" if node.gives_more() else None
