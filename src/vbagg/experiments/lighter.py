"""The same data by fewer individuals, on which a search among many candidates is cheap."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from vbagg.bags import Bags
from vbagg.experiments.splits import Observed, Split
from vbagg.portions import Portions
from vbagg.representatives import representative_bags
from vbagg.scaling import Scaler

INDIVIDUALS = 128
"""That stand for a bag, if it has more."""
WORTHWHILE = 0.25
"""Share of the individuals that a lighter split may have at most."""


@lru_cache(maxsize=1)
def lighter(split: Split) -> Split | None:
    """Each bag by weighted means of groups of its individuals; None where that would save little."""
    train = split.train.bags
    if np.minimum(train.sizes, INDIVIDUALS).sum() > WORTHWHILE * train.n_individuals:
        return None
    scaler = Scaler.fit(Portions.of(train, np.zeros(train.n_individuals)))
    return Split(**{name: Observed(_lighter(part.bags, scaler), part.y) for name, part in vars(split).items()})


def _lighter(bags: Bags, scaler: Scaler) -> Bags:
    import pandas as pd

    used = bags.drop_zero_weight()
    standard = used.with_arrays(scaler.forward(used.X))
    few = representative_bags(standard, np.zeros(used.n_individuals), np.full(len(used), INDIVIDUALS)).bags
    X = scaler.backward(few.X, tuple(range(few.n_features)))
    table = pd.DataFrame(X, columns=list(bags.feature_names)) if bags.named else X
    return Bags(table, few.bag, few.weight, coordinates=list(bags.coordinates) or None)
