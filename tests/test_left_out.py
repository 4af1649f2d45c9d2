"""A bag's own output taken out of the posterior, against fits without it at the same parameters."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import vbagg
from vbagg.conditioning import Moments
from vbagg.elbo import Parameters, Spec
from vbagg.inference import Problem
from vbagg.inference.mode import linearised
from vbagg.inference.weights import promised_gain, refine_weights, solve_weights
from vbagg.left_out import LeftOut, leave_out
from vbagg.likelihoods import Poisson
from vbagg.links import get_link
from vbagg.models.predicted import Plan

N = 32
ODD, LOW = 3, 7
ASKED = [0, ODD, LOW, 8, 11]
"""Bags that fits are made without."""


def simulated(kind, seed=0):
    """Bags in two columns with a smooth rate, their outputs (one of them far too large) and how to fit them."""
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(N), rng.integers(1, 9, N))
    X = rng.uniform(0, 9, (N, 2))[label] + rng.normal(0, 0.4, (len(label), 2))
    bags = vbagg.Bags(X, label, rng.gamma(2.0, 0.5, len(label)))
    f = np.sin(0.8 * bags.X[:, 0]) + 0.5 * np.cos(bags.X[:, 1])
    if kind == "binomial":
        share = bags.weight / bags.totals()[bags.bag]
        trials = rng.integers(5, 60, N).astype(float)
        y = rng.binomial(trials.astype(int), bags.sum_by_bag(share / (1 + np.exp(1 - f)))).astype(float)
        y[ODD] = trials[ODD]
        return bags, y, {"trials": trials}
    T = bags.sum_by_bag(bags.weight * 4 * np.exp(0.8 * f))
    if kind == "normal":
        y = bags.sum_by_bag(bags.weight * (f + 3)) + rng.normal(0, 0.5, N)
        y[ODD] += 6
        return bags, y, {}
    y = rng.poisson(T * (rng.gamma(5, 0.2, N) if kind == "negative_binomial" else 1)).astype(float)
    y[ODD], y[LOW] = 4 * y[ODD], y[LOW] // 5
    if kind == "suppressed":
        hidden = y < np.quantile(y, 0.4)
        return bags, np.where(hidden, 0, y), {"upper": np.where(hidden, y.max() / 3 // 1, np.nan)}
    return bags, y, {}


def refits(model):
    """Gives the member of a model with one set of parameters as it would be without the output of a bag."""
    member = model._fitted.members[0]

    def staged(bag=None):
        chunks = [
            replace(chunk, X=np.asarray(chunk.X, np.float64), valid=np.where(chunk.position == bag, 0.0, chunk.valid))
            for chunk in model._training.problem.chunks
        ]
        problem = Problem.here(member.spec, chunks, member.parameters.landmarks, 0.0)
        return problem.at(member.parameters, member.jitter)

    whole = solve_weights(staged())

    def without(bag):
        problem = staged(bag)
        best = max((solve_weights(problem, warm) for warm in (None, whole)), key=lambda found: found.elbo)
        for _ in range(6):
            best = refine_weights(problem, best, 1e-6)
        assert promised_gain(problem, best.q) < 0.05
        return replace(member, q=linearised(problem, best.q))

    return without


def coordinate(member, plan):
    """Mean of `h` of all bags, its variance under the weights, and the residual's."""
    found = plan.moments(member)
    whole = found.V_q + found.s
    eta, variance = member.spec.link.coordinate_moments(found.M, whole)
    return np.array([eta, variance * found.V_q / whole, variance * found.s / whole])


# kind, likelihood, link, error of the mean as a share of what is taken out, of the variance under the weights
CASES = [
    ("normal", "normal", "identity", 1e-4, 1e-4),
    ("poisson", "poisson", "exp", 0.4, 0.3),
    ("negative_binomial", "negative_binomial", "exp", 0.2, 0.2),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (
            ("binomial", "binomial", "logistic", 0.4, 0.3),
            ("suppressed", "poisson", "exp", 0.4, 0.3),
            ("poisson", "poisson", "square", 0.4, 0.35),
            ("poisson", "exponential", "exp", 0.2, 0.2),
            ("poisson", "zero_inflated_poisson", "exp", 0.4, 0.3),
            ("binomial", "beta_binomial", "logistic", 0.3, 0.2),
        )
    ),
]


