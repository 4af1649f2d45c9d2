from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from test_moments import FEATURE_MAP, make_example

import vbagg
from vbagg.bags import Bags
from vbagg.elbo import Parameters, Spec
from vbagg.errors import ConvergenceWarning
from vbagg.inference import Adam, Gaussian, Inference, Newton, Problem, get_inference, passes
from vbagg.inference import newton as newton_module
from vbagg.inference.adam import last_rise, merge_chunks
from vbagg.inference.averaging import signs
from vbagg.inference.mode import laplace_start
from vbagg.inference.profile import solve_in_full
from vbagg.inference.result import Fit, FlatParameters, Status, choose
from vbagg.inference.search import maximise
from vbagg.inference.weights import solve_weights
from vbagg.likelihoods import NegativeBinomial, Normal, Poisson
from vbagg.links import get_link
from vbagg.models.layout import Layout
from vbagg.priors import make_log_prior
from vbagg.row_rates import Members, row_marginals


def test_search_finds_the_top_of_a_noisy_quadratic():
    centre, Q = np.array([1.7, -2.4, 0.3]), np.array([[9.0, 2.0, 0.0], [2.0, 1.0, 0.1], [0.0, 0.1, 40.0]])
    roughness = np.random.default_rng(0)

    def objective(x, needed, stake):
        value = -0.5 * (x - centre) @ Q @ (x - centre) + roughness.uniform(-4e-4, 4e-4)
        return value, -Q @ (x - centre) + roughness.normal(0.0, 1e-3, 3)

    result = maximise(objective, np.zeros(3))
    assert result.converged
    assert result.reason == ""
    assert -0.5 * (result.x - centre) @ Q @ (result.x - centre) > -0.01


def test_search_follows_a_curved_valley_to_its_end():
    def objective(x, needed, stake):
        bend = x[1] - x[0] ** 2
        return -((2 - x[0]) ** 2) - 20 * bend**2, np.array([2 * (2 - x[0]) + 80 * x[0] * bend, -40 * bend])

    result = maximise(objective, np.array([-1.5, 1.0]), tolerance=1e-4)
    assert result.converged
    np.testing.assert_allclose(result.x, [2.0, 4.0], atol=0.1)


def test_search_stops_at_once_where_the_function_is_flat():
    start = np.array([0.4, -0.7])
    result = maximise(lambda x, needed, stake: (-3.0, np.zeros(2)), start)
    assert (result.converged, result.iterations, result.value) == (True, 0, -3.0)
    np.testing.assert_array_equal(result.x, start)


def test_search_moves_only_along_directions_that_matter():
    result = maximise(
        lambda x, needed, stake: (-((x[0] - 2) ** 2), np.array([-2 * (x[0] - 2), 0.0])), np.array([-1.0, 5.0])
    )
    assert result.converged
    np.testing.assert_allclose(result.x, [2.0, 5.0], atol=0.08)


def test_search_steps_back_from_where_the_objective_is_not_finite():
    def objective(x, needed, stake):
        return (np.log(x[0]) - 8 * x[0], 1 / x - 8) if x[0] > 0 else (-np.inf, np.zeros(1))

    result = maximise(objective, np.array([0.9]))
    assert result.converged
    assert result.x[0] == pytest.approx(1 / 8, rel=0.15)


def test_search_says_why_it_failed():
    def rising(x, needed, stake):
        return float(x.sum()), np.ones(2)

    assert "used its 4 iterations" in maximise(rising, np.zeros(2), max_iterations=4).reason
    assert "not finite at the start" in maximise(lambda x, needed, stake: (np.nan, x), np.zeros(2)).reason
    cliff = maximise(lambda x, needed, stake: (-100.0 * (x != 0).any(), np.ones(2)), np.zeros(2))
    assert not cliff.converged
    assert "no step improves" in cliff.reason


def test_search_stops_on_request_and_with_nothing_to_search():
    def objective(x, needed, stake):
        return -float((x - 3) @ (x - 3)), -2 * (x - 3)

    assert maximise(objective, np.zeros(1), stop=lambda x, value, promise: x[0] > 0.2).x[0] < 2.0
    assert maximise(lambda x, needed, stake: (1.5, x), np.zeros(0)).converged


