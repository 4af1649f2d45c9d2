"""Fit the candidates of a method and choose among them, as the paper does: by bags alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vbagg.errors import unknown_name
from vbagg.experiments.base import Scores
from vbagg.experiments.scores import plug_in_nll
from vbagg.experiments.splits import Split


@dataclass(frozen=True)
class Method:
    """Candidates and how to choose among them.

    Attributes
    ----------
    candidates
        Function that makes the models by what tells them apart, given the quick flag.
    select
        "validation": the lowest plug-in NLL of the validation bags; "objective": the highest ELBO.
    early_stop
        Whether training stops by the early-stop bags.
    """

    candidates: Callable[[bool], Mapping[str, Any]]
    select: str = "validation"
    early_stop: bool = False

    def __post_init__(self) -> None:
        if self.select not in ("validation", "objective"):
            raise unknown_name("select", self.select, ("validation", "objective"))


@dataclass(frozen=True)
class Tuned:
    """The chosen model and how many were compared."""

    model: Any
    chosen: str
    candidates: int
    validation_nll: float

    @property
    def selection(self) -> Scores:
        """How it was chosen, for the row of a repetition."""
        return {"validation_nll": self.validation_nll, "candidates": self.candidates, "chosen": self.chosen}


def tune(method: Method, split: Split, quick: bool = False) -> Tuned:
    """Fit all candidates to the training bags and keep the best; one that diverges is out of the running."""
    candidates = method.candidates(quick)
    held_out: dict[str, Any] = {"early_stop": split.early_stop.pair} if method.early_stop else {}
    losses, ranks = {}, {}
    for name, model in candidates.items():
        try:
            model.fit(split.train.bags, split.train.y, progress=False, **held_out)
        except FloatingPointError:
            continue
        if np.isfinite(model.predict(split.validation.bags)).all():
            losses[name] = plug_in_nll(model, split.validation)
            ranks[name] = -model.elbo_ if method.select == "objective" else losses[name]
    if not ranks:
        raise FloatingPointError(f"None of {len(candidates)} candidates stayed finite.")
    best = min(ranks, key=ranks.__getitem__)
    return Tuned(candidates[best], best, len(candidates), losses[best])
