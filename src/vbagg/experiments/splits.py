"""What a method may see, and what only the scoring sees.

A `Split` holds bags and their totals, nothing else: fitting and selection take a `Split`, so no individual output can
reach them. The `Truth` about individuals goes to `scores` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from vbagg.bags import Bags
from vbagg.datasets import AggregateData


@dataclass(frozen=True, eq=False)
class Observed:
    """Bags and their outputs."""

    bags: Bags
    y: np.ndarray

    def __post_init__(self) -> None:
        if type(self.bags) is not Bags:
            raise TypeError(
                f"`bags` must be vbagg.Bags, which hold no outputs of individuals; got {type(self.bags).__name__}."
            )
        if np.shape(self.y) != (len(self.bags),):
            raise TypeError(
                f"`y` must hold one output for each of {len(self.bags)} bags; got shape {np.shape(self.y)}."
            )

    @property
    def pair(self) -> tuple[Bags, np.ndarray]:
        """As `fit` takes held-out bags."""
        return self.bags, self.y


@dataclass(frozen=True, eq=False)
class Split:
    """The four parts of the paper's experiments."""

    train: Observed
    early_stop: Observed
    validation: Observed
    test: Observed

    def __post_init__(self) -> None:
        for part in fields(self):
            if type(getattr(self, part.name)) is not Observed:
                raise TypeError(f"`{part.name}` must be Observed, which holds no outputs of individuals.")


@dataclass(frozen=True, eq=False)
class Truth:
    """What is known of the training individuals, in the order of `train.bags.X`."""

    rate: np.ndarray | None
    """True means, None where nobody knows them."""
    individual_y: np.ndarray | None
    """Their outputs, None where there are none."""


def separate(parts: Mapping[str, AggregateData]) -> tuple[Split, Truth]:
    """Part the data by who may see them."""
    observed = {name: Observed(part.bags, part.y) for name, part in parts.items()}
    return Split(**observed), Truth(parts["train"].rate, parts["train"].individual_y)
