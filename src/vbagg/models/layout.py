"""How the individuals of a fit are laid out in arrays: decided once, from the data and what the inference asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vbagg.bags import Bags
from vbagg.chunks import PASSES, PASSES_OF_A_SEARCH, SHAPE_COST, Chunk, Groups, make_chunks, uniform_residual
from vbagg.elbo import Spec
from vbagg.inference import Problem, Traits
from vbagg.inference.problem import LONG
from vbagg.models.setup import TrainingData
from vbagg.representatives import NUMBERS, Representation, Representatives


@dataclass(frozen=True)
class Layout:
    """Precision, tiles, residual modes and representatives of a fit."""

    n_columns: int
    """Features of an individual."""
    residual: str
    tiled: bool
    single: bool
    """Whether features are computed in single precision."""
    representatives: int | str | None
    """Individuals that stand for a larger bag in a search; None for all."""
    memory: float
    random_state: int

    @classmethod
    def of(
        cls,
        traits: Traits,
        approximation: str,
        residual: str,
        sizes: np.ndarray,
        n_columns: int,
        memory: float,
        random_state: int,
    ) -> Layout:
        """For bags of these sizes."""
        mode = uniform_residual(residual, sizes) if traits.any_batch else residual
        few = None if mode == "diagonal" else traits.representatives
        single = single_precision(traits.precision, approximation, most(few), sizes, n_columns)
        return cls(n_columns, mode, not traits.any_batch, single, few, memory, random_state)

    def problem(self, spec: Spec, data: TrainingData, landmarks: tuple[Any, ...]) -> Problem:
        """The problem of a fit, with representatives of the bags where a search would gain by them."""
        bags, known = data.frame.standardised(data.bags, data.offset)
        chosen = self._representatives(bags, known)
        passes = PASSES_OF_A_SEARCH if chosen is None else PASSES
        problem = Problem(spec, self._chunks(data, bags, known, self.residual, passes), landmarks, self.memory)
        if chosen is not None:
            pairs = "exact" if self.residual == "exact" else "auto"

            def search_among(few: Representation) -> Problem:
                chunks = self._chunks(data, few.bags, few.known, pairs, PASSES_OF_A_SEARCH, few.groups)
                return Problem(spec, chunks, landmarks, self.memory)

            problem.represent(chosen, search_among)
        return problem

    def _chunks(
        self,
        data: TrainingData,
        bags: Bags,
        known: np.ndarray,
        residual: str,
        passes: int,
        groups: Groups | None = None,
    ) -> list[Chunk]:
        return make_chunks(
            bags,
            data.y,
            data.facts,
            known,
            residual,
            random_state=self.random_state,
            n_columns=self.n_columns,
            tiled=self.tiled,
            precision=np.float32 if self.single else np.float64,
            passes=passes,
            groups=groups,
        )

    def _representatives(self, bags: Bags, known: np.ndarray) -> Representatives | None:
        """Individuals that stand for the bags while parameters are searched for; None where that would save little."""
        number = most(self.representatives)
        if number is None:
            return None
        fixed = None if self.representatives == "auto" else number
        long = bool((bags.sizes > number).any())
        if fixed is None and not long:
            possible = np.maximum(bags.sizes - NUMBERS[0], 0).sum()
            long = possible * self.n_columns**2 * PASSES_OF_A_SEARCH > SHAPE_COST
        return Representatives(bags, known, fixed) if long else None


def most(representatives: Any) -> int | None:
    """Representatives that a bag has at most when a search begins; None for all individuals."""
    return NUMBERS[1] if representatives == "auto" else representatives


def single_precision(
    precision: str, approximation: str, representatives: int | None, sizes: np.ndarray, n_columns: int
) -> bool:
    """Whether features of individuals are computed in single precision: where the work ahead is long.

    Draws need the residual's factor, and a residual computed in single precision has none.
    """
    if precision == "auto" and approximation != "montecarlo":
        searched = np.minimum(sizes, representatives or np.inf)
        products = n_columns**2 * (PASSES * sizes.sum() + PASSES_OF_A_SEARCH * searched.sum())
        precision = "single" if products > LONG else "double"
    if precision == "single" and approximation == "montecarlo":
        raise ValueError('approximation "montecarlo" needs double precision; leave `precision` of Newton at "auto".')
    return precision == "single"
