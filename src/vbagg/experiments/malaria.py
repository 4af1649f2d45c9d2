"""Malaria: a simulated twin of the paper's confidential country, whose true rates are known."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vbagg import datasets, kernels, metrics
from vbagg.datasets import SimulatedCountry
from vbagg.datasets.country import N_DISTRICTS
from vbagg.experiments import pictures, report
from vbagg.experiments.base import Experiment, Scores, Settings, Task
from vbagg.experiments.methods import default_methods, overdispersed_methods, poisson_methods
from vbagg.experiments.scores import bag_scores, individual_scores, training_rates
from vbagg.experiments.splits import Observed, Split, Truth
from vbagg.experiments.tables import markdown_table, summary, with_paper
from vbagg.experiments.tuning import Method, tune
from vbagg.landmarks import default_number

if TYPE_CHECKING:
    import pandas as pd

COORDINATES = ("x", "y")
SCALES = {"full": 1.0, "quick": 0.01}
"""Share of the paper's 1,044,683 pixels when `--scale` is not given."""
SCORES = [
    "bag_nll",
    "bag_log_mse",
    "bag_log_density",
    "pixel_log_mse",
    "test_pixel_log_mse",
    "individual_mse",
    "coverage_error",
]
UNITS = {
    "distance_to_water": "km",
    "night_lights": "brightness",
    "wetness_index": "index",
    "elevation": "m",
    "temperature_suitability": "0 to 1",
}
FORMATS = dict.fromkeys(SCORES, ".2f") | {"bag_nll": ".1f", "individual_mse": ".0f"}
PAPER = {
    "Constant": {"bag_nll": 173.1, "bag_log_mse": 4.08},
    "Nystrom-Exp": {"bag_nll": 88.1, "bag_log_mse": 1.31},
    "VBAgg-Sq-Obj": {"bag_nll": 94.1, "bag_log_mse": 1.21},
    "VBAgg-Exp-Obj": {"bag_nll": 97.2, "bag_log_mse": 1.04},
    "VBAgg-Sq": {"bag_nll": 97.6, "bag_log_mse": 1.38},
    "VBAgg-Exp": {"bag_nll": 99.2, "bag_log_mse": 1.21},
    "NN-Exp": {"bag_nll": 164.4, "bag_log_mse": 1.82},
}
P_VALUES: report.PValues = {
    ("VBAgg-Sq", "Constant"): {"bag_nll": 0.0009766, "bag_log_mse": 0.0009766},
    ("VBAgg-Sq", "NN-Exp"): {"bag_nll": 0.01855, "bag_log_mse": 0.001953},
    ("VBAgg-Sq", "Nystrom-Exp"): {"bag_nll": 0.8838, "bag_log_mse": 0.8623},
}


