"""Fits give the numbers that they gave before: whoever means to change them runs this file to store new ones.

    python tests/test_stored_results.py

and says under "Numerical changes" in `CHANGELOG.md` what moved, and why.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import vbagg

STORED = Path(__file__).with_name("stored_results.json")
MODELS = {
    "default": vbagg.VBAgg(),
    "square, large bags": vbagg.VBAgg("poisson", "square", landmarks=15, hyper="point"),
    "adam": vbagg.VBAgg("normal", kernel=vbagg.kernels.RBF(), landmarks=9, inference=vbagg.Adam(epochs=3)),
}


def results(name: str) -> dict[str, list[float]]:
    """Objective, and rates of a few individuals with their sds."""
    rng = np.random.default_rng(8)
    sizes = rng.integers(3, 9, 23)
    if "large" in name:
        sizes[[2, 11]] = 150, 333
    X = rng.normal(size=(sizes.sum(), 2)) * [1.0, 3.0] + [0.4, -2.0]
    weight = rng.gamma(2.0, 2.0, len(X))
    bags = vbagg.Bags(X, np.repeat(np.arange(23), sizes), weight, coordinates=() if "adam" in name else (1,))
    mean = bags.sum_by_bag(weight * np.exp(0.7 * np.sin(2 * X[:, 0]) + 0.2 * X[:, 1]))
    y = rng.poisson(mean * rng.gamma(20.0, 1 / 20, 23)).astype(float)
    model = MODELS[name].fit(bags, y / bags.totals() if "adam" in name else y)
    rates = model.posterior(bags)
    return {
        "elbo": [float(model.elbo_)],
        "mean": rates.mean[:40:9].tolist(),
        "sd": rates.std[:40:9].tolist(),
        "new": model.posterior(X[:3] + 0.5).mean.tolist(),
    }


@pytest.mark.filterwarnings("ignore::vbagg.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_results_are_those_that_are_stored(name):
    stored, found = json.loads(STORED.read_text())[name], results(name)
    assert found.keys() == stored.keys()
    for key, values in stored.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-5, err_msg=key)


if __name__ == "__main__":
    STORED.write_text(json.dumps({name: results(name) for name in MODELS}, indent=1) + "\n")
