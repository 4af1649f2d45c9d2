from types import SimpleNamespace

import jax
import numpy as np
import pytest

import vbagg
from vbagg.inference import Problem, averaging
from vbagg.inference.averaging import MEMBERS, MORE_MEMBERS, _by_effect, _effects, _gaussian, _root, _spread_out, signs
from vbagg.inference.profile import Point, Profile
from vbagg.kernels import RBF, White
from vbagg.row_rates import Members, row_marginals


@pytest.mark.parametrize("k", [1, 2, 3, 7, 8, 11, 18, 23, 40])
def test_signs_match_mean_and_covariance(k):
    design = signs(k)
    assert set(np.unique(design)) == {-1.0, 1.0}
    assert k < len(design) <= 2 * k + 4
    np.testing.assert_array_equal(design.sum(axis=0), 0.0)
    np.testing.assert_array_equal(design.T @ design, len(design) * np.eye(k))


def test_too_many_parameters_are_refused():
    with pytest.raises(ValueError, match=r"up to 59 of them; got 60\. Use hyper='point'"):
        signs(60)


def test_slopes_of_a_quadratic_give_its_gaussian(rng):
    """From a poor guess of the covariance, centre and curvature of a quadratic objective are found exactly."""
    k = 4
    root = rng.normal(size=(k, k))
    precision, top = root @ root.T + 0.8 * np.eye(k), rng.normal(0.0, 0.1, k)
    start, spread, design = top + 0.05, np.diag([0.6, 0.9, 0.5, 0.8]), signs(k)
    tried = [
        Point(x, 0.0, -precision @ (x - top), None, None, (), None) for x in (start + spread @ row for row in design)
    ]
    centre, found = _gaussian(start, spread, design, tried)
    np.testing.assert_allclose(centre, top, atol=1e-10)
    np.testing.assert_allclose(found @ found.T, np.linalg.inv(precision), rtol=1e-9, atol=1e-12)


def test_slopes_without_sense_do_not_carry_points_away(rng):
    """Curvature of the wrong sign, as noise makes it: sds grow threefold at most."""
    spread, design = np.diag([0.05, 0.1, 0.02]), signs(3)
    tried = [Point(spread @ row, 0.0, 7.0 * rng.normal(size=3) + spread @ row, None, None, (), None) for row in design]
    centre, found = _gaussian(np.zeros(3), spread, design, tried)
    in_first_sds = np.linalg.solve(spread, found)
    assert np.linalg.norm(in_first_sds, 2) < 3.0 + 1e-9
    assert np.linalg.norm(np.linalg.solve(spread, centre)) < 3.0 * np.sqrt(3) + 1e-9


def test_directions_are_sorted_by_their_effect(rng):
    spread, effect = _root(np.diag([4.0, 1.0, 9.0])), rng.normal(size=(3, 50)) * [[0.1], [5.0], [1.0]]
    sorted_ = _by_effect(spread, effect)
    np.testing.assert_allclose(sorted_ @ sorted_.T, spread @ spread.T, atol=1e-12)
    change = np.linalg.norm(sorted_.T @ effect, axis=1)
    assert (np.diff(change) < 0).all()


def test_weights_are_spread_over_as_many_points_as_asked(rng):
    even = rng.normal(0.0, 0.1, 8)
    np.testing.assert_allclose(_spread_out(even, 4.0), np.exp(even) / np.exp(even).sum())
    uneven = np.array([0.0, -1.0, -9.0, 2.0, -4.0, -3.0, -6.0, 1.5])
    weights = _spread_out(uneven, 4.0)
    assert weights.sum() == pytest.approx(1.0)
    assert 1 / np.sum(weights**2) == pytest.approx(4.0, rel=1e-2)
    assert (np.argsort(weights) == np.argsort(uneven)).all()


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(3)
    sizes = rng.integers(2, 9, 25)
    X = rng.normal(size=(sizes.sum(), 2))
    bags = vbagg.Bags(X, np.repeat(np.arange(25), sizes), rng.gamma(3.0, 0.4, sizes.sum()))
    y = rng.poisson(bags.sum_by_bag(bags.weight * 20 * np.exp(0.8 * np.sin(2 * X[:, 0])))).astype(float)
    return bags, y


def test_effects_are_those_on_means_and_on_sds(small):
    """An individual effect changes no mean, and `sd^2` by its own variance; the constant's mean changes no sd."""
    bags, y = small
    model = vbagg.VBAgg("poisson", kernel=RBF() + White(0.04), landmarks=12, hyper="point").fit(bags, y)
    fit, chunks = model._training.fit, model._training.problem.chunks
    white, step = model._fitted.optimum.white, 0.05
    with jax.enable_x64(True):
        problem = Problem.here(model._fitted.spec, chunks, fit.parameters.landmarks, 1e9)

        def point(change_of_white: float, change_of_mean: float) -> SimpleNamespace:
            smooth, (name, value) = fit.parameters.kernel[0], next(iter(fit.parameters.kernel[1].items()))
            kernel = (smooth, {name: value + change_of_white})
            q = type(fit.q)(fit.q.mu + np.eye(len(fit.q.mu))[0] * change_of_mean, fit.q.factor)
            parameters = type(fit.parameters)(kernel, {}, fit.parameters.landmarks)
            return SimpleNamespace(basis=problem.at(parameters).basis, solution=SimpleNamespace(q=q))

        design = signs(2)
        effect = _effects(problem, step * np.eye(2), design, [point(*(step * row)) for row in design])
        rows = problem.some_rows(1000)
        basis = problem.at(fit.parameters).basis
        member = Members.of([(basis, fit.q.mu, fit.q.factor)])
        _, (variance,) = row_marginals(problem.spec, member, rows, np.zeros(len(rows)))
    n = bags.n_individuals
    assert effect.shape == (2, 2 * n)
    np.testing.assert_allclose(effect[0, :n], 0.0, atol=1e-9)
    np.testing.assert_allclose(effect[1, n:], 0.0, atol=1e-9)
    np.testing.assert_allclose(effect[1, :n], model._fitted.spec.feature_map.mean_sd, rtol=1e-9)
    np.testing.assert_allclose(effect[0, n:], 0.5 * white / np.sqrt(variance), rtol=1e-2)


