"""Bags inside unions: laws beside draws whose sums are known, and scores beside loops."""

import numpy as np
import pandas as pd
import pytest

import vbagg
from vbagg.validate.inside import Known, Outputs, claims_of_cells, scores_inside
from vbagg.validate.unions import unions


def normal_problem(seed=0):
    """Eleven bags in four unions, of unequal sizes and weights."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(11), rng.integers(2, 6, 11))
    X = rng.uniform(0, 4, (len(bag), 2)) + 0.3 * bag[:, None]
    bags = vbagg.Bags(pd.DataFrame(X, columns=["a", "b"]), bag, rng.uniform(0.5, 2.0, len(bag)))
    f = np.sin(bags.X[:, 0]) + 0.4 * bags.X[:, 1]
    y = bags.sum_by_bag(bags.weight * f) + rng.normal(0, np.sqrt(0.3 * bags.weight_squares()))
    return bags, y, np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3])


def test_outputs_are_those_of_draws_with_known_sums():
    bags, y, group = normal_problem()
    one = unions(bags, group, "g")
    kernel = vbagg.kernels.RBF(("a", "b"))
    model = vbagg.VBAgg(
        vbagg.likelihoods.Normal(tau=0.3), "identity", kernel=kernel, landmarks=one.coarse.X, hyper="point"
    ).fit(one.coarse, one.sum(y), progress=False)
    outputs = Outputs.of(model, one, Known(y))
    rng = np.random.default_rng(1)
    rows = np.arange(one.coarse.n_individuals)
    totals = model.posterior_areas(one.coarse, rows, one.part).sample(40_000, 2)
    noise = rng.normal(0, np.sqrt(0.3 * bags.weight_squares()), totals.shape)
    # given the totals, noise is that of sums that are known
    variance = 0.3 * bags.weight_squares()
    left = np.stack([one.sum(row) for row in y - totals - noise])
    drawn = totals + noise + left[:, one.of] * variance / one.sum(variance)[one.of]
    assert outputs.mean == pytest.approx(drawn.mean(axis=0), abs=0.03)
    # the covariance of a part and the sum of all is taken to be that of noise: nearly right where noise is not all
    ratio = outputs.law.std / drawn.std(axis=0)
    assert np.median(ratio) == pytest.approx(1, abs=0.05)
    assert np.sum(np.abs(ratio - 1) < 0.12) >= 10
    assert ratio.min() > 0.7
    assert ratio.max() < 1.3


def test_scores_are_those_of_a_loop():
    rng = np.random.default_rng(5)
    bag = np.repeat(np.arange(9), rng.integers(3, 7, 9))
    X = pd.DataFrame({"a": rng.normal(size=len(bag)) + 0.4 * bag, "x": bag % 3 + rng.random(len(bag)), "y": bag / 3})
    bags = vbagg.Bags(X, [f"B{a}" for a in bag], rng.uniform(20, 60, len(bag)))
    y = rng.poisson(bags.sum_by_bag(bags.weight * np.exp(0.5 * bags.X[:, 0] - 1))).astype(float)
    one = unions(bags, [0, 0, 1, 1, 1, 2, 2, 3, 4], "g")
    model = vbagg.VBAgg("poisson", hyper="point").fit(one.coarse, one.sum(y), progress=False)
    table = scores_inside(model, one, Known(y)).set_index("bag")
    assert sorted(table.index) == sorted(label for label, u in zip(bags.labels, one.of, strict=True) if u < 3)
    totals = model.posterior_areas(one.coarse, np.arange(len(bag)), one.part)
    draws = totals.law.sample(100_000, 0)
    of_sums = model.posterior_bags(one.coarse).std ** 2
    roots = np.sqrt(draws / bags.totals()).mean(axis=0)
    for a, label in enumerate(bags.labels):
        if label not in table.index:
            continue
        mates, weight, row = one.of == one.of[a], bags.totals(), table.loc[label]
        share = weight[mates] / weight[mates].sum()
        same = y[mates].sum() / weight[mates].sum()
        assert row["same_rate"] == pytest.approx(same * weight[a])
        assert row["value"] == pytest.approx(np.sqrt(y[a] / weight[a]) - share @ np.sqrt(y[mates] / weight[mates]))
        assert row["estimate"] == pytest.approx(roots[a] - share @ roots[mates], abs=0.01)
        of_union = totals.mean[a] / y[mates].sum()
        kept = 1 - of_union**2 * of_sums[one.of[a]] / totals.std[a] ** 2
        assert row["own_error"] == pytest.approx(kept * np.sqrt(draws[:, a] / weight[a]).var(), rel=0.1)
        # noise of a count given its union's: a binomial's, on the scale of square roots
        assert row["noise"] == pytest.approx((1 - of_union) / (4 * weight[a]), rel=0.05)
    assert table["mean"].sum() == pytest.approx(table["y"].sum(), rel=0.03)


def test_cells_claim_what_their_posterior_says():
    rng = np.random.default_rng(6)
    bag = np.repeat(np.arange(8), 5)
    X = pd.DataFrame({"a": rng.normal(size=40) + 0.3 * bag})
    bags = vbagg.Bags(X, bag, rng.uniform(10, 50, 40))
    y = rng.poisson(bags.sum_by_bag(bags.weight * np.exp(bags.X[:, 0]))).astype(float)
    model = vbagg.VBAgg("poisson", hyper="point").fit(bags, y, progress=False)
    cells = claims_of_cells(model, bags, most=24)
    assert len(cells) == 24
    assert cells["parts"].to_numpy() == pytest.approx(bags.effective_sizes()[bags.bag[cells["row"]]])
    root = np.sqrt(model.posterior(bags).law.sample(100_000, 1))[:, cells["row"]]
    for label, own in cells.groupby("bag"):
        at = np.flatnonzero(cells["bag"] == label)
        mean = np.average(root.mean(axis=0)[at], weights=own["exposure"])
        assert own["estimate"].to_numpy() == pytest.approx(root.mean(axis=0)[at] - mean, abs=0.01)
    assert cells["own_error"].to_numpy() == pytest.approx(root.var(axis=0), rel=0.1)