def test_search_says_what_a_step_must_reach_and_uses_nothing_of_those_that_do_not():
    asked = []

    def objective(x, needed, stake):
        value = -(float(x @ x) ** 2)
        asked.append((needed, value))
        return (value, -4 * x * (x @ x)) if value > needed else (needed - 1e3, np.full(2, np.nan))

    result = maximise(objective, np.array([2.0, -1.0]), typical_variance=1.0, first_step=5.0)
    assert result.converged
    assert np.abs(result.x).max() < 0.4
    assert asked[0][0] == -np.inf
    assert any(value < needed for needed, value in asked[1:])
    assert all(needed > -25.1 for needed, _ in asked[1:])


def test_search_says_what_is_at_stake_at_a_point():
    """The gain that the slope at the best point so far promises for the step from there."""
    best, slope = None, None

    def objective(x, needed, stake):
        nonlocal best, slope
        assert stake == (np.inf if best is None else pytest.approx(slope @ (x - best)))
        value = -float(np.cosh(x).sum())
        if value > needed:
            best, slope = np.array(x), -np.sinh(x)
        return value, -np.sinh(x)

    assert maximise(objective, np.array([2.0, -1.0]), typical_variance=4.0, first_step=5.0).converged


def problem_of(example, likelihood, link, approximation="matched", facts=None, inside=1.0):
    spec = Spec(FEATURE_MAP, likelihood, get_link(link), approximation, inside)
    return Problem.here(spec, example.chunks("exact", facts=facts), example.landmarks, memory=1e9)


CASES = {
    "poisson-square": (Poisson(), "square", {}),
    "negative_binomial-exp": (NegativeBinomial(), "exp", {"dispersion": np.log(0.4)}),
}
each_case = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module")
def example():
    """Few counts, so that the mode is not the mean."""
    found = make_example()
    return replace(found, y=np.array([0.0, 9.0, 1.0, 3.0, 2.0]))


@pytest.fixture(scope="module")
def solved(example):
    """Each case's problem, its parameters and its solution."""
    found = {}
    with jax.enable_x64(True):
        for name, (likelihood, link, p) in CASES.items():
            problem = problem_of(example, likelihood, link)
            parameters = Parameters(example.kernel, p, example.landmarks)
            staged = problem.at(parameters)
            found[name] = problem, staged, solve_weights(staged, tolerance=1e-7)
    return found


def slopes_by_differences(staged, q, step=5e-3):
    """Derivatives of the ELBO in the mean and in the entries of the triangular factor."""
    m = len(q.mu)
    entries = [(i, j) for i in range(m) for j in range(i + 1)]

    def moved(k, by):
        mu, factor = q.mu.copy(), q.factor.copy()
        if k < m:
            mu[k] += by
        else:
            factor[entries[k - m]] += by
        return staged.elbo(Gaussian(mu, factor))

    return np.array([(moved(k, step) - moved(k, -step)) / (2 * step) for k in range(m + len(entries))])


@each_case
def test_gradient_vanishes_at_the_solution(x64, solved, name):
    _, staged, solution = solved[name]
    assert solution.converged
    assert np.abs(slopes_by_differences(staged, solution.q)).max() < 5e-3
    start = laplace_start(staged, [np.zeros(7)])
    assert np.abs(slopes_by_differences(staged, start)).max() > 0.05


@each_case
def test_solution_improves_on_the_laplace_start(x64, solved, name):
    _, staged, solution = solved[name]
    assert solution.elbo == pytest.approx(staged.elbo(solution.q), abs=1e-4)
    assert solution.elbo > staged.elbo(laplace_start(staged, [np.zeros(7)])) + 1e-3


@each_case
def test_evaluate_gives_the_elbo_and_its_gradients(x64, example, solved, name):
    """Away from the optimum."""
    _, staged, _ = solved[name]
    q = Gaussian(example.mu, example.factor)
    value, d_mu, d_factor, terms = staged.evaluate(q)
    assert value == pytest.approx(staged.elbo(q), rel=1e-6)
    assert terms.sum() - q.kl() == pytest.approx(value)
    of_divergence = np.concatenate([q.mu, (q.factor - np.diag(1 / np.diag(q.factor)))[np.tril_indices(7)]])
    data_slopes = slopes_by_differences(staged, q) + of_divergence
    np.testing.assert_allclose(np.concatenate([d_mu, d_factor[np.tril_indices(7)]]), data_slopes, rtol=1e-2, atol=1e-2)
    np.testing.assert_array_equal(d_factor, np.tril(d_factor))


