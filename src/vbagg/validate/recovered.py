"""What refits to simulated outputs recover of the rates inside bags, and how well their intervals hold."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbagg import numerals
from vbagg.texts import texts_in
from vbagg.validate.bag_scores import LEVELS, percent

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
DIGITS = 8
"""Significant ones of the numbers that are kept."""
UNEXPLAINED, OF_OUTPUTS, OF_MEANS = "unexplained", "of_outputs", "of_means"
"""Columns: weighted sums over a bag's individuals of squared distances from their true rates. Of what the model
estimates, of the bag's own rate by its simulated output, and of its true mean rate."""
DIFFERENCES_LEFT, DIFFERENCES = "differences_left", "differences"
"""Columns: weighted sums over some of a bag's individuals of squared differences between their rates, as square roots
if outputs are counts: of the true ones what the model leaves, and all."""
INSIDE, SCORES = ([f"{name}_{percent(level)}" for level in LEVELS] for name in ("coverage", "interval_score"))
"""Columns: weighted means over a bag's individuals."""
R2_WITHIN, R2_OF_MEANS, SKILL = "r2_within", "r2_of_means", "skill"
MEASURES = (R2_WITHIN, R2_OF_MEANS, SKILL, *INSIDE, *SCORES)


@dataclass(frozen=True, eq=False)
class Refit:
    """One refit to outputs that were simulated from a fitted model."""

    number: int
    table: pd.DataFrame
    """One row for each bag that is scored: `bag`, `weight`, sums of squares and means over its individuals."""
    seconds: float
    failure: str = ""
    """Why there is no result, if there is none."""
    converged: bool = True

    def to_json(self) -> str:
        """Text from which `from_json` makes this result again; labels must be text or numbers."""
        columns = {name: self.table[name].tolist() for name in self.table.columns}
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        try:
            return json.dumps({**content, "table": columns})
        except TypeError as error:
            raise ValueError(f"Labels of bags must be text or numbers to be stored: {error}.") from None

    @classmethod
    def from_json(cls, text: str) -> Refit:
        """Read what `to_json` wrote."""
        import pandas as pd

        content = json.loads(text)
        content["table"] = table = pd.DataFrame(content["table"])
        for name in table.columns.difference(["bag"]):
            if not pd.api.types.is_numeric_dtype(table[name]):
                raise ValueError(f"the column {name!r} of a refit must hold numbers; it holds others")
        return cls(**content)

    def measures(self) -> dict[str, float]:
        """Numbers of `MEASURES` over all bags that are scored; NaN where there are none."""
        return measures_of(self.table) if len(self.table) else dict.fromkeys(MEASURES, np.nan)


def measures_of(table: pd.DataFrame) -> dict[str, float]:
    """Numbers of `MEASURES` over the rows of a table of bags."""
    weight = table["weight"].to_numpy()
    shares = {
        R2_WITHIN: (UNEXPLAINED, OF_OUTPUTS),
        R2_OF_MEANS: (UNEXPLAINED, OF_MEANS),
        SKILL: (DIFFERENCES_LEFT, DIFFERENCES),
    }
    found = {name: _share_explained(*(float(table[column].sum()) for column in own)) for name, own in shares.items()}
    return found | {name: float(np.average(table[name], weights=weight)) for name in (*INSIDE, *SCORES)}


def _share_explained(left: float, whole: float) -> float:
    return 1 - left / whole if whole > 0 else np.nan