class Malaria(Experiment):
    """The table of the appendix and the maps."""

    name = "malaria"
    title = "Malaria, Poisson: a simulated country"
    methods = tuple(
        name
        for name in (*poisson_methods(kernels.RBF()), *overdispersed_methods(kernels.RBF()), *default_methods())
        if not name.endswith("-Adam")
    )
    left_out_of_quick = ("VBAgg-Sq", "VBAgg-Exp")
    options = ("scale",)
    overview_scores, formats = tuple(SCORES), FORMATS
    paper_scores, paper_p_values = PAPER, P_VALUES

    def tasks(self, settings: Settings) -> list[Task]:  # noqa: D102
        return [
            Task({"repetition": repetition, "method": method})
            for repetition in range(settings.repetitions_or(10))
            for method in self.chosen_methods(settings)
        ]

    def run(self, task: Task, settings: Settings) -> Scores:  # noqa: D102
        split, truth, test_rates = _divided(_scale(settings), task["repetition"])
        tuned = tune(_methods(split)[task["method"]], split, settings.quick)
        scores = individual_scores(tuned.model, split.train, truth)
        assert truth.rate is not None
        return {
            **scores,
            **bag_scores(tuned.model, split.test),
            "pixel_log_mse": _log_mse(truth.rate, training_rates(tuned.model, split.train.bags).mean),
            "test_pixel_log_mse": _log_mse(test_rates, tuned.model.posterior(split.test.bags.X).mean),
            **tuned.selection,
        }

    def report(self, table: pd.DataFrame, folder: Path, settings: Settings) -> list[Path]:  # noqa: D102
        frame = summary(table, ["method"], report.present(table, SCORES), formats=FORMATS)
        paper = {method: {k: v for k, v in numbers.items() if k in frame} for method, numbers in PAPER.items()}
        country = _country(_scale(settings))
        note = (
            f"{len(country.bags)} districts, {country.bags.n_individuals:,} pixels, {country.bags.n_features - 2}"
            " covariates. The paper's figures are for its own, confidential country and are not comparable in size."
            " `pixel_log_mse`: squared error of the logarithm of the rates of training pixels against the truth;"
            " `test_pixel_log_mse`: of pixels in unseen districts. `bag_nll` is under each method's own likelihood:"
            " the methods called NB and VBAgg-Default, which go beyond the paper, have the negative binomial's."
        )
        # their likelihood is another one
        poisson_nll = table["bag_nll"].where(
            ~(table["method"].str.endswith("-NB") | (table["method"] == "VBAgg-Default"))
        )
        tests = report.significance_section(
            table.assign(bag_nll=poisson_nll),
            ["VBAgg-Sq-Obj", "VBAgg-Exp-Obj", "VBAgg-Sq", "VBAgg-Exp"],
            ["bag_nll", "bag_log_mse", "pixel_log_mse", "test_pixel_log_mse"],
            ["repetition"],
            P_VALUES,
        )
        drawn = report.coverage_figure(table, folder, "Coverage of the true rates of training pixels.")
        sections = [note, "## Scores\n\n" + markdown_table(with_paper(frame, paper)), tests]
        return [report.write_page(folder, self.title, table, sections, drawn | _maps(folder)), *drawn.values()]

    def example(self, settings: Settings, folder: Path) -> list[Path]:
        """Draw the maps of the first split."""
        country = _country(_scale(settings))
        split, _, _ = divided(country, 0)
        name = "VBAgg-Exp-NB"
        model = tune(_methods(split)[name], split, settings.quick).model
        posterior = model.posterior(country.bags.X)
        labels = set(split.train.bags.labels)
        unseen = [at for at, label in enumerate(country.bags.labels) if label not in labels]
        centres = country.bags.sum_by_bag(country.bags.X[:, :2]) / country.bags.sizes[:, None]
        marks = pictures.Marks([country.river], centres[unseen], "river", "district not used for training")
        river = pictures.Marks([country.river])
        rates = {
            "district rate (constant)": country.raster(country.district_rate),
            "true rate": country.raster(country.rate),
            f"{name}, mean": country.raster(posterior.mean),
        }
        spread = {f"{name}, sd": country.raster(posterior.std)}
        units = "cases per 1000 people a year"
        names = list(country.relevant)
        covariates = {
            title: country.raster(country.bags.X[:, country.bags.feature_names.index(title)]) for title in names
        }
        return [
            pictures.map_panels(
                rates,
                folder / "rates.png",
                extent=country.extent,
                units=units,
                log=True,
                same_scale=list(rates),
                marks=marks,
            ),
            pictures.map_panels(
                spread, folder / "uncertainty.png", extent=country.extent, units=units, log=True, marks=river
            ),
            pictures.map_panels(
                covariates, folder / "covariates.png", extent=country.extent, units=UNITS, same_scale=(), marks=river
            ),
        ]


def divided(country: SimulatedCountry, seed: int) -> tuple[Split, Truth, np.ndarray]:
    """Districts in four parts, the truth of training pixels, and the true rates of test pixels."""
    positions = datasets.split_bags(country.district_rate, seed=seed)
    parts = {name: Observed(country.bags[at], country.y[at]) for name, at in positions.items()}
    rates = {name: country.rate[np.isin(country.bags.bag, at)] for name, at in positions.items()}
    return Split(**parts), Truth(rates["train"], None), rates["test"]


def _methods(split: Split) -> dict[str, Method]:
    """ARD on covariates plus Matern on space, with one landmark per training bag or, if that is more, the default."""
    bags = split.train.bags
    covariates = tuple(name for name in bags.feature_names if name not in COORDINATES)
    kernel = kernels.RBF(covariates, ard=True) + kernels.Matern32(COORDINATES)
    shares = {len(covariates): len(bags) // 3, len(COORDINATES): len(bags) - len(bags) // 3}
    landmarks = [max(own, default_number(bags.n_individuals, d, len(bags))) for d, own in shares.items()]
    alike = kernels.RBF(covariates) + kernels.Matern32(COORDINATES)
    papers = poisson_methods(kernel, landmarks, alike, landmarks)
    return papers | overdispersed_methods(kernel, landmarks) | default_methods()


def _scale(settings: Settings) -> float:
    return float(settings.options.get("scale", SCALES["quick" if settings.quick else "full"]))


@lru_cache(maxsize=1)
def _country(scale: float) -> SimulatedCountry:
    """The twin; a smaller one has both fewer districts and fewer pixels in each."""
    return datasets.simulated_country(scale, n_districts=round(N_DISTRICTS * scale**0.5))


@lru_cache(maxsize=1)
def _divided(scale: float, seed: int) -> tuple[Split, Truth, np.ndarray]:
    """One object for all methods, so that they can share fits."""
    return divided(_country(scale), seed)


def _log_mse(rate: np.ndarray, estimate: np.ndarray) -> float:
    """Squared error of log rates; estimates below 0.1 per 1000, a district without cases among them, count as that."""
    return metrics.mse(np.log(rate), np.log(np.maximum(estimate, 0.1)))


def _maps(folder: Path) -> dict[str, Path]:
    return {
        "Rates of the first split: observed in districts, true, and estimated.": folder / "rates.png",
        "Posterior standard deviation.": folder / "uncertainty.png",
        "Covariates that the true rate depends on.": folder / "covariates.png",
    }
