"""Bag-pixel: the paper's baseline that treats each bag as one individual with its mean covariates."""

from __future__ import annotations

import numpy as np

from vbagg.bags import Bags
from vbagg.models.nystrom import Nystrom


class BagPixel(Nystrom):
    """`y_a` with mean `w_a Psi(f(x_a))`, `x_a` the weighted mean of the bag; then `f` is applied to individuals.

    Parameters as for `Nystrom`, whose features it uses. Predictions of bags add up their individuals, noise included:
    what `tau` was learnt for (bag means) counts for each individual.
    """

    def _training_view(self, bags: Bags, offset: np.ndarray) -> tuple[Bags, np.ndarray]:
        return bag_means(bags), bags.sum_by_bag(bags.weight * offset) / bags.totals()


def bag_means(bags: Bags) -> Bags:
    """Each bag as one individual: its weighted mean with its total weight."""
    total = bags.totals()
    means = bags.sum_by_bag(bags.weight[:, None] * bags.X) / total[:, None]
    first = bags._take(bags.starts[:-1], np.ones(len(bags), np.intp), bags.labels)
    return first.with_arrays(means, total)