@each_case
def test_warm_start_finds_the_same_solution_faster(x64, solved, name):
    problem, staged, cold = solved[name]
    parameters = staged.parameters
    kernel = (parameters.kernel[0], {**parameters.kernel[1], "variance": np.log(0.95)}, parameters.kernel[2])
    near = problem.at(replace(parameters, kernel=kernel))
    warm, again = solve_weights(near, cold, tolerance=1e-6), solve_weights(near, tolerance=1e-6)
    assert warm.elbo == pytest.approx(again.elbo, abs=1e-4)
    assert warm.steps <= again.steps


@each_case
def test_a_displacement_that_leads_astray_is_dropped(x64, solved, name):
    problem, staged, cold = solved[name]
    far = replace(cold, q=Gaussian(cold.q.mu + 3.0, 5 * cold.q.factor))
    before = problem.evaluations
    solve_weights(staged, tolerance=1e-6)
    needed = problem.evaluations - before
    found = solve_weights(staged, far, tolerance=1e-6)
    assert found.elbo == pytest.approx(cold.elbo, abs=1e-4)
    assert problem.evaluations - before <= 2 * needed + 2


@pytest.mark.parametrize("inside", [0.0, 1.0])
def test_normal_is_solved_at_once_in_closed_form(x64, example, inside):
    """Variances of totals given the weights are noise as well."""
    noise = np.array([0.5, 2.0, 1.0, 0.7, 3.0])
    problem = problem_of(example, Normal(tau=1.0), "identity", facts={"noise": noise}, inside=inside)
    staged = problem.at(example.parameters)
    solution = solve_weights(staged)
    assert solution.converged
    assert solution.steps == 1
    G = np.array([w @ A for w, _, _, _, A in example.latent])
    residual = np.array([w @ (S - low) @ w for w, _, S, low, _ in example.latent])
    assert residual.max() > 0.1
    s2 = noise + inside * residual
    offset = np.array([w @ (m - A @ example.mu) for w, m, _, _, A in example.latent])
    precision = np.eye(7) + G.T @ (G / s2[:, None])
    np.testing.assert_allclose(np.linalg.inv(solution.q.covariance), precision, rtol=1e-5, atol=1e-6)
    expected = np.linalg.solve(precision, G.T @ ((example.y - offset) / s2))
    np.testing.assert_allclose(solution.q.mu, expected, rtol=1e-5, atol=1e-6)


@each_case
def test_parameter_slopes_are_those_of_the_maximised_elbo(x64, solved, name):
    """Kernel parameters, dispersion and landmarks; `q` solved anew at each point of the differences."""
    problem, staged, solution = solved[name]
    flags = jax.tree.map(lambda leaf: True, staged.parameters)
    flat = FlatParameters(staged.parameters, flags)
    x, slopes = flat.ravel(staged.parameters), flat.ravel(staged.parameter_slopes(solution.q))
    assert len(x) == 6 + 8 + len(staged.parameters.likelihood)

    def maximised(x):
        return solve_weights(problem.at(flat.unravel(x), staged.jitter), solution, tolerance=1e-8).elbo

    step = 0.01
    differences = [(maximised(x + step * e) - maximised(x - step * e)) / (2 * step) for e in np.eye(len(x))]
    np.testing.assert_allclose(slopes, differences, rtol=1e-2, atol=2e-3)
    assert (np.abs(slopes) > 4e-3).sum() > 8


@each_case
def test_pieces_of_a_chunk_add_up(x64, solved, name, monkeypatch):
    """Features, terms and all slopes are those of the whole chunk, whose bags are cut into runs."""
    problem, staged, solution = solved[name]

    def everything():
        jax.clear_caches()
        again = Problem.here(problem.spec, problem.chunks, staged.parameters.landmarks, 1e9)
        again = again.at(staged.parameters, staged.jitter)
        found = again.evaluate(solution.q)
        return (*found, *jax.tree.leaves(again.parameter_slopes(solution.q)))

    whole, cut = everything(), []
    assert max(passes._pieces(chunk, 7) for chunk in problem.chunks) == 1
    monkeypatch.setattr(passes, "LITTLE_ROOM", 30.0)
    assert max(passes._pieces(chunk, 7) for chunk in problem.chunks) > 1
    cut = everything()
    for own, expected in zip(cut, whole, strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-5, atol=1e-5)
    jax.clear_caches()


