"""The paper's swiss roll, equal to the authors' data for equal seeds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vbagg.datasets.aggregate import PARTS, Floats, Integers, SimulatedData, draw_sizes, require_size_law
from vbagg.errors import unknown_name


def swiss_roll(
    n_bags: int = 150,
    mean_size: float = 150,
    std_size: float = 50,
    seed: int = 0,
    likelihood: str = "poisson",
    part: str = "train",
    rate_scale: float = 1.0,
    test_bags: int = 500,
) -> SimulatedData:
    """One part of the paper's swiss roll experiment, equal to the authors' data for equal seeds.

    Points of a roll, rotated into 18 dimensions, are cut into bags along one axis of the roll. The angle
    ``t`` of an individual sets its rate: Poisson counts of mean ``rate_scale * t / 2``, or normal outputs of
    variance 0.01 whose mean runs from 0 to 1 along the roll.

    Parameters
    ----------
    n_bags
        Number of bags of every part but the test part, which has ``test_bags``.
    mean_size, std_size
        Bag sizes are one plus a negative binomial, with this mean and standard deviation.
    seed
        Seed of the experiment; the four parts draw independently from seeds derived from it.
    likelihood
        ``"poisson"`` or ``"normal"``.
    part
        ``"train"``, ``"early_stop"``, ``"validation"`` or ``"test"``. Each is standardised by the train part.
    rate_scale
        Factor on the Poisson rate; small values make low counts.
    test_bags
        Number of bags of the test part.
    """
    if part not in PARTS:
        raise unknown_name("part", part, PARTS)
    draw = _RollDraw(n_bags, test_bags, mean_size, std_size, seed, likelihood, rate_scale)
    return draw.standardised([part])[part]


def swiss_roll_parts(
    n_bags: int = 150,
    mean_size: float = 150,
    std_size: float = 50,
    seed: int = 0,
    likelihood: str = "poisson",
    rate_scale: float = 1.0,
    test_bags: int = 500,
    held_out_bags: int | None = None,
) -> dict[str, SimulatedData]:
    """All four parts of :func:`swiss_roll` by name, standardised by the train part.

    ``held_out_bags`` is the number of early-stop and validation bags each; None: as many as for training.
    """
    draw = _RollDraw(n_bags, test_bags, mean_size, std_size, seed, likelihood, rate_scale, held_out_bags)
    return draw.standardised(PARTS)


@dataclass(frozen=True)
class _RollDraw:
    n_bags: int
    test_bags: int
    mean_size: float
    std_size: float
    seed: int
    likelihood: str
    rate_scale: float
    held_out_bags: int | None = None

    def __post_init__(self) -> None:
        if self.likelihood not in ("poisson", "normal"):
            raise unknown_name("likelihood", self.likelihood, ("poisson", "normal"))
        for name in ("n_bags", "test_bags", "rate_scale"):
            if not getattr(self, name) > 0:
                raise ValueError(f"`{name}` must be positive; got {getattr(self, name)}.")
        if self.likelihood == "normal" and self.rate_scale != 1:
            raise ValueError(f"`rate_scale` scales Poisson rates only; got {self.rate_scale} with 'normal'.")
        require_size_law(self.mean_size, self.std_size)

    def standardised(self, parts: Iterable[str]) -> dict[str, SimulatedData]:
        from vbagg.bags import Bags

        raw = {part: self._raw(part) for part in {"train", *parts}}
        centre, spread = raw["train"][0].mean(axis=0), raw["train"][0].std(axis=0)
        result = {}
        for part in parts:
            X, sizes, rate, individual_y = raw[part]
            bag = np.repeat(np.arange(len(sizes)), sizes)
            y = np.add.reduceat(individual_y, np.cumsum(sizes) - sizes)
            result[part] = SimulatedData(Bags((X - centre) / spread, bag), y, rate, individual_y)
        return result

    def _raw(self, part: str) -> tuple[Floats, Integers, Floats, Floats]:
        """Features, bag sizes, rates and outputs, drawn in the authors' order: sizes, roll, outputs."""
        from sklearn.datasets import make_swiss_roll

        part_seeds = np.random.RandomState(self.seed).randint(2**32, size=len(PARTS), dtype=np.int64)
        random = np.random.RandomState(part_seeds[PARTS.index(part)])
        held_out = self.held_out_bags or self.n_bags
        n_bags = {"train": self.n_bags, "test": self.test_bags}.get(part, held_out)
        sizes = draw_sizes(random, n_bags, self.mean_size, self.std_size)
        roll, angle = make_swiss_roll(sizes.sum(), noise=0.0, random_state=random)
        downwards = np.argsort(roll[:, 2])[::-1]
        roll, angle = roll[downwards], angle[downwards]
        if self.likelihood == "poisson":
            rate = self.rate_scale * (0.5 * angle)
            individual_y = random.poisson(rate).astype(float)
        else:
            rate = (angle - 4.7124) / (14.137 - 4.7124)  # 1.5 pi to 4.5 pi, rounded as by the authors
            individual_y = random.normal(rate, scale=0.1)
        return _embed(roll), sizes, rate, individual_y


def _embed(roll: Floats, dimension: int = 18) -> Floats:
    """Rotate the roll into ``dimension`` columns by a fixed orthogonal matrix."""
    uniform = np.random.RandomState(23).uniform(0, 2, (dimension, dimension))
    rotation = np.linalg.qr(uniform).Q
    return roll @ rotation[: roll.shape[1]]
