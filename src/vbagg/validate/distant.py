"""Validation of bags whose individuals lie in files or on workers: no process holds all of them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbagg.bags import Bags
from vbagg.chunks import block_edges, block_numbers
from vbagg.framed import FramedRows
from vbagg.held import itself
from vbagg.models.bagpixel import bag_means
from vbagg.portions import bags_of
from vbagg.stored import DistantBags
from vbagg.validate.bag_scores import scores_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Distant:
    """Bags that workers read.

    Models whose `fit` takes a `client` are fitted by all workers together. Others, which a baseline of rates or of
    means is, get each bag as one individual: its mean, with its whole weight.
    """

    bags: DistantBags
    client: Any

    def summaries(self) -> tuple[Bags, np.ndarray]:
        """Each bag as one individual, and numbers (b) that depend on all individuals of each."""
        import pandas as pd

        from vbagg.cluster import portions_on

        portions = portions_on(self.client, self.bags)
        outline = portions.outline
        X, names = np.concatenate([means.X for means in portions.each(bag_means)]), outline.feature_names
        places = [names[at] for at in outline.coordinates] or None
        return Bags(
            pd.DataFrame(X, columns=names), outline.labels, outline.weights, coordinates=places
        ), outline.fingerprints

    def fits(self, model: Any) -> bool:
        """Whether workers can fit it together."""
        return "client" in inspect.signature(model.fit).parameters

    def scores(
        self, model: Any, test: np.ndarray, y: Floats, of_all: Mapping[str, Floats], whole: bool
    ) -> dict[str, Floats]:
        """Scores of some bags, which workers predict block by block; `y` and what predictions take are of all."""
        from vbagg.cluster import workers_of

        held_out, own = self.bags[test], np.flatnonzero(test)
        items = []
        for first, last in pairwise(block_edges(block_numbers(held_out.sizes))):
            rows, at = held_out.rows(first, last), own[first:last]
            also = {name: values[at] for name, values in of_all.items()}
            # partitions of a data frame are made by the cluster, not within its work
            items.append((rows.read() if isinstance(rows, FramedRows) else rows, y[at], also, whole))
        found = list(workers_of(self.client).hold([model]).made(itself).in_order(_scored, items))
        return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


def _scored(model: Any, item: tuple[Any, Floats, dict[str, Floats], bool]) -> dict[str, Floats]:
    rows, y, also, whole = item
    return scores_of(model, bags_of(rows if isinstance(rows, dict) else rows.read()), y, also, whole)
