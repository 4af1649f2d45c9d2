"""The paper's experiments end to end on small data: rows, pages, figures, and what the settings change."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
from known_model import KnownModel
from matplotlib.image import imread
from scipy import stats

import vbagg
from vbagg import datasets
from vbagg.bags import Bags
from vbagg.datasets.country import RELEVANT, SimulatedCountry
from vbagg.experiments import EXPERIMENTS, elevators, figures, get_experiment, malaria, methods, report, swiss
from vbagg.experiments.base import Settings, Task
from vbagg.experiments.elevators import Elevators
from vbagg.experiments.malaria import Malaria, divided
from vbagg.experiments.runner import run_experiment
from vbagg.experiments.splits import Split, Truth
from vbagg.experiments.swiss import SwissBags, SwissIndividuals, SwissNormalBags
from vbagg.experiments.tuning import Method, Tuned

COVERAGE = [*(f"coverage_{level}" for level in (70, 75, 80, 85, 90, 95)), "coverage_error", "interval_score_90"]
BAG = ["bag_nll", "bag_mse", "bag_log_density", "bag_log_mse"]
TUNING = ["validation_nll", "candidates", "chosen", "fit_cpu_seconds"]
SCALE = 0.0002
"""Of the country: 209 pixels in 10 districts."""


@pytest.fixture(autouse=True)
def fresh_data():
    for cached in (swiss._data, elevators._data, malaria._country):
        cached.cache_clear()
    yield
    for cached in (swiss._data, elevators._data, malaria._country):
        cached.cache_clear()


@pytest.fixture
def small_rolls(monkeypatch):
    """Rolls of 12 or 13 bags instead of the sizes asked for, which are recorded."""
    asked, make = [], datasets.swiss_roll_parts

    def small(likelihood, seed, **sizes):
        asked.append({"likelihood": likelihood, "seed": seed, **sizes})
        n_bags = 12 + round(sizes["n_bags"] * sizes["mean_size"] / 7500) % 2  # two settings, two data sets
        return make(n_bags, 11, 5, seed=seed, likelihood=likelihood, test_bags=7)

    monkeypatch.setattr(datasets, "swiss_roll_parts", small)
    return asked


@pytest.fixture
def small_table(monkeypatch, tmp_path):
    """300 individuals of the elevators, with fewer columns."""
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(rng.normal(size=(300, 4)), columns=["climbRate", "Sgz", "diffRollRate", "diffSaTime2"])
    frame["y01"] = 0.4 + 0.1 * np.sin(frame["diffRollRate"]) + 0.05 * frame["Sgz"] + rng.normal(scale=0.03, size=300)
    frame["Goal"] = 0.012 + 0.066 * frame["y01"]
    (tmp_path / "data" / "elevators").mkdir(parents=True)
    frame.to_csv(tmp_path / "data" / "elevators" / "data.csv", index=False)
    monkeypatch.setenv("VBAGG_DATA", str(tmp_path / "data"))
    return frame


@pytest.fixture
def two_epochs(monkeypatch):
    monkeypatch.setattr(
        methods, "_training", lambda rate, seed: vbagg.Adam((rate,), (seed,), epochs=2, first_stop=1, record_every=450)
    )


def tables(page: str) -> dict[str, list[dict[str, str]]]:
    """Rows of the tables of a page by the headings above them."""
    found, heading, names = {}, "", None
    for line in page.splitlines():
        if line.startswith("#"):
            heading, names = line.lstrip("# "), None
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if names is None:
                names, found[heading] = cells, []
            elif not set(line) <= set("|-:"):
                found[heading].append(dict(zip(names, cells, strict=True)))
    return found


def assert_page_shows_its_figures(folder: Path, expected: set[str]) -> str:
    page = (folder / "README.md").read_text()
    linked = re.findall(r"!\[[^]]+\]\(([^)]+)\)", page)
    assert sorted(linked) == sorted(expected)
    assert {path.name for path in folder.glob("*.png")} == expected
    for name in linked:
        assert min(imread(folder / name).shape[:2]) > 100
    return page


# From rows to pages


def test_swiss_bags_from_rows_to_page(small_rolls, two_epochs, monkeypatch, tmp_path):
    uncertain = Method(lambda quick: {"known": KnownModel(5.0, spread=0.3)}, select="objective")
    monkeypatch.setitem(swiss.METHODS["poisson"], "VBAgg-Sq-Obj", uncertain)
    monkeypatch.setattr(SwissBags, "quick_grid", (12,))
    monkeypatch.setattr(SwissBags, "pictured", ("VBAgg-Sq-Obj", "NN-Exp"))
    settings = Settings(quick=True, methods=("Constant", "NN-Exp", "VBAgg-Sq-Obj"))
    experiment = SwissBags()
    table = run_experiment(experiment, tmp_path, settings)
    assert list(table["method"]) == ["VBAgg-Sq-Obj", "NN-Exp", "Constant"]
    scores = ["individual_nll", "individual_mse", *COVERAGE, *BAG, *TUNING]
    assert list(table.columns[:-4]) == ["bags", "repetition", "method", *scores]
    assert table["coverage_90"].notna().tolist() == [True, False, False]
    assert np.isfinite(table[[*scores[:2], *BAG, "validation_nll"]].to_numpy(float)).all()
    assert table["candidates"].tolist() == [1, 1, 1]
    assert table["chosen"].tolist()[:2] == ["known", "rate 0.01, manifold 0.1, penalty 1, hidden 50, seed 0"]

    examples = experiment.example(settings, tmp_path)
    written = experiment.report(table, tmp_path, settings)
    assert {path.name for path in examples} == {"roll_predictions.png", "roll_uncertainty.png"}
    curves = {f"{score}.png" for score in ("individual_nll", "individual_mse", "bag_nll", "bag_mse")}
    drawn = curves | {"coverage_error.png", "coverage.png"}
    assert {path.name for path in written} == {"README.md", *drawn}
    page = assert_page_shows_its_figures(tmp_path, drawn | {path.name for path in examples})
    assert page.startswith("# Swiss roll, Poisson: more bags\n")
    assert "`vbagg experiment swiss-bags --quick --methods Constant,NN-Exp,VBAgg-Sq-Obj`: 3 rows" in page
    overall, each = tables(page)["Scores"], tables(page)["Scores by number of training bags"]
    assert [row["method"] for row in overall] == [row["method"] for row in each] == list(table["method"])
    for row, nll in zip(overall, table["individual_nll"], strict=True):
        assert float(row["individual_nll"]) == pytest.approx(nll, abs=6e-4)
    assert {row["bags"] for row in each} == {"12"}
    assert [row["coverage_error"] == "-" for row in overall] == [False, True, True]


def test_elevators_from_rows_to_page(small_table, monkeypatch, tmp_path):
    kept = {}

    def keeping(method, split, quick):
        kept["model"], kept["split"] = (tuned := tune(method, split, quick)).model, split
        return tuned

    tune = elevators.tune
    monkeypatch.setattr(elevators, "tune", keeping)
    settings = Settings(quick=True, methods=("VBAgg-Obj", "Constant"), options={"bag_mean": 12.0, "bag_std": 4.0})
    table = run_experiment(Elevators(), tmp_path / "out", Settings(True, 1, ("VBAgg-Obj",), settings.options))
    scores = ["individual_nll", "individual_mse", *COVERAGE, *BAG, "tau", *TUNING]
    assert list(table.columns[:-4]) == ["bag_mean", "repetition", "method", *scores]

    parts = datasets.elevators_parts(0, 12, 4)
    posterior, tau = kept["model"].posterior(kept["split"].train.bags.X), table["tau"][0]
    member_scale = kept["model"].rate_scale_
    assert tau == kept["model"].likelihood_parameters_["tau"]
    y = parts["train"].individual_y
    assert table["individual_mse"][0] == pytest.approx(np.mean((y - posterior.mean) ** 2))
    assert table["individual_nll"][0] == pytest.approx(-stats.norm.logpdf(y, posterior.mean, tau**0.5).mean())
    for level in (70, 90):
        members = zip(posterior.law.laws, posterior.law.weights, kept["model"]._fitted.members, strict=True)
        below = sum(
            weight * stats.norm.cdf(y, law.mean, np.sqrt(law.std**2 + member.learnt(member_scale)["tau"]))
            for law, weight, member in members
        )
        assert table[f"coverage_{level}"][0] == np.mean(np.abs(below - 0.5) <= level / 200)

    table = run_experiment(Elevators(), tmp_path / "out", settings)
    assert Elevators().example(settings, tmp_path / "out") == []
    Elevators().report(table, tmp_path / "out", settings)
    page = assert_page_shows_its_figures(tmp_path / "out", {"coverage.png"})
    command = "vbagg experiment elevators --quick --bag-mean 12 --bag-std 4"
    first, second = f"`{command} --repetitions 1 --methods VBAgg-Obj`", f"`{command} --methods VBAgg-Obj,Constant`"
    assert f"{first}, then {second}: 2 rows" in page
    assert "intervals that include the noise" in page


@pytest.fixture
def square_country(monkeypatch):
    """Sixteen districts of twelve pixels, in rows of four."""
    rng = np.random.default_rng(12)
    row, column = np.divmod(np.arange(192), 16)
    X = pd.DataFrame({"x": 2.0 * column + 1, "y": 23.0 - 2 * row})
    for name in RELEVANT:
        X[name] = rng.normal(size=192)
    rate = np.exp(0.8 * X["elevation"].to_numpy() + np.sin(X["x"].to_numpy() / 8)) * 3
    bags = Bags(X, row // 3 * 4 + column // 4, rng.uniform(0.5, 6.0, 192))
    rate, pixel = rate[bags.rows], bags.rows
    y = rng.poisson(bags.sum_by_bag(bags.weight * rate)).astype(float)
    river = np.column_stack([np.linspace(0, 32, 9), np.linspace(3, 20, 9)])
    country = SimulatedCountry(bags, y, rate, np.zeros(192), RELEVANT, pixel, (12, 16), 2.0, river)
    monkeypatch.setattr(datasets, "simulated_country", lambda *sizes, **more: country)
    return country


@pytest.mark.slow
def test_malaria_from_rows_to_page(square_country, tmp_path):
    settings = Settings(quick=True, methods=("VBAgg-Exp-NB", "Constant"), options={"scale": 0.5})
    table = run_experiment(Malaria(), tmp_path, settings)
    scores = [*BAG, "pixel_log_mse", "test_pixel_log_mse", *TUNING]
    assert {*table.columns[:-4]} == {"repetition", "method", "individual_mse", *COVERAGE, *scores}
    assert table["coverage_90"].notna().tolist() == [method != "Constant" for method in table["method"]]

    split, truth, test_rates = divided(square_country, 0)
    constant = table.set_index("method").loc["Constant"]
    bags, y = split.train.pair
    own = (y / bags.totals())[bags.bag]
    assert constant["individual_mse"] == pytest.approx(np.mean((truth.rate - own) ** 2))
    assert constant["pixel_log_mse"] == pytest.approx(np.mean(np.log(truth.rate / own) ** 2))
    overall = y.sum() / bags.totals().sum()
    assert constant["test_pixel_log_mse"] == pytest.approx(np.mean(np.log(test_rates / overall) ** 2))

    examples = Malaria().example(settings, tmp_path)
    Malaria().report(table, tmp_path, settings)
    maps = {"rates.png", "uncertainty.png", "covariates.png"}
    assert {path.name for path in examples} == maps
    page = assert_page_shows_its_figures(tmp_path, {"coverage.png", *maps})
    assert "`vbagg experiment malaria --quick --scale 0.5 --methods VBAgg-Exp-NB,Constant`: 2 rows" in page
    assert "16 districts, 192 pixels, 5 covariates" in page


# Reports of many rows, from models that are not fitted


@pytest.fixture
def known_models(monkeypatch):
    """Models that are worse in the order of this list, instead of tuned ones; the calls are recorded."""
    order, calls = [vbagg.VBAgg, vbagg.Nystrom, vbagg.ManifoldNN, vbagg.BagPixel, vbagg.Constant], []

    def known(*arguments):
        calls.append(arguments)
        method, split, quick = arguments
        kind = next(iter(method.candidates(quick).values()))
        noise = {"tau": 0.02} if kind.likelihood == "normal" else {}
        model = KnownModel(1.0, 0.2 if type(kind) is vbagg.VBAgg else None, **noise)
        model.level = split.train.y.sum() / model.predict(split.train.bags).sum() * (1 + 0.3 * order.index(type(kind)))
        return Tuned(model, "as known", 1, 0.5)

    for module in (swiss, elevators, malaria):
        monkeypatch.setattr(module, "tune", known)
    monkeypatch.setattr(figures, "save", lambda figure, path: path.touch() or path)
    return calls


PAPER_P_VALUES = {
    "swiss-bags": SwissBags.paper_p_values,
    "swiss-individuals": SwissIndividuals.paper_p_values,
    "swiss-normal-bags": SwissNormalBags.paper_p_values,
    "swiss-normal-individuals": swiss.SwissNormalIndividuals.paper_p_values,
    "elevators": elevators.P_VALUES,
    "malaria": malaria.P_VALUES,
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_reports_test_significance_beside_the_papers_p_values(name, known_models, small_rolls, small_table, tmp_path):
    experiment = get_experiment(name)
    of_country = {"scale": SCALE} if name == "malaria" else {}
    settings = Settings(quick=not of_country, repetitions=6, options=of_country)
    table = run_experiment(experiment, tmp_path / "out", settings)
    assert len(table) == len(experiment.tasks(settings))
    experiment.report(table, tmp_path / "out", settings)
    page = (tmp_path / "out" / "README.md").read_text()
    quoted = PAPER_P_VALUES[name]
    shown = table[table["bag_mean"] == 50] if name == "elevators" else table  # `tables` keeps the last of two sections
    for (reference, other), p_values in quoted.items():
        [row] = [row for row in tables(page)[f"{reference} better than"] if row["method"] == other]
        for score, p_value in p_values.items():
            assert row[f"{score} (paper)"] == f"{p_value:.2g}"
            ours, theirs = (shown.loc[shown["method"] == method, score].to_numpy() for method in (reference, other))
            assert int(row["pairs"]) == len(ours)
            assert row[score] == f"{stats.wilcoxon(ours, theirs, alternative='less').pvalue:.2g}"
    assert all(row["method"] != reference for row in tables(page)[f"{reference} better than"])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_tuning_gets_a_split_and_nothing_else(name, known_models, small_rolls, small_table):
    experiment = get_experiment(name)
    settings = Settings(quick=True, repetitions=1, options={"scale": SCALE} if name == "malaria" else {})
    experiment.run(experiment.tasks(settings)[-1], settings)
    [(method, split, quick)] = known_models
    assert (type(method), type(split), quick) == (Method, Split, True)


def test_elevators_quote_the_papers_numbers(known_models, small_table, tmp_path):
    settings = Settings(quick=True)
    Elevators().report(run_experiment(Elevators(), tmp_path / "out", settings), tmp_path / "out", settings)
    found = tables((tmp_path / "out" / "README.md").read_text())
    for mean in (30, 50):
        by_method = {row["method"]: row for row in found[f"Bags of {mean} individuals on average"]}
        assert by_method["VBAgg-Obj"]["individual_nll (paper)"] == "-1.71"
        assert by_method["Constant"]["individual_nll (paper)"] == "-"
        for method, numbers in elevators.PAPER.items():
            for score, value in numbers.items():
                assert by_method[method][f"{score} (paper)"] == f"{value:.4g}"


def test_malaria_quotes_the_papers_numbers(known_models, tmp_path):
    settings = Settings(repetitions=1, options={"scale": SCALE})
    Malaria().report(run_experiment(Malaria(), tmp_path, settings), tmp_path, settings)
    page = (tmp_path / "README.md").read_text()
    by_method = {row["method"]: row for row in tables(page)["Scores"]}
    assert by_method["VBAgg-Exp-Obj"]["bag_log_mse (paper)"] == "1.04"
    assert by_method["Bag-pixel"]["bag_nll (paper)"] == "-"
    for method, numbers in malaria.PAPER.items():
        for score, value in numbers.items():
            assert by_method[method][f"{score} (paper)"] == f"{value:.4g}"
    assert "not comparable in size" in page


def test_a_page_without_rivals_or_settings_is_still_written(tmp_path):
    table = pd.DataFrame({"method": ["VBAgg"], "repetition": [0], "bag_mse": [1.0], "bag_nll": [np.nan]})
    assert report.present(table, ["bag_nll", "bag_mse", "tau"]) == ["bag_mse"]
    assert report.significance_section(table, ["VBAgg"], ["bag_mse"], ["repetition"], {}) == ""
    assert report.run_section(tmp_path, table) == ""
    page = report.write_page(tmp_path, "Title", table, ["one", "", "two"], {})
    assert page.read_text() == "# Title\n\none\n\ntwo\n"


# Tasks and data sets


def names(tasks: list[Task], key: str = "method") -> list:
    return list(dict.fromkeys(task[key] for task in tasks))


def test_full_sizes_are_those_of_the_paper():
    tasks = {name: get_experiment(name).tasks(Settings()) for name in EXPERIMENTS}
    assert names(tasks["swiss-bags"], "bags") == [100, 150, 200, 250, 300, 350]
    assert names(tasks["swiss-individuals"], "mean_size") == [100, 200, 300, 400]
    assert names(tasks["elevators"], "bag_mean") == [30, 50]
    repetitions = {name: len(names(tasks[name], "repetition")) for name in EXPERIMENTS}
    assert repetitions == dict(zip(EXPERIMENTS, [5, 5, 5, 5, 50, 10], strict=True))
    assert {len(get_experiment(name).tasks(Settings(quick=True))) for name in EXPERIMENTS} == {10, 12, 16}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_methods_and_repetitions_restrict_the_tasks(name):
    experiment = get_experiment(name)
    tasks = experiment.tasks(Settings(quick=True, repetitions=3, methods=("Constant", experiment.methods[0])))
    assert names(tasks) == [experiment.methods[0], "Constant"]
    assert names(tasks, "repetition") == [0, 1, 2]
    assert len({*tasks}) == len(tasks)


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != "malaria"])
def test_the_papers_own_procedure_runs_only_when_named(name):
    experiment = get_experiment(name)
    slow = [method for method in experiment.methods if method.endswith("-Adam")]
    assert slow
    assert names(experiment.tasks(Settings())) == [method for method in experiment.methods if method not in slow]
    assert names(experiment.tasks(Settings(methods=(slow[0],)))) == slow[:1]


def test_quick_malaria_leaves_the_validated_methods_to_be_named():
    left = set(names(Malaria().tasks(Settings(repetitions=1)))) - set(names(Malaria().tasks(Settings(quick=True))))
    assert left == {"VBAgg-Sq", "VBAgg-Exp"}
    assert set(names(Malaria().tasks(Settings(quick=True, methods=tuple(left))))) == left


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("swiss-bags", 250, {"n_bags": 250, "mean_size": 150, "std_size": 50}),
        ("swiss-individuals", 300, {"n_bags": 600, "held_out_bags": 150, "mean_size": 300, "std_size": 150}),
        ("swiss-normal-bags", 100, {"n_bags": 100, "mean_size": 150, "std_size": 50}),
        ("swiss-normal-individuals", 50, {"n_bags": 600, "held_out_bags": 150, "mean_size": 50, "std_size": 25}),
    ],
)
def test_rolls_are_drawn_with_the_repetition_as_seed(name, value, expected, small_rolls):
    experiment = get_experiment(name)
    task = Task({experiment.varied: value, "repetition": 3, "method": "Constant"})
    split, truth = experiment.data(task, quick=False)
    likelihood = "normal" if "normal" in name else "poisson"
    assert small_rolls == [{"likelihood": likelihood, "seed": 3, **expected}]
    drawn = datasets.swiss_roll_parts(likelihood=likelihood, seed=3, **expected)
    for part, data in drawn.items():
        np.testing.assert_array_equal(getattr(split, part).bags.X, data.bags.X)
        np.testing.assert_array_equal(getattr(split, part).y, data.y)
    np.testing.assert_array_equal(truth.rate, drawn["train"].rate)
    again, _ = experiment.data(Task({**task, "method": "NN"}), quick=False)
    assert again is split
    other, _ = experiment.data(Task({**task, "repetition": 4}), quick=False)
    assert len(other.train.y) != len(split.train.y) or not np.array_equal(other.train.y, split.train.y)


@pytest.mark.parametrize(
    ("options", "mean", "expected"),
    [({}, 30, 15), ({}, 50, 25), ({"bag_mean": 40.0}, 40.0, 20), ({"bag_mean": 50.0, "bag_std": 12.0}, 50.0, 12)],
)
def test_elevators_are_cut_with_the_repetition_as_seed(options, mean, expected, known_models, small_table, monkeypatch):
    asked, make = [], datasets.elevators_parts
    monkeypatch.setattr(datasets, "elevators_parts", lambda *sizes, **more: asked.append(sizes) or make(*sizes, **more))
    settings = Settings(repetitions=3, options=options)
    [task] = [t for t in Elevators().tasks(settings) if (*t.values(),) == (mean, 2, "NN")]
    Elevators().run(task, settings)
    assert asked == [(2, mean, expected)]
    assert names(Elevators().tasks(settings), "bag_mean") == ([options["bag_mean"]] if options else [30, 50])


def test_malaria_is_divided_with_the_repetition_as_seed(known_models, monkeypatch):
    asked = []
    monkeypatch.setattr(
        malaria, "divided", lambda country, seed: asked.append((country, seed)) or divided(country, seed)
    )
    for repetition, scale in ((4, SCALE), (5, 2 * SCALE)):
        Malaria().run(Task(repetition=repetition, method="NN-Exp"), Settings(options={"scale": scale}))
    assert [seed for _, seed in asked] == [4, 5]
    assert asked[1][0].bags.n_individuals == pytest.approx(2 * asked[0][0].bags.n_individuals, abs=1)
    assert malaria._scale(Settings(quick=True)) < malaria._scale(Settings())


# The divided country


@pytest.fixture(scope="module")
def country():
    return datasets.simulated_country(0.001, seed=1)


def places(bags: Bags) -> list[tuple[float, float]]:
    return list(map(tuple, bags.X[:, [bags.feature_names.index(name) for name in ("x", "y")]]))


@pytest.mark.parametrize("seed", [0, 7])
def test_rates_of_a_divided_country_belong_to_its_pixels(country, seed):
    rate_at = dict(zip(places(country.bags), country.rate, strict=True))
    assert len(rate_at) == country.bags.n_individuals
    split, truth, test_rates = divided(country, seed)
    assert type(truth) is Truth
    assert truth.individual_y is None
    assert truth.rate.tolist() == [rate_at[place] for place in places(split.train.bags)]
    assert test_rates.tolist() == [rate_at[place] for place in places(split.test.bags)]


def test_parts_of_a_divided_country_are_disjoint_and_complete(country):
    split, _, _ = divided(country, 3)
    cases = dict(zip(country.bags.labels, country.y, strict=True))
    found = [label for part in vars(split).values() for label in part.bags.labels]
    assert sorted(found) == sorted(country.bags.labels)
    for part in vars(split).values():
        assert part.y.tolist() == [cases[label] for label in part.bags.labels]
    pixels = [place for part in vars(split).values() for place in places(part.bags)]
    assert sorted(pixels) == sorted(places(country.bags))
    share = {name: len(part.y) / len(country.y) for name, part in vars(split).items()}
    assert share == pytest.approx(
        {"train": 576 / 957, "early_stop": 95 / 957, "validation": 95 / 957, "test": 191 / 957}, abs=0.02
    )
    other, _, _ = divided(country, 4)
    assert set(other.train.bags.labels) != set(split.train.bags.labels)


def test_elevators_without_data_are_refused_before_any_work(monkeypatch, tmp_path):
    def offline(**kwargs):
        raise URLError("no network")

    monkeypatch.setenv("VBAGG_DATA", str(tmp_path))
    monkeypatch.setattr("vbagg.datasets.files._REPOSITORY", tmp_path)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"needs its data: set VBAGG_DATA .*URLError: .*no network"):
        Elevators().check(Settings())
