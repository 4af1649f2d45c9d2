"""The outcome of a cross-validation: a table of all unseen bags and what follows from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg.errors import unknown_name
from vbagg.inputs import some_bags
from vbagg.likelihoods import get_likelihood
from vbagg.validate import tables
from vbagg.validate.words import in_words

if TYPE_CHECKING:
    import pandas as pd

    from vbagg.validate.recovered import Recovery
    from vbagg.validate.scales import Nested
    from vbagg.validate.verdict import Verdict

UNITS = (1.0, 1e3, 1e5, 1e6)
IN_OUTPUT_UNITS = ("y", "mean", "median", "crps", "absolute_error")


@dataclass(frozen=True, eq=False)
class FoldResult:
    """Scores of the bags of one fold."""

    fold: Any
    models: tuple[str, ...]
    """Names, the first that of the model to be judged."""
    likelihood: str
    n_bags: int
    table: pd.DataFrame
    """One row per model and bag; see `Validation.table`."""
    failures: tuple[dict[str, Any], ...] = ()
    """Fits that failed: `fold`, `model`, `bags` (their number) and `reason`."""
    notes: tuple[str, ...] = ()
    seconds: dict[str, float] | None = None
    """Time that each model took."""

    def to_json(self) -> str:
        """Text from which `from_json` makes this result again; labels must be text or numbers."""
        columns = {name: self.table[name].tolist() for name in self.table.columns}
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        try:
            return json.dumps({**content, "table": columns})
        except TypeError as error:
            raise ValueError(f"Labels of bags and folds must be text or numbers to be stored: {error}.") from None

    @classmethod
    def from_json(cls, text: str) -> FoldResult:
        """Read what `to_json` wrote."""
        import pandas as pd

        content = json.loads(text)
        content["table"] = table = pd.DataFrame(content["table"])
        for name in ("models", "failures", "notes"):
            content[name] = tuple(content[name])
        for name in table.columns.difference(["model", "fold", "bag"]):
            if not pd.api.types.is_numeric_dtype(table[name]):
                raise ValueError(f"the column {name!r} of a fold must hold numbers; it holds others")
        return cls(**content)


@dataclass(frozen=True, eq=False)
class Validation:
    """Predictions of bags that were left out of the fit, by a model and by others to compare it with.

    Scores are those of rates: outputs over weight (over trials, for the binomial), per `per` units.

    Parameters
    ----------
    folds
        Results of all folds.
    per
        Unit of rates; None for 100 with the binomial, 1 with the Normal, else the least of 1, 1000, 100,000 and
        1,000,000 with an overall rate of at least one.
    nested, recovery
        What `vbagg.validate.nested` and `vbagg.validate.recovery` found.
    test_inside
        Finds `nested` when a verdict is asked for.
    """

    folds: tuple[FoldResult, ...]
    per: float | None = None
    nested: Nested | None = None
    """What is known of differences inside bags."""
    recovery: Recovery | None = None
    """What refits to simulated outputs recover of them."""
    test_inside: Callable[[], Nested] | None = field(default=None, repr=False)
    """How to find it out."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "folds", tuple(self.folds))
        if not self.folds:
            raise ValueError("`folds` must hold one result at least; got none.")
        if self.per is not None and not self.per > 0:
            raise ValueError(f"`per` must be positive; got {self.per!r}.")
        for fold in self.folds[1:]:
            if (fold.models, fold.likelihood) != (self.models, self.likelihood):
                raise ValueError(f"All folds must be of the same models; fold {fold.fold!r} has others.")
        table = self.table
        if len(table):
            twice = table[table.duplicated(["model", "bag"])]
            if len(twice):
                raise ValueError(f"Every bag must be in one fold; {some_bags([twice['bag'].iloc[0]])} is in several.")

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, first the one to be judged."""
        return self.folds[0].models

    @property
    def likelihood(self) -> str:
        """Likelihood of the first model; empty if it has none."""
        return self.folds[0].likelihood

    @property
    def n_bags(self) -> int:
        """Number of bags in all folds."""
        return sum(fold.n_bags for fold in self.folds)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Fits that failed."""
        return [failure for fold in self.folds for failure in fold.failures]

    @property
    def notes(self) -> list[str]:
        """Warnings of the fits, each once."""
        return list(dict.fromkeys(note for fold in self.folds for note in fold.notes))

    @property
    def seconds(self) -> dict[str, float]:
        """Time of all folds by model."""
        return {name: sum((fold.seconds or {}).get(name, 0.0) for fold in self.folds) for name in self.models}

    @property
    def table(self) -> pd.DataFrame:
        """One row per model and bag, in the units of outputs.

        `y`, `exposure` (weight or trials), predicted `mean`, `median` and quantiles (`q0.025`, ...), `log_density`,
        `crps`, `absolute_error` of the median; `pit`, half-way between `pit_low` = P(Y < y) and `pit_high` =
        P(Y <= y); `inside_95`: whether the central 95% interval held `y`, `mass_95`: its exact probability, and
        `least_mass_95`: what it is at least where counts are not whole numbers, so that those at its ends may lie
        outside.
        """
        import pandas as pd

        tables = [fold.table for fold in self.folds if len(fold.table)]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    @property
    def unit(self) -> float:
        """The unit of rates in force."""
        if self.per is not None:
            return float(self.per)
        if (customary := self._of_likelihood("rates_per", None)) is not None:
            return customary
        first = self.table.drop_duplicates("bag") if len(self.table) else self.table
        rate = first["y"].sum() / first["exposure"].sum() if len(first) else 1.0
        large = [unit for unit in UNITS if rate * unit >= 1]
        return 1.0 if rate <= 0 else (large or [UNITS[-1]])[0]

    def with_unit(self, per: float) -> Validation:
        """The same results with another unit of rates."""
        return replace(self, per=per)

    def rates(self) -> pd.DataFrame:
        """`table` with outputs, predictions and errors as rates, and `nll`; bags without exposure left out."""
        table = self.table
        if not len(table):
            return table
        table = table[table["exposure"] > 0].reset_index(drop=True)
        columns = [name for name in table.columns if name in IN_OUTPUT_UNITS or name.startswith("q0.")]
        table[columns] = table[columns].mul(self.unit / table["exposure"], axis=0)
        return table.assign(nll=-table["log_density"] if "log_density" in table else np.nan)

    def scores(self) -> pd.DataFrame:
        """Mean scores by model.

        `bags` with a prediction, `nll` (of outputs, not of rates), `crps`, `mae` of the median, `rmse` of the mean,
        `log_rmse` of the median (with half a case added to counts), `correlation` and `rank_correlation` of predicted
        means with observed rates, `coverage_95` and `interval_score_95` of central intervals at each level. NaN where
        a model has no law.
        """
        return tables.scores(self.rates(), self.table, self.models, self._of_likelihood("counts", False))

    def coverage(self) -> pd.DataFrame:
        """Shares of bags inside central intervals, by model and level.

        `coverage`; `expected` when the law is right (above the level for small counts); `low` and `high`: where 95% of
        such shares lie if bags are independent, further apart for counts that are not whole numbers; `judgement`: "too
        narrow", "too wide" or "as expected".
        """
        return tables.coverage(self.rates(), self.models)

    def compare(self, score: str = "crps", reference: str | None = None) -> pd.DataFrame:
        """The first model, or `reference`, against each other one, bag by bag; lower scores are better.

        Parameters
        ----------
        score
            "crps", "nll" or "absolute_error".
        reference
            Name of the model to be judged.

        Returns
        -------
        pandas.DataFrame
            By other model: `pairs` of bags, `score` and `other_score` (means over them), `mean_difference` (reference
            minus other) with `std_error`, `better`: bags in which the reference is better, `p_better` and `p_worse`
            of one-sided Wilcoxon signed-rank tests. Errors and p-values take bags as independent.
        """
        if score not in tables.COMPARED:
            raise unknown_name("score", score, tables.COMPARED)
        return tables.comparison(self.rates(), score, self._known(reference), self.models)

    def pit_histogram(self, model: str | None = None, bins: int = 10) -> pd.DataFrame:
        """Shares of bags by probability integral transform, uniform when the predictive law is right.

        Each bag spreads its share evenly between `pit_low` and `pit_high`. Columns `left`, `right`, `share`,
        `expected`, and `low`, `high`: where 95% of shares lie by chance.
        """
        return tables.pit_histogram(self.rates(), self._known(model), bins)

    def reliability(self, model: str | None = None) -> pd.DataFrame:
        """Coverage of central intervals at levels from 5% to 95%, for a plot.

        From the spread of each bag between `pit_low` and `pit_high`, so that it also suits small counts. Columns
        `level`, `coverage`, `low`, `high`.
        """
        return tables.reliability(self.rates(), self._known(model))

    def verdict(self, bags: str = "bags") -> Verdict:
        """Whether rates inside bags are worth showing, in one word with its reasons.

        That of cross-validation alone cannot tell. So models are fitted to unions of bags as well, unless that was done
        before, which takes about as long as three folds; their outcome is `nested` afterwards.

        Parameters
        ----------
        bags
            What bags are, in the plural, such as "districts".

        Returns
        -------
        Verdict
            `word`: "yes", "with care" or "no", the worst that any reason allows; `reasons`: whether differences inside
            unions were told better than chance, how much of those inside bags is expected to be explained, and whether
            intervals are wide enough. Where there was nothing to go by, one reason says so.

        Examples
        --------
        >>> validation = cross_validate(vbagg.VBAgg(), bags, y)
        >>> verdict = validation.verdict("districts")
        >>> verdict.word
        'with care'
        >>> print(verdict)
        With care. Given only the totals of 40 groups of neighbouring districts, the model told ...
        >>> validation.nested.plot("inside.png", bags="districts")
        """
        from vbagg.validate.verdict import judge

        if self.nested is None and self.test_inside is not None:
            object.__setattr__(self, "nested", self.test_inside())
        return judge(self.nested, self, bags, self.recovery)

    def summary(self, bags: str = "bags", outputs: str | None = None, unit: str = "") -> str:
        """A short paragraph in plain words.

        Parameters
        ----------
        bags
            What bags are, in the plural, such as "districts".
        outputs
            What outputs are: by default "counts" or "values".
        unit
            Unit of rates, such as "cases per 1000 people".
        """
        return in_words(self, bags, outputs, unit)

    @property
    def outputs(self) -> str:
        """What outputs are, in words."""
        return self._of_likelihood("outputs", "values")

    def _of_likelihood(self, name: str, otherwise: Any) -> Any:
        return getattr(get_likelihood(self.likelihood), name) if self.likelihood else otherwise

    def _known(self, model: str | None) -> str:
        if model is None:
            return self.models[0]
        if model not in self.models:
            raise unknown_name("model", model, self.models)
        return model
