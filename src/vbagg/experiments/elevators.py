"""Elevators: the Normal model on real regression data, cut into bags along one covariate."""

from __future__ import annotations

import warnings
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from vbagg import datasets, kernels
from vbagg.experiments import report
from vbagg.experiments.base import Experiment, Scores, Settings, Task
from vbagg.experiments.methods import normal_methods
from vbagg.experiments.scores import bag_scores, individual_scores
from vbagg.experiments.splits import Split, Truth, separate
from vbagg.experiments.tables import markdown_table, summary, with_paper
from vbagg.experiments.tuning import tune

if TYPE_CHECKING:
    import pandas as pd

LANDMARKS = 100
METHODS = normal_methods(kernels.RBF(ard=True), LANDMARKS)
SIZES = {30: 15, 50: 25}
"""Mean and standard deviation of bag sizes: what the paper says, and what its numbers of bags fit."""
SCORES = ["individual_nll", "individual_mse", "bag_nll", "bag_mse", "coverage_error", "interval_score_90"]
FORMATS = dict.fromkeys(SCORES, ".3f") | {"individual_mse": ".5f"}
PAPER = {
    "Constant": {"individual_mse": 0.010, "bag_mse": 0.366},
    "VBAgg": {"individual_nll": -1.69, "individual_mse": 0.0018, "bag_nll": 0.003, "bag_mse": 0.052},
    "VBAgg-Obj": {"individual_nll": -1.71, "individual_mse": 0.0018, "bag_nll": -0.02, "bag_mse": 0.052},
    "Nystrom": {"individual_nll": -1.57, "individual_mse": 0.0024, "bag_nll": 0.003, "bag_mse": 0.041},
    "NN": {"individual_nll": -1.64, "individual_mse": 0.0021, "bag_nll": 0.082, "bag_mse": 0.041},
}
P_VALUES: report.PValues = {
    ("VBAgg", "Nystrom"): {"individual_nll": 1.5e-13, "individual_mse": 8.9e-16},
    ("VBAgg", "NN"): {"individual_nll": 1.258e-4, "individual_mse": 8.8e-10},
}


class Elevators(Experiment):
    """The table of the appendix."""

    name = "elevators"
    title = "Elevators, Normal"
    methods = tuple(METHODS)
    left_to_ask = ("VBAgg-Adam",)
    options = ("bag_mean", "bag_std")
    overview_scores, formats = tuple(SCORES), FORMATS
    paper_scores, paper_p_values = PAPER, P_VALUES

    def check(self, settings: Settings) -> None:
        """See also that the data are there, or can be fetched, before any work starts."""
        super().check(settings)
        try:
            with warnings.catch_warnings(action="ignore"):  # of attempts to connect
                datasets.elevators(download=True)
        except OSError as error:
            raise ValueError(
                "Experiment 'elevators' needs its data: set VBAGG_DATA to the folder that contains elevators/data.csv,"
                f" or go online to fetch them from OpenML, which failed here ({type(error).__name__}: {error})."
            ) from None

    def tasks(self, settings: Settings) -> list[Task]:  # noqa: D102
        asked = settings.options.get("bag_mean")
        means = list(SIZES) if asked is None else [asked]
        return [
            Task({"bag_mean": mean, "repetition": repetition, "method": method})
            for repetition in range(settings.repetitions_or(50))
            for mean in means
            for method in self.chosen_methods(settings)
        ]

    def parts(self, table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
        """Rows of each mean size of bags."""
        return [(f"bags of {mean:g}", rows) for mean, rows in table.groupby("bag_mean")]

    def run(self, task: Task, settings: Settings) -> Scores:  # noqa: D102
        mean = task["bag_mean"]
        std = settings.options.get("bag_std", SIZES.get(mean, mean / 2))
        split, truth = _data(task["repetition"], mean, std)
        tuned = tune(METHODS[task["method"]], split, settings.quick)
        return {
            **individual_scores(tuned.model, split.train, truth),
            **bag_scores(tuned.model, split.test),
            "tau": tuned.model.likelihood_parameters_["tau"],
            **tuned.selection,
        }

    def report(self, table: pd.DataFrame, folder: Path, settings: Settings) -> list[Path]:  # noqa: D102
        columns = report.present(table, SCORES)
        sections = []
        for part, rows in self.parts(table):
            frame = summary(rows, ["method"], columns, formats=FORMATS)
            paper = {method: {k: v for k, v in numbers.items() if k in frame} for method, numbers in PAPER.items()}
            sections.append(
                f"## {part.capitalize()} individuals on average\n\n{markdown_table(with_paper(frame, paper))}\n"
                + report.significance_section(
                    rows, ["VBAgg", "VBAgg-Obj"], SCORES[:2], ["repetition"], P_VALUES
                ).replace("## ", "### ")
            )
        note = (
            "Squared errors are against observed outputs, not their unknown means, as in the paper. Coverage is of"
            " observed outputs of individuals by intervals that include the noise."
        )
        caption = "Coverage of the outputs of training individuals, which no method has seen."
        drawn = report.coverage_figure(table, folder, caption)
        return [report.write_page(folder, self.title, table, [note, *sections], drawn), *drawn.values()]


@lru_cache(maxsize=1)
def _data(seed: int, mean: float, std: float) -> tuple[Split, Truth]:
    return separate(datasets.elevators_parts(seed, mean, std, download=True))
