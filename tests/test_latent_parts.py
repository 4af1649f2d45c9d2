"""How well parts of the latent function are known, against NumPy."""

import functools
import warnings

import numpy as np
import pandas as pd
import pytest

import vbagg
from vbagg import kernels

PLACES = ("x", "y")


@functools.cache
def country():
    """Uneven bags with two covariates and places, and counts."""
    rng = np.random.default_rng(4)
    sizes = [3, 5, 2, 6, 4, 3, 5, 4, 2, 6, 3, 5]
    n = sum(sizes)
    X = pd.DataFrame({"rain": rng.normal(2, 1.5, n), "x": rng.uniform(0, 90, n), "height": rng.gamma(2, 300, n)})
    X["y"] = rng.uniform(-40, 70, n)
    bags = vbagg.Bags(X, np.repeat(np.arange(12), sizes), rng.exponential(3, n) + 0.2)
    y = rng.poisson(bags.sum_by_bag(bags.weight * np.exp(0.4 * np.tanh(bags.X[:, 0]) + 0.01 * bags.X[:, 1])))
    return bags, y.astype(float), X


KERNELS = {
    "default": kernels.Linear(["rain", "height"])
    + kernels.RBF(["rain", "height"], ard=True)
    + kernels.Matern32(["x", "y"])
    + kernels.White(),
    "no place": kernels.RBF(["height", "rain"], ard=True) + kernels.White(),
    "place alone": kernels.Matern32(["x", "y"]) + kernels.White(),
}


@functools.cache
def model(name="default", hyper="average"):
    bags, y, _ = country()
    options = {"kernel": KERNELS[name], "landmarks": 7, "hyper": hyper}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vbagg.errors.ConvergenceWarning)
        return vbagg.VBAgg("negative_binomial", inference=vbagg.Newton(max_iterations=3, starts=1), **options).fit(
            bags, y
        )


def correlation(component, r):
    return np.exp(-0.5 * r**2) if isinstance(component, kernels.RBF) else (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r)


def by_numpy(fitted, X):
    """Mean and variance of what covariates say, prior and posterior variance of the place, of each member (k, n)."""
    state = fitted._fitted
    rows = (X.to_numpy() - state.frame.scaler.centre) / state.frame.scaler.scale
    names = list(state.frame.feature_names)
    found = []
    for member in state.members:
        columns, groups, left = [np.full((len(X), 1), member.spec.feature_map.mean_sd)], ["covariates"], {}
        prior = np.zeros(len(X))
        parts = zip(
            member.spec.feature_map.components,
            member.parameters.kernel,
            member.parameters.landmarks,
            member.jitter,
            strict=True,
        )
        for component, logs, Z, jitter in parts:
            if isinstance(component, kernels.White):
                continue
            of = rows[:, list(component.columns_used)]
            value = {name: np.exp(np.asarray(log)) for name, log in logs.items()}
            group = "place" if {names[c] for c in component.columns_used} <= set(PLACES) else "covariates"
            if isinstance(component, kernels.Linear):
                own = of * np.sqrt(value["variance"])
            else:
                scaled = [np.asarray(part) / value["lengthscale"] for part in (of, Z)]

                def k(a, b, component=component, value=value):
                    r = np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1))
                    return value["variance"] * correlation(component, r)

                K = k(scaled[1], scaled[1])
                L = np.linalg.cholesky(K + jitter * np.mean(np.diag(K)) * np.eye(len(K)))
                own = np.linalg.solve(L, k(scaled[1], scaled[0])).T
                left[group] = left.get(group, 0) + np.maximum(value["variance"] - (own**2).sum(1), 0)
                prior += value["variance"] * (group == "place")
            columns.append(own)
            groups += [group] * own.shape[1]
        A, groups = np.hstack(columns), np.array(["covariates", *groups[1:]])
        S = member.q.factor @ member.q.factor.T

        def of_group(name, A=A, groups=groups, S=S, left=left, member=member):
            here = groups == name
            variance = np.einsum("ni,ij,nj->n", A[:, here], S[np.ix_(here, here)], A[:, here])
            return A[:, here] @ member.q.mu[here], variance + left.get(name, 0)

        found.append((member.weight, *of_group("covariates"), prior, of_group("place")[1]))
    return found


@pytest.mark.parametrize("hyper", ["average", "point"])
def test_parts_are_those_of_numpy(hyper):
    fitted = model(hyper=hyper)
    X = country()[2].sample(17, random_state=3).assign(rain=lambda rows: rows["rain"] + np.linspace(-3, 9, 17))
    weight, mean, variance, prior, place = (np.array(part) for part in zip(*by_numpy(fitted, X), strict=True))
    assert (len(weight) > 1) == (hyper == "average")
    weight = (weight / weight.sum())[:, None]
    middle = (weight * mean).sum(0)
    sd = np.sqrt((weight * (variance + mean**2)).sum(0) - middle**2)
    found = fitted.latent_parts(X)
    np.testing.assert_allclose(found.covariates_sd, sd, rtol=1e-6)
    np.testing.assert_allclose(found.place_share, (weight * place).sum(0) / (weight * prior).sum(0), rtol=1e-6)


def test_what_the_model_has_not_is_not_told():
    X = country()[2]
    assert model("no place", "point").latent_parts(X).place_share is None
    assert model("place alone", "point").latent_parts(X).covariates_sd is None


def test_far_away_the_place_is_at_its_prior_and_covariates_are_not_concerned():
    X = country()[2]
    near, far = model().latent_parts(X), model().latent_parts(X.assign(x=X["x"] + 1e6))
    np.testing.assert_allclose(far.place_share, 1, rtol=1e-6)
    assert (near.place_share < 1).all()
    np.testing.assert_array_equal(near.covariates_sd, far.covariates_sd)


def test_what_covariates_say_is_known_less_and_less_beyond_the_data():
    X = country()[2].iloc[[5]]
    steps = pd.concat([X.assign(height=height) for height in (3000, 5000, 8000, 20000)])
    sd = model().latent_parts(steps).covariates_sd
    assert (np.diff(sd) > 0).all()
    assert sd[0] > model().latent_parts(country()[2]).covariates_sd.mean()


def test_without_linear_terms_the_sd_ends_at_that_of_the_constant_and_the_prior():
    fitted = model("no place", "point")
    (member,) = fitted._fitted.members
    X = country()[2].assign(height=1e9)
    prior = float(np.exp(member.parameters.kernel[0]["variance"]))
    S = member.q.factor @ member.q.factor.T
    constant = member.spec.feature_map.mean_sd**2 * S[0, 0]
    np.testing.assert_allclose(fitted.latent_parts(X).covariates_sd ** 2, constant + prior, rtol=1e-6)


def test_blocks_of_rows_are_put_together():
    X = pd.concat([country()[2]] * 60, ignore_index=True)
    assert len(X) > 2048
    own = model().latent_parts(country()[2])
    found = model().latent_parts(X)
    np.testing.assert_allclose(found.covariates_sd, np.tile(own.covariates_sd, 60), rtol=1e-9)
    np.testing.assert_allclose(found.place_share, np.tile(own.place_share, 60), rtol=1e-9)