@pytest.mark.parametrize(("kind", "likelihood", "link", "off", "wide"), CASES)
def test_it_is_what_a_fit_without_the_bag_gives(x64, kind, likelihood, link, off, wide):
    bags, y, also = simulated(kind)
    y = y + 0.5 if likelihood == "exponential" else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = vbagg.VBAgg(likelihood, link, landmarks=12, hyper="point").fit(bags, y, **also)
    fitted = model._fitted
    member, plan, outputs = fitted.members[0], fitted._plan(bags, None), fitted._outputs(bags, None)
    found = leave_out(member.spec, plan.moments(member), member.q.factor, outputs.y, outputs.facts, member.parameters)
    # other moments than those that the plan keeps
    again = Plan(plan.ready, plan.known, fitted._options)
    without = refits(model)
    refitted = np.stack([coordinate(without(bag), again)[:, bag] for bag in ASKED], axis=1)
    with_it = coordinate(member, plan)[:, ASKED]
    sd = np.sqrt(refitted[1] + refitted[2])
    error, before = (found.eta[ASKED] - refitted[0]) / sd, (with_it[0] - refitted[0]) / sd
    assert np.abs(before).max() > 0.4  # outputs do pull
    # a far outlier moves where the others are linear, too
    assert (np.abs(error) < off * (0.75 + np.abs(before))).all()
    np.testing.assert_allclose(found.kappa[ASKED], refitted[1], rtol=wide)
    taken_out, left = (np.abs(np.log(kappa / refitted[1])).mean() for kappa in (with_it[1], found.kappa[ASKED]))
    assert taken_out > 0.05
    assert left < 0.5 * taken_out
    np.testing.assert_allclose(found.own[ASKED], refitted[2], rtol=0.4)


def test_without_an_output_nothing_is_taken_out(x64):
    bags, y, _ = simulated("negative_binomial")
    y[[2, 9]] = np.nan
    model = vbagg.VBAgg("negative_binomial", landmarks=12, hyper="point").fit(bags, y)
    found, new = model.bag_effects(bags), model.predictive_bags(bags)
    for q in (0.1, 0.5, 0.9):
        np.testing.assert_allclose(found.from_others.quantile(q)[[2, 9]], new.quantile(q)[[2, 9]])
    assert (found.from_others.mean[[0, ODD]] != new.mean[[0, ODD]]).all()


def test_it_is_never_less_certain_than_the_prior(x64):
    """An output that tells all there is to know of its coordinate leaves the prior behind."""
    spec = Spec(None, Poisson(), get_link("exp"), "matched")
    directions = np.array([[30.0, 40.0], [6.0, -8.0]])
    M = np.array([100.0, 20.0])
    posterior = 1e-3 * np.eye(2)
    V_q = np.sum((directions @ posterior) ** 2, axis=1)
    found = Moments(M, V_q, 0.01 * M, directions, {})
    nothing = Parameters((), {}, ())
    # more is known than one count can tell, so that little is taken back; and less, so that there is nothing left
    precise, rough = (
        leave_out(spec, replace(found, V_q=V_q * scale), posterior * np.sqrt(scale), M, {}, nothing)
        for scale in (1.0, 1e6)
    )
    np.testing.assert_allclose(precise.kappa, V_q / M**2, rtol=1e-3)
    prior = np.sum((directions / M[:, None]) ** 2, axis=1)
    shares = prior / np.sum((directions @ posterior / M[:, None]) ** 2 * 1e6, axis=1)
    assert (rough.kappa <= np.log1p((V_q * 1e6 + found.s) / M**2) * np.maximum(shares, 1.0) * (1 + 1e-9)).all()


def test_totals_follow_the_family_of_new_ones():
    for link, h in (("exp", [1.2, -0.4]), ("square", [1.2, 0.4]), ("identity", [1.2, -0.4]), ("logistic", [1.2, -0.4])):
        chosen = get_link(link)
        law = LeftOut(np.array(h), np.array([0.02, 0.3]), np.array([0.05, 0.01])).total_law(chosen)
        back = chosen.coordinate_moments(law.mean, law.std**2)
        np.testing.assert_allclose(back[0], h, rtol=1e-4)
        np.testing.assert_allclose(back[1], [0.07, 0.31], rtol=1e-4)
        assert isinstance(law, chosen.total_law)