def test_points_do_not_depend_on_the_signs_of_axes(rng):
    """Which rounding decides."""
    spread, effect = rng.normal(size=(4, 4)), rng.normal(size=(4, 30))
    turned = _by_effect(spread, effect)
    np.testing.assert_allclose(turned @ turned.T, spread @ spread.T, rtol=1e-9)
    for signs_of_axes in ([1, -1, 1, -1], [-1, -1, 1, 1]):
        other = _by_effect(spread * signs_of_axes, effect)
        np.testing.assert_allclose(other, turned, rtol=1e-9)
    curvature = spread @ spread.T + np.eye(4)
    root = _root(curvature)
    np.testing.assert_allclose(root, root.T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(root @ root, np.linalg.inv(curvature), rtol=1e-9)


def test_little_work_is_averaged_over_more_members(small, monkeypatch):
    bags, y = small
    model = vbagg.VBAgg("poisson", landmarks=8).fit(bags, y)
    assert model.status_.points > MEMBERS or len(model.parameters_) < MEMBERS
    monkeypatch.setattr("vbagg.inference.averaging.LITTLE", 0.0)
    assert vbagg.VBAgg("poisson", landmarks=8).fit(bags, y).status_.points <= MEMBERS


def test_a_centre_that_is_far_off_ends_the_average_at_once(small, monkeypatch):
    """No point around it comes near the optimum: three of one direction and the centre itself are looked at."""
    bags, y = small
    seen, call = [], Profile.__call__
    far = averaging._gaussian

    def shifted(centre, spread, design, tried):
        seen.clear()
        return centre + 4.0, far(centre, spread, design, tried)[1] / 10

    def counted(self, x, *options, **named):
        seen.append(x)
        return call(self, x, *options, **named)

    monkeypatch.setattr(averaging, "_gaussian", shifted)
    monkeypatch.setattr(Profile, "__call__", counted)
    model = vbagg.VBAgg("poisson", landmarks=8).fit(bags, y)
    assert len(seen) == len(averaging.SHARES) + 1
    assert any("at their best values" in note for note in model.status_.notes)


def test_averages_are_wider_and_say_how_even_they_are(small):
    bags, y = small
    kernel = RBF() + White()
    point, average = (vbagg.VBAgg("poisson", kernel=kernel, hyper=hyper).fit(bags, y) for hyper in ("point", "average"))
    assert average.parameters_.equals(point.parameters_)
    assert point.status_.effective == point.status_.points == 1
    assert 1 < average.status_.effective <= average.status_.points <= MORE_MEMBERS
    weights = [member.weight for member in average._fitted.members]
    assert sum(weights) == pytest.approx(1.0)
    assert np.median(average.posterior(bags).std / point.posterior(bags).std) > 1.0


def test_more_parameters_than_an_average_takes_are_named():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 70))
    bags = vbagg.Bags(X, np.repeat(np.arange(10), 4))
    y = rng.poisson(20 * np.exp(0.3 * bags.sum_by_bag(X[:, 0]) / 4))
    kernel = RBF(ard=True, lengthscale=tuple(np.full(70, 12.0)))
    model = vbagg.VBAgg("poisson", kernel=kernel, landmarks=10, inference=vbagg.inference.Newton(max_iterations=2))
    with pytest.warns(vbagg.errors.ConvergenceWarning):
        model.fit(bags, y)
    assert model.status_.points == 1
    assert any("not averaged over: there are 71, and an average takes 59 at most" in n for n in model.status_.notes)


def test_status_tells_residual_and_noise_of_each_total(small):
    bags, y = small
    model = vbagg.VBAgg("poisson", kernel=RBF() + White(0.04, fixed="variance"), landmarks=40, hyper="point").fit(
        bags, y
    )
    total = model.posterior_bags(bags).mean
    np.testing.assert_allclose(model.status_.noise_sd, 1 / np.sqrt(total), rtol=0.2)
    # with many landmarks little but the individual effect is left: sd of the total of its rates
    rate = model.posterior(bags).mean
    own = np.sqrt(np.expm1(0.04) * bags.sum_by_bag((bags.weight * rate) ** 2)) / total
    assert (model.status_.residual_sd > 0.7 * own).all()
    assert np.median(model.status_.residual_sd / own) < 2.0


def test_large_poisson_counts_are_a_claim_of_exactness(small):
    bags, y = small
    loud = vbagg.VBAgg("poisson", kernel=RBF(), hyper="point").fit(bags, 100 * y)
    assert any("takes each for exact to" in note for note in loud.status_.notes)
    assert not vbagg.VBAgg("poisson", kernel=RBF(), hyper="point").fit(bags, y).status_.notes


def test_effects_that_cannot_be_told_apart_are_named(small):
    bags, y = small
    kernel = RBF() + White()
    mixed = vbagg.VBAgg("negative_binomial", kernel=kernel, hyper="point").fit(bags, y)
    assert not any("told apart" in note for note in mixed.status_.notes)
    alike = vbagg.Bags(bags.X[: 4 * 25], np.repeat(np.arange(25), 4))
    same = vbagg.VBAgg("negative_binomial", kernel=kernel, hyper="point").fit(alike, y)
    assert any("cannot be told apart" in note and "4 individuals" in note for note in same.status_.notes)
