"""What the paper claims, and whether our rows agree.

A claim is judged by rows alone: "holds", "holds with ..." (or "but for ...") a part of it, "does not hold", or "not run
yet".
Sentences are ours; each names the place in the paper.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from vbagg.significance import wilcoxon_table

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.05
HOLDS, NOT, UNKNOWN = "holds", "does not hold", "not run yet"
INDIVIDUAL = ("individual_nll", "individual_mse")
WORDS = {
    "individual_nll": "NLL",
    "individual_mse": "MSE",
    "bag_nll": "bag NLL",
    "bag_log_mse": "bag log-MSE",
    "coverage_error": "coverage error",
}


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim and the numbers behind it."""

    verdict: str
    evidence: str


@dataclass(frozen=True)
class Claim(ABC):
    """One sentence of the paper about one experiment."""

    experiment: str
    words: str

    @abstractmethod
    def judge(self, table: pd.DataFrame, pair_by: Sequence[str]) -> Judgement:
        """Verdict from the rows of the experiment."""


@dataclass(frozen=True)
class Better(Claim):
    """Each reference is better than each other method in each score, by one-sided Wilcoxon tests."""

    references: tuple[str, ...]
    others: tuple[str, ...]
    scores: tuple[str, ...] = INDIVIDUAL

    def judge(self, table: pd.DataFrame, pair_by: Sequence[str]) -> Judgement:  # noqa: D102
        tests = {
            f"{one} over {other} ({WORDS[score]})": p_value(table, score, one, other, pair_by)
            for one, other, score in product(self.references, self.others, self.scores)
        }
        return _by_parts(tests, [name for name, p in tests.items() if p < LEVEL])


@dataclass(frozen=True)
class NoDifference(Claim):
    """Neither of two methods is better than the other."""

    pairs: tuple[tuple[str, str], ...]
    scores: tuple[str, ...] = INDIVIDUAL

    def judge(self, table: pd.DataFrame, pair_by: Sequence[str]) -> Judgement:  # noqa: D102
        tests = {}
        for (one, other), score in product(self.pairs, self.scores):
            sides = [p_value(table, score, *order, pair_by) for order in ((one, other), (other, one))]
            better, p = (one, sides[0]) if sides[0] < sides[1] else (other, sides[1])
            tests[f"{better} over {other if better == one else one} ({WORDS[score]})"] = p
        return _by_parts(tests, [name for name, p in tests.items() if p >= LEVEL])


@dataclass(frozen=True)
class Within(Claim):
    """The mean of a score of each method lies in a range."""

    methods: tuple[str, ...]
    score: str
    least: float = -math.inf
    most: float = math.inf

    def judge(self, table: pd.DataFrame, pair_by: Sequence[str]) -> Judgement:  # noqa: D102
        means = {m: float(table.loc[table["method"] == m, self.score].mean()) for m in self.methods}
        inside = [method for method, mean in means.items() if self.least <= mean <= self.most]
        evidence = f"{WORDS[self.score]}: " + ", ".join(f"{method} {mean:.3g}" for method, mean in means.items())
        return Judgement(_verdict(means, inside), evidence)


def p_value(table: pd.DataFrame, score: str, one: str, other: str, pair_by: Sequence[str]) -> float:
    """Of "one is not better than the other"; NaN where there are too few rows for a test."""
    if not {one, other} <= set(table["method"]) or score not in table:
        return math.nan
    return float(wilcoxon_table(table, score, one, pair_by, [other])["p_value"].iloc[0])


def _by_parts(tests: dict[str, float], true: list[str]) -> Judgement:
    """Verdict from p-values of the parts of a claim, and those parts that are true."""
    evidence = "; ".join(f"{name} p = {p:.2g}" for name, p in tests.items() if not math.isnan(p))
    return Judgement(_verdict(tests, true), evidence)


def _verdict(numbers: dict[str, float], true: list[str]) -> str:
    known = [name for name, number in numbers.items() if not math.isnan(number)]
    if len(known) < len(numbers):
        return UNKNOWN
    if len(true) == len(known):
        return HOLDS
    if not true:
        return NOT
    false = [name for name in known if name not in true]
    return f"holds but for {', '.join(false)}" if len(false) < len(true) else f"holds with {', '.join(true)}"


POISSON_BASELINES = ("Nystrom-Exp", "NN-Exp")
EVERY_VBAGG = ("VBAgg-Sq", "VBAgg-Exp", "VBAgg-Sq-Obj", "VBAgg-Exp-Obj")
WELL, POORLY = 0.1, 0.2
"""Coverage errors up to which intervals count as calibrated, and from which on as not."""


def _swiss(experiment: str) -> list[Claim]:
    return [
        Better(
            experiment,
            "VBAgg has lower errors of individuals than Nystrom and the network (section 4.1, tables of p-values)",
            ("VBAgg-Sq", "VBAgg-Exp"),
            POISSON_BASELINES,
        ),
        NoDifference(experiment, "The two links do not differ in error (appendix)", (("VBAgg-Sq", "VBAgg-Exp"),)),
        Within(
            experiment,
            "With the square link intervals are calibrated (section 4.1)",
            ("VBAgg-Sq", "VBAgg-Sq-Obj"),
            "coverage_error",
            most=WELL,
        ),
        Within(
            experiment,
            "With the exp link they are not (section 4.1)",
            ("VBAgg-Exp", "VBAgg-Exp-Obj"),
            "coverage_error",
            least=POORLY,
        ),
    ]


def _normal(experiment: str) -> list[Claim]:
    return [
        Better(
            experiment,
            "VBAgg has lower errors of individuals than Nystrom and the network (appendix)",
            ("VBAgg",),
            ("Nystrom", "NN"),
        ),
        Within(
            experiment,
            "Its intervals are calibrated (appendix)",
            ("VBAgg", "VBAgg-Obj"),
            "coverage_error",
            most=WELL,
        ),
    ]


CLAIMS: list[Claim] = [
    *_swiss("swiss-bags"),
    Better(
        "swiss-bags",
        "So has every version of VBAgg (section 4.1)",
        EVERY_VBAGG[2:],
        (*POISSON_BASELINES, "Bag-pixel", "Constant"),
    ),
    Within("swiss-bags", "Bag-pixel is poor: MSE above 3 (appendix)", ("Bag-pixel",), "individual_mse", least=3.0),
    *_swiss("swiss-individuals"),
    *_normal("swiss-normal-bags"),
    *_normal("swiss-normal-individuals"),
    Better(
        "elevators",
        "VBAgg has lower errors of individuals than Nystrom and the network (appendix)",
        ("VBAgg",),
        ("Nystrom", "NN"),
    ),
    Better(
        "malaria",
        "VBAgg has lower errors of unseen districts than a constant and the network (section 4.2)",
        ("VBAgg-Sq",),
        ("Constant", "NN-Exp"),
        ("bag_nll", "bag_log_mse"),
    ),
    NoDifference(
        "malaria",
        "Nystrom is not better than VBAgg in unseen districts (section 4.2)",
        tuple((method, "Nystrom-Exp") for method in EVERY_VBAGG),
        ("bag_nll",),
    ),
    NoDifference(
        "malaria",
        "Choosing by the objective or by validation bags makes no difference (appendix)",
        (("VBAgg-Sq", "VBAgg-Sq-Obj"), ("VBAgg-Exp", "VBAgg-Exp-Obj")),
        ("bag_nll",),
    ),
]
