"""Models that are told how much of outputs is reported, and how far off weights may be."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from uneven_bags import toy

import vbagg
from vbagg import kernels
from vbagg.models.reporting import told_of
from vbagg.validate import cross_validate

ADAM = vbagg.Adam(epochs=4)
KERNEL = kernels.RBF() + kernels.White()
MODELS = {
    "vbagg": vbagg.VBAgg(kernel=KERNEL, landmarks=6, inference=vbagg.Newton(starts=1), hyper="point"),
    "nystrom": vbagg.Nystrom(landmarks=5, inference=ADAM),
    "network": vbagg.ManifoldNN(hidden=3, inference=ADAM),
    "bagpixel": vbagg.BagPixel(landmarks=5, inference=ADAM),
    "glm": vbagg.BagGLM("negative_binomial"),
    "constant": vbagg.Constant("negative_binomial"),
}
C = np.array([0.5, 0.9, 0.35, 0.75, 1.0, 0.6, 0.8, 0.45, 0.95, 0.7])


def clone(name):
    from sklearn.base import clone

    return clone(MODELS[name])


def thinned():
    bags, y, _ = toy()
    return bags, np.floor(12 * y * C)


@pytest.mark.filterwarnings("ignore::vbagg.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_outputs_reported_in_part_are_those_of_fewer_people(name):
    """Weights times completeness give the same rates: a Poisson process that is thinned."""
    bags, y = thinned()
    fewer = bags.with_arrays(weight=bags.weight * C[bags.bag])
    told, other = clone(name).fit(bags, y, completeness=C), clone(name).fit(fewer, y)
    rtol = 2e-3 if name in ("nystrom", "network", "bagpixel") else 2e-6
    np.testing.assert_allclose(told.rate_scale_, other.rate_scale_, rtol=1e-12)
    np.testing.assert_allclose(told.posterior(bags.X).mean, other.posterior(fewer.X).mean, rtol=rtol)
    for key, value in other.likelihood_parameters_.items():
        assert told.likelihood_parameters_[key] == pytest.approx(value, rel=rtol * 10)
    ours, theirs = told.predictive_bags(bags, completeness=C), other.predictive_bags(fewer)
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=rtol)
    np.testing.assert_allclose(ours.std, theirs.std, rtol=rtol * 10)
    # all that occurs, where nothing is said of completeness
    np.testing.assert_allclose(told.predict(bags), other.predict(bags), rtol=rtol)
    assert told.score(bags, y, completeness=C) == pytest.approx(other.score(fewer, y), rel=1e-3)


def test_totals_and_cells_are_those_of_all_that_occurs():
    bags, y = thinned()
    fewer = bags.with_arrays(weight=bags.weight * C[bags.bag])
    told, other = clone("vbagg").fit(bags, y, completeness=C), clone("vbagg").fit(fewer, y)
    assert told.elbo_ == pytest.approx(other.elbo_, rel=1e-9)
    for ours, theirs, share in (
        (told.posterior(bags), other.posterior(fewer), 1.0),
        (told.posterior_bags(bags), other.posterior_bags(fewer), C),
    ):
        np.testing.assert_allclose(share * ours.mean, theirs.mean, rtol=1e-5)
        np.testing.assert_allclose(share * ours.quantile([0.1, 0.9]), theirs.quantile([0.1, 0.9]), rtol=1e-5)
    np.testing.assert_allclose(told.status_.noise_sd, other.status_.noise_sd, rtol=1e-5)
    np.testing.assert_allclose(told.status_.residual_sd, other.status_.residual_sd, rtol=1e-5)


def far_off():
    """Many like bags whose weights are wrong by known relative sds."""
    rng = np.random.default_rng(12)
    n_bags, each = 60, 2
    X = pd.DataFrame({"rain": rng.normal(size=n_bags * each), "height": rng.normal(size=n_bags * each)})
    given = rng.uniform(40.0, 160.0, n_bags * each)
    bags = vbagg.Bags(X, np.repeat(np.arange(n_bags), each), given)
    sd = np.where(np.arange(n_bags) % 2, 0.5, 0.02)
    off = rng.gamma(1 / sd**2) * sd**2
    f = 0.4 * X["rain"].to_numpy() + rng.normal(0.0, 0.5, n_bags * each)
    y = rng.poisson(off * bags.sum_by_bag((given * np.exp(f))[bags.rows])).astype(float)
    return bags, y, sd


@pytest.fixture(scope="module")
def unsure():
    bags, y, sd = far_off()
    model = vbagg.VBAgg("poisson", kernel=KERNEL, landmarks=12, inference=vbagg.Newton(starts=1), hyper="point")
    from sklearn.base import clone

    return bags, y, sd, clone(model).fit(bags, y, weight_sd=sd), clone(model).fit(bags, y)


def test_errors_of_weights_are_not_part_of_the_risk(unsure):
    """Bags whose weights may be off tell less of their cells: these go back towards what other bags say of them."""
    bags, _, sd, told, _ = unsure
    loose = (sd > 0.1)[bags.bag]
    inside, new = told.posterior(bags), told.posterior(bags.X)
    kept = inside.std / new.std
    assert np.median(kept[loose]) > np.median(kept[~loose]) + 0.05
    shift = np.abs(np.log(inside.mean / new.mean))
    assert np.median(shift[loose]) < 0.75 * np.median(np.abs(np.log(unsure[4].posterior(bags).mean / new.mean))[loose])


def test_effects_that_errors_explain_are_not_learnt(unsure):
    """White variation of cells would have to be large for totals to be so far off."""
    *_, told, silent = unsure
    white = {name: m._best.white for name, m in (("told", told), ("silent", silent))}
    assert white["told"] < 0.5 * white["silent"]


def test_new_bags_are_exact_unless_it_is_said(unsure):
    bags, y, sd, told, _ = unsure
    exact, off = told.predictive_bags(bags), told.predictive_bags(bags, weight_sd=0.5)
    np.testing.assert_allclose(exact.mean, off.mean, rtol=1e-6)
    np.testing.assert_allclose(off.std**2, exact.std**2 + 0.25 * (exact.std**2 - exact.mean + exact.mean**2), rtol=1e-4)
    drawn = off.sample(4000, 3)
    np.testing.assert_allclose(drawn.std(axis=0), off.std, rtol=0.2)
    assert told.score(bags, y, weight_sd=sd) > told.score(bags, y) + 0.1


def test_it_goes_with_bounds_and_gaps():
    bags, y = thinned()
    lower, upper = np.where(y < 9, 0.0, y), np.where(y < 9, 8.0, np.nan)
    lower[4], completeness, sd = np.nan, pd.Series(C, bags.labels), np.full(len(y), 0.2)
    completeness.iloc[4] = sd[4] = np.nan
    for name in ("vbagg", "glm", "constant"):
        model = clone(name).fit(bags, lower, upper=upper, completeness=completeness[::-1], weight_sd=sd)
        assert np.isfinite(model.posterior(bags.X).mean).all()
        found = model.score(bags, lower, upper=upper, completeness=completeness, weight_sd=sd)
        assert np.isfinite(found)
        assert found > model.score(bags, lower, upper=upper) - 5
        assert (model.predictive_bags(bags, completeness=0.5).mean < model.predict(bags)).all()


@pytest.mark.filterwarnings("ignore::vbagg.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_predicts_the_same(name, tmp_path):
    bags, y = thinned()
    model = clone(name).fit(bags, y, completeness=C, weight_sd=0.3)
    model.save(tmp_path / "model")
    again = vbagg.load(tmp_path / "model")
    for one, other in (
        (model.posterior(bags), again.posterior(bags)),
        (model.posterior_bags(bags), again.posterior_bags(bags)),
        (model.predictive_bags(bags, weight_sd=0.1), again.predictive_bags(bags, weight_sd=0.1)),
    ):
        np.testing.assert_array_equal(one.mean, other.mean)


@pytest.mark.parametrize("likelihood", ["normal", "exponential", "zero_inflated_poisson", "poisson"])
def test_every_likelihood_that_has_a_total_can_be_told(likelihood):
    """By draws the objective is what it is by the matched distribution."""
    bags, y = thinned()
    y = y + 0.5 if likelihood in ("normal", "exponential") else y
    model = clone("vbagg").set_params(likelihood=likelihood).fit(bags, y, completeness=C, weight_sd=0.3)
    assert model.status_.converged
    assert model.elbo_mc_ == pytest.approx(model.elbo_, abs=0.5)


def test_validation_is_told_too():
    bags, y = thinned()
    models = {"glm": vbagg.BagGLM("negative_binomial")}
    options = {"folds": np.arange(10) % 3, "baselines": None}
    found = cross_validate(models, bags, y, completeness=C, weight_sd=0.2, **options)
    assert not found.failures
    table = found.table.set_index("bag").loc[list(bags.labels)]
    np.testing.assert_allclose(table["exposure"], bags.totals() * C)
    fold = options["folds"] == 1
    model = vbagg.BagGLM("negative_binomial").fit(bags[~fold], y[~fold], completeness=C[~fold], weight_sd=0.2)
    law = model.predictive_bags(bags[fold], completeness=C[fold], weight_sd=0.2)
    np.testing.assert_allclose(table["mean"].to_numpy()[fold], law.mean)
    np.testing.assert_allclose(table["log_density"].to_numpy()[fold], law.log_prob(y[fold]))

    class Deaf(vbagg.BagGLM):
        def fit(self, bags, y):
            return super().fit(bags, y)

    with pytest.raises(ValueError, match="`completeness` must be taken by `fit` of every model; that of 'deaf' does"):
        cross_validate({"deaf": Deaf()}, bags, y, completeness=C, **options)


def test_what_is_told_must_be_possible():
    bags, y = thinned()
    model = vbagg.Constant()
    for completeness, message in (
        (100 * C, r"above 0 and at most 1; got 50 for bag '.*' \(10 such bags\)\. Divide percentages by 100\."),
        (np.where(C == 1, 0.0, C), r"got 0 for bag '.*' \(1 such bags\)\. Give NaN for `y` where nothing was reported"),
        (np.where(C == 1, np.nan, C), r"must be known where outputs are; got nan for bag '.*'\. Give 1 where all"),
        (C[:3], "one number per bag, 10 in all"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(bags, y, completeness=completeness)
    for sd, message in (
        (-0.2, r"from 0 to 1 \(0\.1 for 10%\); got -0\.2 for bag .* A standard deviation has no sign\."),
        (55.0, r"got 55 for bag .* Divide by the bag's weight, `bags\.totals\(\)`\."),
        (
            np.where(C == 1, np.nan, C),
            r"`weight_sd` must be known where outputs are; .* Give 0 where weights are exact",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(bags, y, weight_sd=sd)
    trials = np.full(len(y), y.max() + 3)
    with pytest.raises(ValueError, match="`weight_sd` does not go with likelihood 'beta_binomial': the number"):
        vbagg.VBAgg("beta_binomial").fit(bags, y, trials, weight_sd=0.1)
    with pytest.raises(ValueError, match="`approximation`='bound' does not go with `weight_sd`"):
        vbagg.VBAgg("poisson", approximation="bound").fit(bags, y, weight_sd=0.1)


def test_the_page_works_from_beginning_to_end(capsys):
    page = (Path(__file__).parents[2] / "docs" / "incomplete-reports-and-uncertain-people.md").read_text()
    names: dict = {}
    for text in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(text, names)
    correlation, score = map(float, capsys.readouterr().out.split())
    assert correlation > 0.9
    assert -10 < score < 0
    assert set(names["model"]._fitted.observed.facts) == {"completeness", "exposure_spread"}


def test_figures_of_the_page_are_those_of_the_study():
    root = Path(__file__).parents[2]
    rows = json.loads((root / "benchmarks" / "results" / "uncertain_people.json").read_text())["rows"]
    table = pd.json_normalize(rows).groupby(["case", "way"])[["cells.error", "cells.coverage", "new.crps"]].mean()
    page = (root / "docs" / "incomplete-reports-and-uncertain-people.md").read_text()
    assert page.count("% |\n") == len(table) == 9
    for error, coverage, crps in table.to_numpy():
        assert re.search(rf"\| {error:.1f} \| {100 * coverage:.0f}% \| \d+ \| [\d.]+, \d+% \| {crps:.1f}, ", page)


def test_one_number_stands_for_all_bags():
    bags, _ = thinned()
    told = told_of(bags, 0.8, 0.2)
    np.testing.assert_array_equal(told["completeness"], np.full(10, 0.8))
    np.testing.assert_allclose(told["exposure_spread"], np.full(10, 0.04))
    assert told_of(bags, None, None) == {}
