"""A node of an ONNX graph, one run of it, and what an operator is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Node:
    """One operator of a file: its name, what it takes and gives by name, its options."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: dict[str, Any]
    opset: int


@dataclass(frozen=True, kw_only=True)
class Call:
    """One run of a node: its inputs (None where one is left out), and what holds for the whole graph."""

    node: Node
    inputs: list[Any]
    floating: torch.dtype
    """All floating numbers share this type."""
    records: int
    """How many records are asked about."""
    batch: int
    """How many records the file was exported for; 0 for any number."""

    @property
    def first(self) -> Any:
        """The input that operators of one input take."""
        return self.inputs[0]

    def input(self, place: int) -> Any:
        """An input that may be left out, or None."""
        return self.inputs[place] if len(self.inputs) > place else None

    def option(self, name: str, default: Any = None) -> Any:
        """An option, or the specification's default."""
        return self.node.options.get(name, default)


@dataclass(frozen=True)
class Operator:
    """How a node is computed, and for which options a file is refused: `refuse` says what it holds, or None."""

    compute: Callable[[Call], Tensor]
    refuse: Callable[[Node], str | None] = lambda node: None  # noqa: ARG005 - nothing is wrong