def test_slopes_do_not_depend_on_what_is_kept(x64, solved):
    problem, staged, solution = solved["negative_binomial-exp"]
    found = []
    for memory in (1e9, 0.0):
        again = Problem.here(problem.spec, problem.chunks, staged.parameters.landmarks, memory)
        found.append(jax.tree.leaves(again.at(staged.parameters, staged.jitter).parameter_slopes(solution.q)))
        assert bool(again.sums.objects[0]._kept) == (memory > 0)
    for own, other in zip(*found, strict=True):
        np.testing.assert_array_equal(own, other)


def test_solve_reports_parameters_that_overflow(x64, solved):
    """A trial step of the search may try any variance: the answer must be a bad value, not an error."""
    problem, staged, _ = solved["negative_binomial-exp"]
    huge = (
        staged.parameters.kernel[0],
        {**staged.parameters.kernel[1], "variance": np.log(1e3)},
        staged.parameters.kernel[2],
    )
    solution = solve_weights(problem.at(replace(staged.parameters, kernel=huge)))
    assert not np.isfinite(solution.elbo)


class Quadratic:
    """Log posterior with its mode at 1, defined near zero only."""

    def __init__(self, reach):
        self.reach = reach

    def gauss_newton(self, v):
        if np.abs(v).max() > self.reach:
            return 0.0, np.ones(2), np.array([[1.0, 2.0], [2.0, 1.0]])  # not a precision
        return -0.5 * float(np.sum((v - 1) ** 2)), 1 - v, np.diag([1.0, 2.0])


def test_a_useless_start_of_the_mode_is_replaced_by_zero():
    found = laplace_start(Quadratic(5.0), [np.full(2, 70.0)])
    np.testing.assert_allclose(found.mu, 1.0, atol=0.1)
    np.testing.assert_allclose(found.covariance, np.diag([1.0, 0.5]))


def test_the_mode_is_sought_from_the_better_start():
    tried = []

    class Watched(Quadratic):
        def gauss_newton(self, v):
            tried.append(float(v[0]))
            return super().gauss_newton(v)

    laplace_start(Watched(5.0), [np.full(2, 4.0), np.full(2, 2.0)])
    assert tried[:3] == [4.0, 2.0, 1.0]  # where the mode is; no start is looked at twice


def test_a_mode_that_cannot_be_found_leaves_the_prior():
    found = laplace_start(Quadratic(-1.0), [np.full(2, 70.0)])
    np.testing.assert_array_equal(found.mu, 0.0)
    np.testing.assert_array_equal(found.covariance, np.eye(2))


def test_flat_parameters_take_only_what_is_trainable():
    kernel = ({"lengthscale": np.array([1.0, 2.0]), "variance": np.array(3.0)},)
    start = Parameters(kernel, {"tau": np.float64(4.0)}, (np.arange(6.0).reshape(3, 2),))
    trainable = Parameters(({"lengthscale": True, "variance": False},), {"tau": True}, (False,))
    flat = FlatParameters(start, trainable)
    np.testing.assert_array_equal(flat.ravel(start), [1.0, 2.0, 4.0])
    moved = flat.unravel(np.array([7.0, 8.0, 9.0]))
    np.testing.assert_array_equal(moved.kernel[0]["lengthscale"], [7.0, 8.0])
    assert (moved.kernel[0]["variance"], moved.likelihood["tau"]) == (3.0, 9.0)
    np.testing.assert_array_equal(moved.landmarks[0], start.landmarks[0])


