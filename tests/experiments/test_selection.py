"""No output of an individual reaches training or selection; the candidates, and how one is chosen."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import dataclass, replace
from typing import get_type_hints

import numpy as np
import pytest
from known_model import KnownModel, arrays_within
from scipy import stats

import vbagg
from vbagg import datasets
from vbagg.bags import Bags
from vbagg.datasets import AggregateData
from vbagg.experiments import elevators, get_experiment, malaria, methods, splits, swiss, tuning
from vbagg.experiments.scores import plug_in_nll, training_rates
from vbagg.experiments.splits import Observed, Split, Truth, separate
from vbagg.experiments.tuning import Grid, Method, tune


def roll(likelihood="poisson"):
    return datasets.swiss_roll_parts(12, 11, 5, seed=4, likelihood=likelihood, test_bags=7)


def garbled(part: AggregateData) -> AggregateData:
    nothing = np.full(part.bags.n_individuals, np.nan)
    return replace(part, rate=None if part.rate is None else nothing, individual_y=nothing)


@pytest.fixture(scope="module")
def parts():
    return roll()


@pytest.fixture(scope="module")
def split(parts):
    return separate(parts)[0]


@pytest.fixture(scope="module")
def country():
    return datasets.simulated_country(0.0003, seed=2)


# What a method may see


def test_observed_takes_bags_and_one_output_per_bag_alone(parts):
    part = parts["train"]
    with pytest.raises(TypeError, match=r"must be vbagg.Bags, which hold no outputs of individuals; got SimulatedData"):
        Observed(part, part.y)
    for values in (part.individual_y, part.rate, part, part.y[:, None], part.y[:-1]):
        with pytest.raises(TypeError, match="`y` must hold one output for each of 12 bags"):
            Observed(part.bags, values)


def test_observed_refuses_bags_that_carry_more(parts):
    class Knowing(Bags):
        pass

    with pytest.raises(TypeError, match="got Knowing"):
        Observed(Knowing(np.zeros((2, 1)), [0, 1]), np.zeros(2))


def test_split_refuses_what_holds_outputs_of_individuals(parts, split):
    @dataclass(frozen=True, eq=False)
    class Knowing(Observed):
        individual_y: np.ndarray

    part = parts["validation"]
    for knowing in (part, Knowing(part.bags, part.y, part.individual_y), (part.bags, part.y)):
        with pytest.raises(TypeError, match="`validation` must be Observed, which holds no outputs of individuals"):
            replace(split, validation=knowing)


def of_rolls(change=lambda part: part, likelihood="poisson"):
    return separate({name: change(part) for name, part in roll(likelihood).items()})


def of_normal_rolls(change=lambda part: part):
    return of_rolls(change, "normal")


def of_real_data(change=lambda part: part):
    """As the elevators: no known rates."""
    return separate({name: change(replace(part, rate=None)) for name, part in roll("normal").items()})


def of_country(change=None):
    country = datasets.simulated_country(0.0003, seed=2)
    nothing = np.full(country.bags.n_individuals, np.nan)
    return malaria.divided(replace(country, rate=nothing, field=nothing) if change else country, seed=3)[:2]


SOURCES = [of_rolls, of_normal_rolls, of_real_data, of_country]


@pytest.mark.parametrize("source", SOURCES)
def test_a_split_is_the_same_whatever_the_truth(source):
    plain, garbage = (list(arrays_within(split)) for split in (source()[0], source(garbled)[0]))
    assert len(plain) == len(garbage) >= 4 * 7
    for one, other in zip(plain, garbage, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
        assert one.dtype == object or np.isfinite(one).all()


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_within_a_split_tells_the_truth(source):
    split, truth = source()
    secrets = [secret for secret in (truth.rate, truth.individual_y) if secret is not None]
    assert secrets
    for array, secret in itertools.product(arrays_within(split), secrets):
        assert not np.shares_memory(array, secret)
        if array.dtype == object or len(array) != len(secret):
            continue
        for column in np.reshape(array, (len(array), -1)).T:
            assert not np.array_equal(np.sort(column), np.sort(secret))
            if np.ptp(column) > 0:
                # neither itself nor in other units; covariates of the country do tell a part of its rates
                assert abs(np.corrcoef(column, secret)[0, 1]) < 0.95
                assert abs(stats.spearmanr(column, secret)[0]) < 0.95


def test_the_walk_through_a_split_sees_hidden_arrays(parts):
    part = parts["train"]
    both = np.column_stack([part.bags.X, part.rate])
    hidden = part.bags.with_arrays()
    hidden._store(X=both[:, :-1])
    assert any(array is both for array in arrays_within(Observed(hidden, part.y)))


def test_fields_of_a_split_are_bags_and_outputs(split):
    assert set(vars(split)) == {"train", "early_stop", "validation", "test"}
    for part in vars(split).values():
        assert set(vars(part)) == {"bags", "y"}
        assert set(vars(part.bags)) == set(get_type_hints(Bags))


def test_truth_is_that_of_the_training_individuals(parts):
    _, truth = separate(parts)
    assert truth.rate is parts["train"].rate
    assert truth.individual_y is parts["train"].individual_y


def test_fitting_and_selection_cannot_be_given_the_truth():
    taken = get_type_hints(tune)
    assert list(inspect.signature(tune).parameters) == ["method", "split", "quick"]
    assert (taken["method"], taken["split"], taken["quick"]) == (Method, Split, bool)
    assert list(inspect.signature(plug_in_nll).parameters) == ["model", "observed"]
    assert get_type_hints(plug_in_nll)["observed"] is Observed
    assert set(get_type_hints(Method)) == {"candidates", "select", "early_stop"}
    for module in (tuning, methods):
        assert not {Truth, AggregateData, separate, splits, datasets} & {
            value for value in vars(module).values() if isinstance(value, type) or inspect.ismodule(value)
        }


@pytest.fixture(autouse=True)
def no_earlier_fits(monkeypatch):
    monkeypatch.setattr(tuning, "_last", None)


@pytest.fixture
def two_epochs(monkeypatch):
    monkeypatch.setattr(
        methods, "_training", lambda rate, seed: vbagg.Adam((rate,), (seed,), epochs=2, first_stop=1, record_every=450)
    )


@pytest.mark.parametrize("name", ["VBAgg-Sq-Obj", "Nystrom-Exp", "NN-Exp", "Constant"])
def test_tuned_models_do_not_depend_on_the_truth(two_epochs, parts, split, name):
    garbage, _ = separate({part: garbled(data) for part, data in parts.items()})
    method = swiss.METHODS["poisson"][name]
    one, other = tune(method, split, quick=True), tune(method, garbage, quick=True)
    assert (one.chosen, one.validation_nll) == (other.chosen, other.validation_nll)
    learnt = [list(arrays_within(tuned.model._fitted)) for tuned in (one, other)]
    assert learnt[0]
    for first, second in zip(*learnt, strict=True):
        np.testing.assert_array_equal(first, second)
    rates = [training_rates(tuned.model, split.train.bags).mean for tuned in (one, other)]
    np.testing.assert_array_equal(*rates)


# Choice among candidates


def candidate(level: float, elbo: float) -> KnownModel:
    model = KnownModel(level)
    model.elbo_ = elbo
    return model


def best_level(observed: Observed) -> float:
    """Of a `KnownModel` for Poisson outputs."""
    return observed.y.sum() / KnownModel().predict(observed.bags).sum()


@pytest.fixture
def candidates(split):
    """The second is best for the validation bags, the third by its objective."""
    best = best_level(split.validation)
    return {"low": candidate(best / 3, -7.0), "best": candidate(best, -9.0), "high": candidate(1.7 * best, -4.0)}


def test_validation_bags_choose_by_default(split, candidates):
    tuned = tune(Method(lambda quick: candidates), split)
    assert tuned.model is candidates["best"]
    assert (tuned.chosen, tuned.candidates) == ("best", 3)
    assert tuned.validation_nll == plug_in_nll(candidates["best"], split.validation)


def test_the_objective_chooses_against_the_validation_bags(split, candidates):
    tuned = tune(Method(lambda quick: candidates, select="objective"), split)
    assert tuned.model is candidates["high"]
    assert (tuned.chosen, tuned.candidates) == ("high", 3)
    assert tuned.validation_nll == plug_in_nll(candidates["high"], split.validation)


def test_no_other_bags_than_those_for_validation_choose(split, candidates):
    silent = {name: Observed(getattr(split, name).bags, 0 * getattr(split, name).y) for name in vars(split)}
    del silent["validation"]
    assert tune(Method(lambda quick: candidates), replace(split, **silent)).chosen == "best"
    silent = replace(split, validation=Observed(split.validation.bags, 0 * split.validation.y))
    assert tune(Method(lambda quick: candidates), silent).chosen == "low"


@pytest.mark.parametrize("early_stop", [True, False])
def test_every_candidate_is_fitted_once_to_the_training_bags(split, candidates, early_stop):
    tune(Method(lambda quick: candidates, early_stop=early_stop), split)
    for model in candidates.values():
        [fit] = model.fits
        assert fit.pop("bags") is split.train.bags
        assert fit.pop("y") is split.train.y
        assert fit.pop("progress") is False
        assert fit == ({"early_stop": (split.early_stop.bags, split.early_stop.y)} if early_stop else {})


def test_the_quick_flag_reaches_the_candidates(split):
    def either(quick):
        return {"quick": KnownModel()} if quick else {"a": KnownModel(), "b": KnownModel()}

    assert tune(Method(either), split, quick=True).chosen == "quick"
    assert tune(Method(either), split).candidates == 2


def test_a_grid_is_searched_one_setting_after_another(split):
    best = best_level(split.validation)
    made = []

    def make(level, pull):
        made.append((level, pull))
        return candidate(best * (0.3 + level) * pull, 0.0)

    grid = Grid({"level": (0.2, 0.7, 3.0), "pull": (0.5, 1.0, 1.5)}, make)
    assert len(grid) == len(list(grid)) == 9
    tuned = tune(Method(lambda quick: grid), split)
    # beside a pull of 0.5 the largest level is nearest to the best in log; then pulls are tried beside it
    nll = {pair: plug_in_nll(make(*pair), split.validation) for pair in itertools.product(*grid.axes.values())}
    level = min(grid.axes["level"], key=lambda level: nll[level, 0.5])
    pull = min(grid.axes["pull"], key=lambda pull: nll[level, pull])
    assert tuned.chosen == f"level {level:g}, pull {pull:g}"
    assert tuned.validation_nll == nll[level, pull]
    assert tuned.candidates == 5


def test_a_method_on_the_same_data_uses_the_fits_of_the_one_before(split, candidates):
    both = tune(Method(lambda quick: candidates), split)
    alone = KnownModel(candidates["low"].level)
    again = tune(Method(lambda quick: {"alone": alone}), split)
    assert again.model is candidates["low"]
    assert not alone.fits
    assert 0 <= again.fit_cpu_seconds <= both.fit_cpu_seconds
    for other in (Method(lambda quick: {"alone": alone}, early_stop=True), Method(lambda quick: {"alone": alone})):
        elsewhere = replace(split) if not other.early_stop else split
        assert tune(other, elsewhere).model is alone


# Methods

POISSON = {
    "VBAgg-Sq": (2, 2),
    "VBAgg-Sq-Obj": (1, 1),
    "VBAgg-Sq-Adam": (1, 2),
    "VBAgg-Exp": (2, 2),
    "VBAgg-Exp-Obj": (1, 1),
    "VBAgg-Exp-Adam": (1, 2),
    "Nystrom-Exp": (1, 216),
    "NN-Exp": (1, 243),
    "Bag-pixel": (1, 54),
    "Constant": (1, 1),
}
"""Numbers of candidates, quick and full."""
NORMAL = {
    "VBAgg": (2, 2),
    "VBAgg-Obj": (1, 1),
    "VBAgg-Adam": (1, 2),
    "Nystrom": (1, 216),
    "NN": (1, 243),
    "Bag-pixel": (1, 54),
    "Constant": (1, 1),
}
ON_SURFACES = {"VBAgg-Sq-Graph": (1, 1), "VBAgg-Exp-Graph": (1, 1)}
BEYOND_THE_PAPER = {
    "VBAgg-Sq-NB": (1, 1),
    "VBAgg-Exp-NB": (1, 1),
    "VBAgg-Default": (1, 1),
    "VBAgg-Default-Poisson": (1, 1),
}


@pytest.fixture(scope="module")
def families(country):
    """Methods of each experiment, the expected numbers of candidates, and the likelihood."""
    split, _, _ = malaria.divided(country, 0)
    return [
        (swiss.METHODS["poisson"], POISSON | ON_SURFACES, "poisson"),
        (malaria._methods(split), POISSON | BEYOND_THE_PAPER, "poisson"),
        (swiss.METHODS["normal"], NORMAL, "normal"),
        (elevators.METHODS, NORMAL, "normal"),
    ]


def test_candidates_are_as_many_as_expected_and_all_differ(families):
    for family, numbers, _ in families:
        assert list(family) == list(numbers)
        for name, method in family.items():
            quick, full = method.candidates(True), method.candidates(False)
            assert (len(quick), len(full)) == numbers[name]
            assert len(quick) <= len(full)
            settings = [str(sorted(model.get_params().items())) for model in full.values()]
            assert len(set(settings)) == len(full)


def test_candidates_are_new_at_each_call(families):
    for method in families[0][0].values():
        one, other = method.candidates(True), method.candidates(True)
        assert list(one) == list(other)
        models, others = list(one.values()), list(other.values())  # held, so that no two have the same address
        assert not {id(model) for model in models} & {id(model) for model in others}


def test_likelihoods_and_links_are_those_of_the_names(families):
    kinds = {"VBAgg": vbagg.VBAgg, "Nystrom": vbagg.Nystrom, "NN": vbagg.ManifoldNN, "Bag": vbagg.BagPixel}
    for family, _, likelihood in families:
        for name, method in family.items():
            for model in (*method.candidates(True).values(), *method.candidates(False).values()):
                assert model.likelihood == ("negative_binomial" if name.endswith(("-NB", "-Default")) else likelihood)
                if name == "Constant":
                    assert type(model) is vbagg.Constant
                    continue
                assert type(model) is kinds[name.split("-")[0]]
                poisson_link = "square" if "-Sq" in name else "exp"
                assert model.link == (poisson_link if likelihood == "poisson" else "identity")


def test_early_stop_bags_are_for_the_baselines_alone(families):
    for family, _, _ in families:
        stopped = {name for name, method in family.items() if method.early_stop}
        assert stopped == {name for name in family if name.startswith(("Nystrom", "NN", "Bag-pixel"))}
        for name in stopped:
            for model in family[name].candidates(False).values():
                assert (model.inference.epochs, model.inference.first_stop, model.inference.patience) == (450, 150, 10)


def test_only_the_methods_without_candidates_choose_by_the_objective(families):
    for family, _, _ in families:
        by_objective = {name for name, method in family.items() if method.select == "objective"}
        ends = ("-Obj", "-NB", "-Graph")
        assert by_objective == {name for name in family if name.endswith(ends) or "-Default" in name}
        assert {method.select for method in family.values()} == {"objective", "validation"}


def test_labels_tell_what_candidates_differ_in():
    for label, model in methods.poisson_methods(vbagg.kernels.RBF())["Nystrom-Exp"].candidates(False).items():
        strength = model.manifold.strength if model.manifold else 0
        [rate], [seed] = model.inference.learning_rates, model.inference.seeds
        share = model.landmarks / 30
        expected = f"rate {rate:g}, penalty {model.penalty:g}, manifold {strength:g}, share {share:g}, seed {seed}"
        assert label == expected
    for label, model in methods.normal_methods(vbagg.kernels.RBF())["NN"].candidates(False).items():
        [rate], [seed] = model.inference.learning_rates, model.inference.seeds
        assert label == (
            f"rate {rate:g}, manifold {model.manifold.strength:g}, penalty {model.penalty:g},"
            f" hidden {model.hidden}, seed {seed}"
        )


def test_the_papers_own_procedure_is_kept_apart(families):
    for family, _, likelihood in families:
        for name in (name for name in family if name.endswith("-Adam")):
            for model in family[name].candidates(False).values():
                approximation = {"square": "taylor", "exp": "bound", "identity": "matched"}[model.link]
                assert (model.approximation, model.priors, model.inference.epochs) == (approximation, None, 450)
        name = "VBAgg" if likelihood == "normal" else "VBAgg-Sq"
        default, firm = family[name].candidates(False).values()
        assert (default.inference, default.priors, firm.inference) == ("newton", "default", "newton")
        assert firm.priors["variance"].median == pytest.approx({"normal": 0.1, "poisson": 0.01}[likelihood])


def test_every_name_in_an_experiment_is_a_method():
    for name in ("swiss-bags", "swiss-individuals", "swiss-normal-bags", "swiss-normal-individuals"):
        experiment = get_experiment(name)
        used = {*experiment.references, *experiment.pictured, *experiment.left_to_ask}
        used |= {method for pair in experiment.paper_p_values for method in pair}
        assert used <= set(experiment.methods) == set(swiss.METHODS[experiment.likelihood])
    for module, experiment in ((elevators, get_experiment("elevators")), (malaria, get_experiment("malaria"))):
        assert {*module.PAPER, *(method for pair in module.P_VALUES for method in pair)} <= set(experiment.methods)
    assert set(get_experiment("malaria").methods) == {
        name for name in POISSON | BEYOND_THE_PAPER if not name.endswith("-Adam")
    }
