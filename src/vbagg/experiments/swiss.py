"""The swiss roll: more bags, or larger bags; Poisson counts, or Normal outputs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from vbagg import datasets, kernels
from vbagg.experiments import figures, pictures, report
from vbagg.experiments.base import Experiment, Scores, Settings, Task
from vbagg.experiments.methods import normal_methods, poisson_methods, surface_methods
from vbagg.experiments.scores import bag_scores, individual_scores, training_rates
from vbagg.experiments.splits import Split, Truth, separate
from vbagg.experiments.tables import markdown_table, summary
from vbagg.experiments.tuning import tune

if TYPE_CHECKING:
    import pandas as pd

METHODS = {"poisson": poisson_methods(kernels.RBF()) | surface_methods(), "normal": normal_methods(kernels.RBF())}
SCORES = {
    "individual_nll": "negative log likelihood of an individual",
    "individual_mse": "squared error of an individual's rate",
    "bag_nll": "negative log likelihood of a test bag",
    "bag_mse": "squared error of a test bag",
}
CALIBRATION = ("coverage_error", "interval_score_90")
FORMATS = dict.fromkeys(("individual_nll", "bag_nll", *CALIBRATION), ".3f") | {
    "individual_mse": ".4f",
    "bag_mse": ".4g",
}


class SwissRoll(Experiment):
    """One setting of the roll varies, everything else is as in the paper."""

    likelihood: ClassVar[str]
    varied: ClassVar[str]
    axis: ClassVar[str]
    full_grid: ClassVar[tuple[int, ...]]
    quick_grid: ClassVar[tuple[int, ...]]
    references: ClassVar[tuple[str, ...]]
    pictured: ClassVar[tuple[str, ...]]
    formats = FORMATS
    overview_scores = ("individual_nll", "individual_mse", "bag_nll", "bag_mse", "coverage_error", "interval_score_90")

    def tasks(self, settings: Settings) -> list[Task]:  # noqa: D102
        return [
            Task({self.varied: value, "repetition": repetition, "method": method})
            for repetition in range(settings.repetitions_or(5))
            for value in (self.quick_grid if settings.quick else self.full_grid)
            for method in self.chosen_methods(settings)
        ]

    def data(self, task: Task, quick: bool) -> tuple[Split, Truth]:
        """The data set of a task: the data seed is the repetition."""
        return _data(self.likelihood, **self.sizes(task[self.varied], quick), seed=task["repetition"])

    def sizes(self, value: int, quick: bool) -> dict[str, float]:
        """Arguments of `datasets.swiss_roll_parts` for a value of the varied setting."""
        raise NotImplementedError

    def run(self, task: Task, settings: Settings) -> Scores:  # noqa: D102
        split, truth = self.data(task, settings.quick)
        tuned = tune(METHODS[self.likelihood][task["method"]], split, settings.quick)
        return {
            **individual_scores(tuned.model, split.train, truth),
            **bag_scores(tuned.model, split.test),
            **tuned.selection,
        }

    def report(self, table: pd.DataFrame, folder: Path, settings: Settings) -> list[Path]:  # noqa: D102
        columns = report.present(table, [*SCORES, *CALIBRATION])
        by_setting = summary(table, ["method", self.varied], columns, formats=FORMATS)
        overall = summary(table, ["method"], columns, formats=FORMATS)
        drawn = {}
        for score in report.present(table, list(SCORES)):
            path = folder / f"{score}.png"
            figures.error_curves(
                table, self.varied, score, path, xlabel=self.axis, ylabel=SCORES[score], leave_out=_far(table)
            )
            drawn[f"{SCORES[score].capitalize()}."] = path
        if report.present(table, ["coverage_90"]):
            path = folder / "coverage_error.png"
            figures.coverage_error_curves(table[table["coverage_90"].notna()], self.varied, path, xlabel=self.axis)
            drawn["Distance of the coverage of 70% to 95% intervals from their level."] = path
        drawn |= report.coverage_figure(table, folder, "Coverage of central intervals, all settings pooled.")
        tests = report.significance_section(
            table, self.references, ["individual_nll", "individual_mse"], self.pair_by, self.paper_p_values
        )
        sections = [
            "## Scores\n\nAll settings pooled. " + markdown_table(overall),
            tests,
            f"## Scores by {self.axis}\n\n" + markdown_table(by_setting),
        ]
        page = report.write_page(folder, self.title, table, sections, drawn | self._examples(folder))
        return [page, *drawn.values()]

    def example(self, settings: Settings, folder: Path) -> list[Path]:
        """Draw predictions and posterior sd on the first roll."""
        value = (self.quick_grid if settings.quick else self.full_grid)[min(1, len(self.quick_grid) - 1)]
        task = Task({self.varied: value, "repetition": 0, "method": ""})
        split, truth = self.data(task, settings.quick)
        assert truth.rate is not None
        predictions, spreads = {"true rate": truth.rate}, {}
        for name in self.pictured:
            model = tune(METHODS[self.likelihood][name], split, settings.quick).model
            posterior = training_rates(model, split.train.bags)
            predictions[name] = posterior.mean
            if hasattr(posterior, "std"):
                spreads[name] = posterior.std
        X, unit = split.train.bags.X, "rate" if self.likelihood == "poisson" else "mean"
        return [
            pictures.roll_scatter(X, predictions, folder / "roll_predictions.png", units=unit, columns=5),
            pictures.roll_scatter(
                X, spreads, folder / "roll_uncertainty.png", rate=truth.rate, units=f"posterior sd of the {unit}"
            ),
        ]

    def _examples(self, folder: Path) -> dict[str, Path]:
        return {
            "Rates of training individuals on the first roll.": folder / "roll_predictions.png",
            "Their posterior standard deviation.": folder / "roll_uncertainty.png",
        }


@lru_cache(maxsize=1)
def _data(likelihood: str, **arguments: float) -> tuple[Split, Truth]:
    return separate(datasets.swiss_roll_parts(likelihood=likelihood, **arguments))  # type: ignore[arg-type]


def _far(table: pd.DataFrame) -> list[str]:
    return [name for name in ("Bag-pixel", "Constant") if name in set(table["method"])]


class SwissBags(SwissRoll):
    """Figure 1, middle, and its appendix."""

    name = "swiss-bags"
    title = "Swiss roll, Poisson: more bags"
    likelihood, varied, axis = "poisson", "bags", "number of training bags"
    pair_by = ("bags", "repetition")
    full_grid, quick_grid = (100, 150, 200, 250, 300, 350), (100, 150)
    methods = tuple(METHODS["poisson"])
    references: ClassVar[tuple[str, ...]] = ("VBAgg-Sq", "VBAgg-Exp", "VBAgg-Sq-Obj", "VBAgg-Exp-Obj")
    pictured: ClassVar[tuple[str, ...]] = ("VBAgg-Sq-Obj", "VBAgg-Exp-Obj", "Nystrom-Exp", "NN-Exp")
    left_to_ask: ClassVar[tuple[str, ...]] = ("VBAgg-Sq-Adam", "VBAgg-Exp-Adam")
    left_out_of_quick: ClassVar[tuple[str, ...]] = ("VBAgg-Sq-Graph", "VBAgg-Exp-Graph")
    paper_p_values: ClassVar[report.PValues] = {
        ("VBAgg-Sq", "NN-Exp"): {"individual_nll": 6.98e-6, "individual_mse": 2.5e-4},
        ("VBAgg-Sq", "Nystrom-Exp"): {"individual_nll": 4.8e-4, "individual_mse": 1.5e-4},
        ("VBAgg-Exp", "NN-Exp"): {"individual_nll": 2.48e-6, "individual_mse": 2.48e-5},
        ("VBAgg-Exp", "Nystrom-Exp"): {"individual_nll": 5e-4, "individual_mse": 2.5e-4},
    }

    def sizes(self, value: int, quick: bool) -> dict[str, float]:  # noqa: D102
        return {"n_bags": value, "mean_size": 150, "std_size": 50}


class SwissIndividuals(SwissRoll):
    """Figure 1, right, and its appendix."""

    name = "swiss-individuals"
    title = "Swiss roll, Poisson: larger bags"
    likelihood, varied, axis = "poisson", "mean_size", "mean number of individuals in a bag"
    pair_by = ("mean_size", "repetition")
    full_grid, quick_grid = (100, 200, 300, 400), (50, 100)
    methods = tuple(METHODS["poisson"])
    references: ClassVar[tuple[str, ...]] = SwissBags.references
    pictured: ClassVar[tuple[str, ...]] = SwissBags.pictured
    left_to_ask: ClassVar[tuple[str, ...]] = SwissBags.left_to_ask
    left_out_of_quick: ClassVar[tuple[str, ...]] = SwissBags.left_out_of_quick
    paper_p_values: ClassVar[report.PValues] = {
        ("VBAgg-Sq", "NN-Exp"): {"individual_nll": 1.81e-5, "individual_mse": 9.53e-6},
        ("VBAgg-Sq", "Nystrom-Exp"): {"individual_nll": 0.062, "individual_mse": 0.041},
        ("VBAgg-Exp", "NN-Exp"): {"individual_nll": 6.68e-5, "individual_mse": 1.6e-4},
        ("VBAgg-Exp", "Nystrom-Exp"): {"individual_nll": 0.049, "individual_mse": 0.062},
    }

    def sizes(self, value: int, quick: bool) -> dict[str, float]:  # noqa: D102
        n_bags = 150 if quick else 600
        return {"n_bags": n_bags, "held_out_bags": 150, "mean_size": value, "std_size": value / 2}


class SwissNormalBags(SwissBags):
    """The Normal model of the appendix: more bags."""

    name = "swiss-normal-bags"
    title = "Swiss roll, Normal: more bags"
    likelihood = "normal"
    methods = tuple(METHODS["normal"])
    references = ("VBAgg", "VBAgg-Obj")
    pictured = ("VBAgg-Obj", "Nystrom", "NN")
    left_to_ask = ("VBAgg-Adam",)
    paper_p_values: ClassVar[report.PValues] = {
        ("VBAgg", "NN"): {"individual_nll": 5.96e-7, "individual_mse": 4.79e-9},
        ("VBAgg", "Nystrom"): {"individual_nll": 4.01e-8, "individual_mse": 6.52e-9},
    }


class SwissNormalIndividuals(SwissIndividuals):
    """The Normal model of the appendix: larger bags."""

    name = "swiss-normal-individuals"
    title = "Swiss roll, Normal: larger bags"
    likelihood = "normal"
    methods = tuple(METHODS["normal"])
    references = SwissNormalBags.references
    pictured = SwissNormalBags.pictured
    left_to_ask = SwissNormalBags.left_to_ask
    paper_p_values: ClassVar[report.PValues] = {
        ("VBAgg", "NN"): {"individual_nll": 4.77e-6, "individual_mse": 4.77e-6},
        ("VBAgg", "Nystrom"): {"individual_nll": 4.77e-6, "individual_mse": 4.77e-6},
    }
