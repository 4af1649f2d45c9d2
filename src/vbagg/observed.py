"""Which bags a model was fitted to: recognised by label and individuals, so that their outputs can be used again."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from vbagg.bags import Bags
from vbagg.errors import DataWarning
from vbagg.inputs import some_bags

_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Observed:
    """Labels, outputs and fingerprints of the training bags."""

    labels: tuple[Any, ...]
    fingerprint: np.ndarray
    y: np.ndarray
    facts: dict[str, np.ndarray]
    """What the likelihood knows of each of them besides, in the units of training."""

    def recognise(self, bags: Bags, offset: np.ndarray) -> np.ndarray:
        """Position among the training bags of each of these, -1 where a bag is not one of them.

        A bag with the label of a training bag but other individuals is none, with a warning.
        """
        place = {label: at for at, label in enumerate(self.labels)}
        at = np.array([place.get(label, -1) for label in bags.labels.tolist()], dtype=np.intp)
        if (at < 0).all():
            return at
        changed = (at >= 0) & (fingerprints(bags, offset) != self.fingerprint[np.maximum(at, 0)])
        if changed.any():
            warnings.warn(
                f"{changed.sum()} bags have the label of a training bag but other individuals, weights or offsets"
                f" ({some_bags(bags.labels[changed].tolist())}); they are predicted as new bags.",
                DataWarning,
                stacklevel=4,
            )
        return np.where(changed, -1, at)


def fingerprints(bags: Bags, offset: np.ndarray) -> np.ndarray:
    """A number (b) that depends on the rows of positive weight of each bag, and not on their order."""
    row = np.where(bags.weight > 0, codes_of_rows(*bags.X.T, bags.weight, offset), np.uint64(0))
    return np.add.reduceat(row, bags.starts[:-1])


def codes_of_rows(*columns: np.ndarray) -> np.ndarray:
    """64 bits (n) that depend on the numbers in each row and look random."""
    row = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        row = _scrambled(row ^ np.ascontiguousarray(column + 0.0).view(np.uint64))
    return row


def _scrambled(bits: np.ndarray) -> np.ndarray:
    bits = (bits ^ (bits >> np.uint64(32))) * _ODD
    return (bits ^ (bits >> np.uint64(29))) * _ODD
