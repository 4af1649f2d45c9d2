"""Figures that README tells are those of the result files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
README = " ".join((ROOT / "README.md").read_text().split())
PAIRS = ("poisson-exp", "poisson-square", "nb-exp", "normal-identity", "binomial-logistic")
CRIMES = ("burglary", "theft", "vehicle", "violence")


def results(name: str) -> Any:
    return json.loads((ROOT / "benchmarks/results" / f"{name}.json").read_text())


def joined(numbers: list[str]) -> str:
    return ", ".join(numbers[:-1]) + " and " + numbers[-1]


def calibration() -> list[str]:
    found = results("calibration")["summary"]

    def of(level: str, key: str, form: str, factor: float = 1.0) -> list[str]:
        return [f"{factor * found[f'{pair}-{level} average'][key][0]:{form}}" for pair in PAIRS]

    held = {level: of(level, "individuals.coverage.3", ".1f", 100) for level in ("1e2", "1e4", "1e5")}
    first = (
        "hold {}% (before 82.2%) for Poisson with exp link, {}% (82.2%) with square link, {}% (86.5%) for the negative"
    )
    return [
        first.format(*held["1e2"][:3]),
        f"{held['1e2'][3]}% (86.7%) for the Normal, {held['1e2'][4]}% (86.3%) for the binomial",
        f"Interval scores {', '.join(of('1e2', 'individuals.interval_score_95', '.2f'))} (before",
        f"root mean squared errors {', '.join(of('1e2', 'individuals.rmse', '.3f'))} (",
        f"With mean totals of 10,000: {joined(held['1e4'])}%",
        f"of 100,000, ten sets each: {joined(held['1e5'])}%",
    ]


def nested() -> list[str]:
    ways = {row["case"]: row["ways"]["conditioned"] for row in results("nested")["rows"]}
    held = {name: f"{100 * way['coverage'][2]:.0f}" for name, way in ways.items()}
    from_msoas, from_boroughs = ([held[f"london-{crime}-{level}"] for crime in CRIMES] for level in ("msoa", "borough"))
    country = ways["madagascar"]
    return [
        f"from 982 MSOAs hold {joined(from_msoas)}%",
        f"from 32 boroughs {joined(from_boroughs)}%",
        f"absolute error {country['mae']:.1f} per 1000 (constant map 34.7)",
        f"intervals hold {held['madagascar']}%",
    ]


def madagascar() -> list[str]:
    scores = results("madagascar")["scores"]
    told = f"CRPS {scores['crps']:.1f}, absolute error of the median {scores['mae_median']:.1f}, 95% intervals cover"
    return [f"{told} {scores['coverage_95']:.3f}"]


def swiss_roll() -> list[str]:
    square, exp = (row for row in results("swiss_roll")["means"] if row["model"] == "newton, averaged")
    errors = f"individuals: {square['individual_mse']:.2f} and {exp['individual_mse']:.2f}, a constant"
    return [f"by {square['coverage_error']:.3f} (square) and {exp['coverage_error']:.3f} (exp) on average", errors]


def surfaces() -> list[str]:
    found = {(row["case"], row["kernel"]): row for row in results("surfaces")["summary"]}

    def pair(key: str, form: str, square: str = "", exp: str = "") -> str:
        first, second = (f"{found[f'roll-{link}', 'graph'][key]:{form}}" for link in ("square", "exp"))
        return f"{first}{square} and {second}{exp}"

    def cost(case: str) -> str:
        return f"{100 * (found[case, 'rbf + graph']['mse'] / found[case, 'rbf']['mse'] - 1):.1f}%"

    return [
        f"squared errors of {pair('mse', '.3f', ' (square)', ' (exp)')}",
        f"miss their level by {pair('coverage_error', '.2f')}",
        f"of that shape by {pair('chance_coverage_error', '.2f')}",
        f"pooled over the five, by {pair('pooled_coverage_error', '.2f')}",
        f"by {cost('cube')} (five independent columns) and {cost('elevators')} (elevators)",
    ]


def million() -> list[str]:
    (run,) = (
        r for r in results("scaling")["runs"] if (r["study"], r["link"], r["pixels"]) == ("pixels", "exp", 1044683)
    )
    return [
        f"fit in {run['fit']['seconds'] / 60:.1f} minutes on 2 cores and {run['peak_gb']['fit']:.1f} GB",
        f"in {run['stages']['predict']['seconds']:.0f} seconds, 90% intervals hold {100 * run['coverage_90']:.0f}%",
    ]


def whole_job() -> list[str]:
    found = results("geo_job")
    versions = [found[name] for name in found if isinstance(found[name], dict) and "warm" in found[name]]
    before, now = ({kind: version[kind]["whole"] for kind in ("cold", "warm")} for version in versions[:2])
    cold, warm = (f"{now[kind]['cpu_seconds']:.0f} CPU seconds and {now[kind]['peak_gb']:.1f} GB" for kind in now)
    fit = f"the fit takes {found['now']['warm']['stages']['models']['cpu_seconds']:.0f}, and {cold} in a first run"
    earlier = f"{before['warm']['cpu_seconds']:.0f} and {before['cold']['cpu_seconds']:.0f} CPU seconds (`geo_job.py`)"
    return [f"without validation: {warm}", fit, earlier]


def malaria() -> list[str]:
    rows = pd.read_csv(ROOT / "docs/results/malaria-default/repetitions.csv").groupby("method")["coverage_error"].mean()
    told = f"by {rows['VBAgg-Default']:.2f} (negative binomial) and {rows['VBAgg-Default-Poisson']:.2f} (Poisson)"
    return [told]


@pytest.mark.parametrize(
    "told",
    [calibration, nested, madagascar, swiss_roll, surfaces, million, whole_job, malaria],
    ids=lambda f: f.__name__,
)
def test_figures_are_those_of_the_results(told):
    for text in told():
        assert text in README


def test_the_figures_of_the_page_on_survey_points_are_those_of_the_file():
    page = (ROOT / "docs" / "survey-points.md").read_text()
    rows = pd.json_normalize(results("points")["rows"])
    means = rows.groupby(["case", "way"]).mean(numeric_only=True)
    groups = {"all": ("all", "surveyed", "nearest", "farthest"), "gaps": ("all", "unreported")}
    for (case, way), own in means.iterrows():
        cells = [
            f"{own[f'{group}.error']:.1f} / {100 * own[f'{group}.coverage']:.0f}%"
            f" / {own[f'{group}.interval_score']:.0f}"
            for group in groups[case]
        ]
        assert f"| {' | '.join(cells)} |" in page, (case, way)
    slopes = rows[rows["way"] == "learnt"]["learnt"].map(lambda learnt: learnt[0]["slope"])
    assert f"from {slopes.min():.2f} to {slopes.max():.2f} (truth 1)" in page
    binomial = rows[(rows["way"] == "binomial") & (rows["case"] == "all")]["learnt"]
    intercept = binomial.map(lambda learnt: learnt[0]["intercept"]).mean()
    assert f"{intercept:.2f} on average (truth -1.73)" in page