def test_merged_chunks_hold_the_same_objective(x64, example):
    choice = Spec(FEATURE_MAP, Poisson(), get_link("square"), "matched")
    q = Gaussian(example.mu, example.factor)
    first, others = (
        replace(example, bags=example.bags[bags], y=example.y[bags], known=example.known[rows])
        for bags, rows in ((slice(0, 1), slice(0, 3)), (slice(1, 5), slice(3, None)))
    )
    chunks = first.chunks("diagonal") + others.chunks("diagonal")
    assert [chunk.shape for chunk in chunks] == [(1, 3), (4, 6)]
    values = [
        Problem.here(choice, some, example.landmarks, memory=0.0).at(example.parameters).elbo(q)
        for some in (chunks, [merge_chunks(chunks)])
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(4)
    sizes = (3, 6, 1, 4, 2, 5, 6, 3)
    X = rng.normal(size=(sum(sizes), 2))
    bags = Bags(X, np.repeat(np.arange(len(sizes)), sizes), rng.exponential(2.0, len(X)))
    rate = 2.0 + 1.8 * np.tanh(X[:, 0])
    return bags, rng.poisson(bags.sum_by_bag(bags.weight * rate)).astype(float)


def model(inference, kernel=None):
    options = {"kernel": kernel or vbagg.kernels.RBF(), "landmarks": 4, "hyper": "point"}
    return vbagg.VBAgg("poisson", "exp", inference=inference, **options)


@pytest.fixture(scope="module")
def newton(counts):
    return model(Newton(starts=3)).fit(*counts)


def test_newton_converges_and_reports_its_starts(newton):
    status = newton.status_
    assert status.converged
    assert status.message.startswith("Converged.")
    assert len(status.starts) >= 1
    assert {entry["start"] for entry in newton.history_} == {int(np.argmax(status.starts))}
    assert status.evaluations >= len(newton.history_)
    best = max(entry["objective"] for entry in newton.history_)
    assert max(status.starts) == pytest.approx(best, abs=0.02)


@pytest.fixture(scope="module")
def many():
    """Bags of 20 to 300 individuals on a curve, where features in single precision matter."""
    rng = np.random.default_rng(6)
    sizes = rng.integers(20, 300, 40)
    X = rng.normal(size=(sizes.sum(), 3)) + np.repeat(rng.normal(size=(40, 3)), sizes, axis=0)
    bags = Bags(X, np.repeat(np.arange(40), sizes), rng.exponential(1.0, len(X)))
    return bags, rng.poisson(bags.sum_by_bag(bags.weight * np.exp(0.5 * np.sin(X[:, 0]) + 0.2 * X[:, 1]))).astype(float)


@pytest.mark.slow
def test_single_precision_changes_next_to_nothing(many):
    double, single = (
        vbagg.VBAgg(
            "poisson",
            "exp",
            kernel=vbagg.kernels.RBF(ard=True),
            landmarks=100,
            inference=Newton(precision=p),
            hyper="point",
        ).fit(*many)
        for p in ("double", "single")
    )
    assert (double.status_.jitter, single.status_.jitter) == (1e-8, 1e-5)
    assert single.elbo_ == pytest.approx(double.elbo_, abs=0.2)
    assert single.elbo_mc_ == pytest.approx(double.elbo_mc_, abs=0.2)
    rates = [model.posterior(many[0].X) for model in (double, single)]
    np.testing.assert_allclose(rates[1].mean, rates[0].mean, rtol=0.02)
    np.testing.assert_allclose(rates[1].std, rates[0].std, rtol=0.05)
    assert (double._best.single, single._best.single) == (False, True)
    rows = single._fitted.frame.rows(many[0].X)
    with jax.enable_x64(True):
        spec, *state = single._best.state
        (mean,), (variance,) = row_marginals(spec, Members.of([state]), rows, np.zeros(len(rows)))
    np.testing.assert_allclose(rates[1].law.log_mean, mean + np.log(single._fitted.rate_scale), atol=1e-10)
    np.testing.assert_allclose(rates[1].law.log_std, np.sqrt(variance), rtol=5e-3)


def test_precision_follows_the_work_ahead():
    large, moderate, small = np.full(957, 1091), np.full(957, 21), np.full(109, 265)

    def single(inference, approximation, residual, sizes, n_columns):
        return Layout.of(inference.traits, approximation, residual, sizes, n_columns, 2e9, 0).single

    assert single(Newton(), "matched", "auto", large, 600)
    assert single(Newton(), "matched", "auto", moderate, 600)
    assert not single(Newton(), "matched", "auto", small, 400)
    assert single(Newton(), "matched", "diagonal", small, 400)  # searched for with all individuals
    assert single(Newton(representatives=None), "matched", "auto", small, 400)
    assert not single(Newton(), "montecarlo", "auto", large, 600)
    assert not single(Newton(precision="double"), "matched", "auto", large, 600)
    assert not single(vbagg.Adam(), "matched", "auto", large, 600)
    with pytest.raises(ValueError, match="needs double precision"):
        single(Newton(precision="single"), "montecarlo", "auto", small, 10)
    with pytest.raises(ValueError, match="precision"):
        Newton(precision="half")


@pytest.mark.parametrize(
    ("values", "number", "expected"),
    [
        ((-5.0, -3.0, -4.0), 3, [-3.0]),
        ((-4.0, -7.0, -2.0), 3, [-2.0, -4.0]),
        ((-4.0, -7.0, -np.inf), 3, [-4.0]),
        ((-9.0, -7.0, -2.0), 2, [-2.0]),
        ((-1.0, -7.0, -2.0), 1, [-7.0]),
    ],
)
def test_newton_runs_from_the_peaks_of_its_starts(values, number, expected):
    """Objective at half, once and twice the typical length-scale."""
    names = ("typical", "longer", "shorter")
    value_of = dict(zip(("shorter", "typical", "longer"), values, strict=True))

    class Recorded:
        flat = SimpleNamespace(ravel=lambda name: np.array([names.index(name)]))

        def __call__(self, x, precision, slope):
            return SimpleNamespace(x=x, value=value_of[names[x[0]]])

    points = Newton()._promising(Recorded(), list(names)[:number])
    assert [point.value for point in points] == expected


@pytest.mark.parametrize("seed", [0, 1, 4])
def test_newton_searches_for_an_explanation_with_little_noise(seed):
    """Counts that follow a quickly varying function look like noise from the first start."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 60)
    X = rng.uniform(-2, 2, (sizes.sum(), 1))
    bags = vbagg.Bags(X, np.repeat(np.arange(60), sizes), rng.gamma(3.0, 0.4, sizes.sum()))
    y = rng.poisson(bags.sum_by_bag(bags.weight * 60 * np.exp(np.sin(10 * X[:, 0]))))
    options = {"kernel": vbagg.kernels.RBF(), "landmarks": 40, "hyper": "point"}
    fits = [vbagg.VBAgg("negative_binomial", inference=Newton(starts=n), **options).fit(bags, y) for n in (3, 4)]
    noisy, quiet = (model.likelihood_parameters_["dispersion"] for model in fits)
    assert noisy > 0.1
    assert quiet < 0.02
    assert fits[1].elbo_ > fits[0].elbo_ + 30
    assert "starts disagree" in fits[1].status_.message


def test_a_search_without_hope_is_given_up(counts):
    events = []
    found = vbagg.VBAgg("negative_binomial", kernel=vbagg.kernels.RBF(), landmarks=6, hyper="point")
    found.fit(*counts, progress=events.append)
    later = [event for event in events if event.get("start", 0) > 0]
    assert 0 < len(later) < 8
    assert found.status_.starts[0] == found.status_.starts[1]


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_newton_refuses_a_start_without_a_finite_objective(value):
    class Infinite:
        flat = SimpleNamespace(ravel=np.atleast_1d)

        def __call__(self, x, precision, slope):
            return SimpleNamespace(x=x, value=value)

    with pytest.raises(FloatingPointError, match="Rescale the data"):
        Newton(starts=1)._promising(Infinite(), [SimpleNamespace(kernel="RBF")])


@pytest.mark.parametrize("representatives", [1, None])
def test_a_start_that_comes_to_a_known_optimum_stops_there(counts, monkeypatch, representatives):
    """Also where representatives shift the objective that the search sees."""

    def all_starts(self, profile, starts):
        return [profile(profile.flat.ravel(start), 1e-2, slope=False) for start in starts[:2]]

    monkeypatch.setattr(Newton, "_promising", all_starts)
    found = model(Newton(representatives=representatives)).fit(*counts)
    first, second = found.status_.starts
    assert first == second
    assert (found.status_.representation_gap != 0) == (representatives is not None)
    assert {entry["start"] for entry in found.history_} == {0}


def test_the_last_solve_is_to_a_precision_for_each_bag_but_not_in_all(counts, monkeypatch):
    asked = []

    def solve(staged, point, precision):
        asked.append(precision)
        return solve_in_full(staged, point, precision)

    monkeypatch.setattr(newton_module, "solve_in_full", solve)
    for per_bag, most in ((1e-4, 0.1), (0.02, 0.1)):
        monkeypatch.setattr(newton_module, "FINAL_PRECISION", (per_bag, most))
        model(Newton(starts=1)).fit(*counts)
    assert asked == [1e-4 * len(counts[0]), 0.1]


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 11, 12, 18, 30])
def test_signs_match_mean_and_covariance_of_a_gaussian(k):
    design = signs(k)
    assert design.shape[1] == k
    assert set(np.unique(design)) == {-1.0, 1.0}
    np.testing.assert_array_equal(design.sum(axis=0), 0.0)
    np.testing.assert_array_equal(design.T @ design, len(design) * np.eye(k))
    with pytest.raises(ValueError, match="up to 59 of them; got 60"):
        signs(60)


@pytest.mark.parametrize(
    "options",
    [
        {"max_iterations": None},
        {"max_iterations": 2.5},
        {"starts": 0},
        {"starts": True},
        {"representatives": True},
        {"representatives": "all"},
        {"tolerance": 0.0},
        {"tolerance": np.nan},
        {"tolerance": "small"},
    ],
)
def test_wrong_options_of_newton_are_refused(options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"`{name}` of Newton must be .*; got {value!r}"):
        Newton(**options)


def test_numbers_of_numpy_are_numbers():
    assert Newton(representatives=np.int64(64)).representatives == 64


def test_fits_are_deterministic_and_leave_the_precision_of_jax_alone(counts, newton):
    again = model(Newton(starts=3)).fit(*counts)
    X = counts[0].X[:5]
    assert again.elbo_ == newton.elbo_
    np.testing.assert_array_equal(again.posterior(X).mean, newton.posterior(X).mean)
    assert not jax.config.jax_enable_x64


def test_newton_is_at_a_maximum_of_its_objective(x64, newton):
    """Moved along a kernel parameter and solved anew, the ELBO plus log prior does not rise."""
    best = newton._best
    problem = Problem.here(best.spec, newton._training.problem.chunks, best.parameters.landmarks, memory=1e9)
    log_prior = make_log_prior(best.spec.feature_map.components, "default", best.spec.likelihood, best.spec.link)
    (params,) = best.parameters.kernel
    for name in params:
        for step in (-0.4, 0.4):
            moved = replace(best.parameters, kernel=({**params, name: params[name] + step},))
            value = solve_weights(problem.at(moved)).elbo + log_prior(moved)[0]
            assert value < max(newton.status_.starts) + 0.01


def test_adam_reaches_the_objective_of_newton(counts, newton):
    adam = model(Adam(learning_rates=(0.01,), epochs=1200, batch_size=4, record_every=400)).fit(*counts)
    assert adam.status_.starts[0] == pytest.approx(max(newton.status_.starts), abs=0.1)
    assert [entry["epoch"] for entry in adam.history_] == [0, 400, 800, 1199]


def test_adam_says_whether_it_has_settled(counts):
    long = model(Adam(learning_rates=(0.01,), epochs=1200, batch_size=4, record_every=1200)).fit(*counts)
    assert long.status_.converged
    assert "no longer rises" in long.status_.message
    with pytest.warns(ConvergenceWarning, match=r"in the last fifth of 20 epochs the objective still rose by .* nats"):
        short = model(Adam(learning_rates=(0.01,), epochs=20, batch_size=4)).fit(*counts)
    assert not short.status_.converged


def test_rise_of_a_trend_and_of_noise(rng):
    trend = np.linspace(0.0, 10.0, 101)
    rise, noise = last_rise(trend)
    assert rise == pytest.approx(2.0)
    assert rise > 2 * noise
    flat, error = last_rise(rng.normal(0.0, 5.0, 2000))
    assert error == pytest.approx(5.0 * np.sqrt(2 / 400), rel=0.1)
    assert abs(flat) < 4 * error
    assert last_rise(np.zeros(1))[0] == np.inf


@pytest.mark.filterwarnings("ignore::vbagg.errors.ConvergenceWarning")
def test_adam_is_deterministic_for_its_seeds_and_keeps_what_is_fixed(counts):
    short = Adam(epochs=20, seeds=(0, 1), batch_size=3, record_every=10)
    kernel = vbagg.kernels.RBF(lengthscale=1.3, fixed="lengthscale")
    one, two = (model(short, kernel).fit(*counts) for _ in range(2))
    assert one.elbo_ == two.elbo_
    assert len(one.status_.starts) == 2
    assert one.status_.starts[0] != one.status_.starts[1]
    assert one.kernel_.lengthscale == pytest.approx(1.3, rel=1e-12)
    assert one.kernel_.variance != pytest.approx(0.3, rel=0.01)


def test_unconverged_fit_says_so_and_warns(counts):
    with pytest.warns(ConvergenceWarning, match=r"Not converged: the search used its 1 iterations\. Try more"):
        short = model(Newton(max_iterations=1)).fit(*counts)
    assert not short.status_.converged
    assert "predictions from this fit may be off" in short.status_.message


def test_adam_needs_what_it_asks_for(counts):
    with pytest.raises(ValueError, match="early_stopping=True\\) needs `early_stop"):
        model(Adam(early_stopping=True)).fit(*counts)
    assert get_inference("adam") == Adam()
    with pytest.raises(ValueError, match="`inference` must be one of 'newton', 'adam'; got 'mcmc'"):
        get_inference("mcmc")


@pytest.mark.filterwarnings("ignore::vbagg.errors.ConvergenceWarning")
def test_adam_stops_early_at_the_best_epoch_of_held_out_bags(counts):
    bags, y = counts
    overall = y.sum() / bags.totals().sum() * bags.totals()
    held_out = bags, np.round(0.2 * y + 0.8 * overall)
    options = Adam(learning_rates=(0.01,), epochs=20, batch_size=4, first_stop=3, patience=3, record_every=50)
    scores = {}
    for epochs in range(4, 20):
        scores[epochs] = model(replace(options, epochs=epochs)).fit(bags, y).score(*held_out)
        best = max(scores, key=scores.get)
        if epochs - best == options.patience:
            break
    assert 4 < best < epochs < 19
    early = model(options).fit(bags, y, early_stop=held_out)
    validated = model(replace(options, early_stopping=True)).fit(bags, y, validation=held_out)
    for stopped in (early, validated):
        assert stopped.status_.iterations == best
        assert stopped.score(*held_out) == pytest.approx(scores[best], rel=1e-6)


@pytest.mark.filterwarnings("ignore::vbagg.errors.ConvergenceWarning")
def test_adam_ignores_runs_that_overflow(counts):
    options = Adam(learning_rates=(1e5, 0.01), epochs=3, batch_size=4)
    for held_out in (None, (counts[0][:3], counts[1][:3])):
        kept = model(options).fit(*counts, validation=held_out)
        assert np.isnan(kept.status_.starts[0])
        assert kept.elbo_ == model(replace(options, learning_rates=(0.01,))).fit(*counts).elbo_
        with pytest.raises(FloatingPointError, match="No run stayed finite; try smaller `learning_rates`"):
            model(replace(options, learning_rates=(1e5,))).fit(*counts, validation=held_out)


def fit_with(objective, converged=True):
    status = Status(converged, "Converged." if converged else "Not converged: tired.", 3, 4)
    return Fit(
        parameters=None, q=None, posterior=None, elbo=objective, objective=objective, jitter=(1e-8,), status=status
    )


def test_best_of_several_fits_is_kept_and_disagreement_reported(x64, example):
    problem = problem_of(example, Poisson(), "square")
    fits = [fit_with(-12.0), fit_with(-10.0), fit_with(np.nan)]
    chosen = choose(fits[:2], problem, None)
    assert chosen.objective == -10.0
    assert "2 starts disagree by 2.0 nats" in chosen.status.message
    assert chosen.status.starts == (-12.0, -10.0)
    assert choose(fits, problem, None).objective == -10.0
    assert choose(fits[:2], problem, lambda fit: -fit.objective).objective == -12.0


@each_case
def test_a_solve_gives_up_where_what_is_needed_is_out_of_reach(x64, solved, name):
    problem, staged, solution = solved[name]
    before = problem.evaluations
    given_up = solve_weights(staged, tolerance=1e-6, needed=solution.elbo + 1e3)
    in_vain = problem.evaluations - before
    assert not given_up.converged
    assert given_up.elbo < solution.elbo + 1e3
    again = solve_weights(staged, tolerance=1e-6, needed=solution.elbo - 1e-3)
    assert again.elbo == pytest.approx(solution.elbo, abs=1e-4)
    assert in_vain < problem.evaluations - before - in_vain


class LastStart(Inference):
    """A user's own inference: the search of `newton` from the last start alone."""

    def run(self, task):
        assert not task.problem.rough  # asks for no representatives
        return Newton(starts=1).run(replace(task, starts=task.starts[-1:]))


def test_an_inference_of_ones_own_is_run_like_others(counts):
    found = model(LastStart()).fit(*counts)
    assert len(found.status_.starts) == 1
    with pytest.raises(TypeError, match="abstract"):
        Inference()
    with pytest.raises(ValueError, match="early_stop"):
        model(LastStart()).fit(*counts, early_stop=counts)