@dataclass(frozen=True, eq=False)
class Recovery:
    """What a model would recover of the rates inside bags, if it were right, by refits to outputs of known truths.

    Rates are those per `per` units of weight. All is weighted by the individuals' weights.

    Parameters
    ----------
    refits
        Results of all refits.
    per
        Unit of rates.
    notes
        What a user should know of them.
    """

    refits: tuple[Refit, ...]
    per: float = 1.0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "refits", tuple(self.refits))
        object.__setattr__(self, "notes", tuple(self.notes))
        if not self.refits:
            raise ValueError("`refits` must hold one result at least; got none.")
        if not self.per > 0:
            raise ValueError(f"`per` must be positive; got {self.per!r}.")

    @property
    def failures(self) -> dict[int, str]:
        """Refits that failed, by number, with the reason."""
        return {refit.number: refit.failure for refit in self.refits if refit.failure}

    @property
    def has_results(self) -> bool:
        """Whether any refit ended well."""
        return len(self.failures) < len(self.refits)

    @property
    def seconds(self) -> float:
        """Time of all refits, with drawing truths and scoring."""
        return sum(refit.seconds for refit in self.refits)

    @property
    def r2_within(self) -> float:
        """Share recovered of what the bags' own rates leave unexplained of the rates inside them, averaged: MATH (35).

        1 less the weighted squared error of the model's estimates over that of one rate for each bag, which is its
        simulated output over its weight. 1 is all, 0 no better than one rate for each bag, below 0 worse.
        """
        return float(self.summary().at[R2_WITHIN, "mean"])

    @property
    def skill(self) -> float:
        """Share of the differences between the individuals of a bag that the model explains, averaged: MATH (36).

        On the scale of `Nested.scales`: square roots of rates where outputs are counts, less the mean of the bag.
        """
        return float(self.summary().at[SKILL, "mean"])

    def coverage(self, level: float = 0.9) -> float:
        """Share of the weight of individuals whose true rates lie inside their central intervals, on average."""
        if level not in LEVELS:
            raise ValueError(f"`level` must be one of {', '.join(map(str, LEVELS))}; got {level!r}.")
        return float(self.summary().at[f"coverage_{percent(level)}", "mean"])

    def table(self) -> pd.DataFrame:
        """One row for each bag and refit, in units of weight; what its columns are says `Refit`."""
        import pandas as pd

        return pd.concat([refit.table.assign(refit=refit.number) for refit in self.refits], ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """Measures over all bags: `mean` over refits, its `std_error`, and the numbers of each refit.

        `r2_within`; `r2_of_means`, the same against the true mean rate of each bag; `skill`; `coverage_90` and
        `interval_score_90` of individuals' central intervals at each level.
        """
        import pandas as pd

        found = pd.DataFrame({refit.number: refit.measures() for refit in self.refits if not refit.failure})
        found = found.reindex(list(MEASURES))
        found.loc[SCORES] *= self.per
        mean, n = found.mean(axis=1), found.shape[1]
        error = found.std(axis=1) / np.sqrt(n) if n > 1 else np.nan
        numbers = found.add_prefix("refit_")
        return pd.concat([pd.DataFrame({"mean": mean, "std_error": error}), numbers], axis=1).rename_axis("measure")

    def by_bag(self) -> pd.DataFrame:
        """The measures of each bag, over the refits that it was scored in: `bag`, `weight`, `refits` and `MEASURES`."""
        import pandas as pd

        rows = []
        for label, own in self.table().groupby("bag", sort=False):
            weight = float(own["weight"].iloc[0])
            rows.append({"bag": label, "weight": weight, "refits": len(own), **measures_of(own)})
        found = pd.DataFrame(rows, columns=["bag", "weight", "refits", *MEASURES])
        found[SCORES] *= self.per
        return found

    def with_unit(self, per: float) -> Recovery:
        """The same results with another unit of rates."""
        return replace(self, per=per)

    def sentences(self, bags: str = "bags", individuals: str = "individuals", level: float = 0.9) -> list[str]:
        """The outcome in plain words, and what it rests on."""
        say, made, failed = texts_in(), len(self.refits) - len(self.failures), self.failures
        bags, individuals = say.noun(bags), say.noun(individuals)
        told = []
        if made:
            share, error = self.summary().loc[R2_WITHIN, ["mean", "std_error"]]
            kind = "recovers" if share > 0 else "recovers_nothing"
            known = say("recovery.unknown") if np.isnan(error) else numerals.percent(error, 1)
            held = {"level": numerals.level(level), "held": numerals.percent(self.coverage(level))}
            told = [
                say(f"recovery.{kind}", bags=bags, share=numerals.percent(share), error=known),
                say("recovery.held", individuals=individuals, **held),
                say("recovery.basis", n=made),
            ]
        if failed:
            reason = next(iter(failed.values()))
            told.append(say("recovery.failed", number=len(failed), refits=len(self.refits), reason=reason))
        return [*told, *self.notes]

    def to_json(self) -> str:
        """Text from which `from_json` makes this again, with the summary for other programs."""
        known = self.summary()[["mean", "std_error"]].astype(object)
        summary = known.where(known.notna(), None).to_dict(orient="index")
        refits = [json.loads(refit.to_json()) for refit in self.refits]
        return json.dumps({"per": self.per, "notes": self.notes, "summary": summary, "refits": refits})

    @classmethod
    def from_json(cls, text: str) -> Recovery:
        """Read what `to_json` wrote."""
        content = json.loads(text)
        refits = tuple(Refit.from_json(json.dumps(refit)) for refit in content["refits"])
        return cls(refits, float(content["per"]), tuple(content["notes"]))

    def __str__(self) -> str:
        return " ".join(self.sentences())


def rounded(values: Any) -> list[float]:
    """Numbers with as many digits as are kept."""
    return [float(f"{value:.{DIGITS}g}") for value in np.asarray(values, dtype=float).tolist()]
