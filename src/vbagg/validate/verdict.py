"""One word on whether disaggregation helps, and three reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from vbagg import numerals
from vbagg.language import ENGLISH, written_in
from vbagg.texts import Texts, texts_in
from vbagg.validate.bag_scores import percent
from vbagg.validate.unions import NAMED

if TYPE_CHECKING:
    from vbagg.validate.carried import Estimate
    from vbagg.validate.recovered import Recovery
    from vbagg.validate.result import Validation
    from vbagg.validate.scales import Nested

Values = Mapping[str, str | int | float]
"""Of a sentence."""
Word = Literal["yes", "with care", "no"]
WORDS: tuple[Word, ...] = ("yes", "with care", "no")
FEWEST_BAGS = 20
"""With fewer, differences inside pairs of bags cannot be told from chance."""
CLEAR, LIKELY = 0.01, 0.05
"""p-values from which it is clear, and likely, that a map tells differences inside unions rightly."""
USEFUL, LEAST = 0.10, 0.05
"""Shares of the differences inside bags from which a map of them is worth having, and without which it is not."""
JUDGED = 0.9
TOLERATED = 0.10
"""How far coverage may be below its level."""
FAR_OFF = 0.4
"""And from where intervals mean nothing."""
WRITTEN = re.compile(r"\d[\d,]*|\d+(\.\d+)?%")
"""Counts and shares as texts."""


@dataclass(frozen=True)
class Reason:
    """A sentence by its name with its numbers apart, so that it can be said in other languages.

    It is written in that of the moment, which is English unless `written_in` says otherwise.
    """

    name: str
    values: Values = field(default_factory=dict)
    """Whole numbers are counts, others shares; `bags` says what bags are, in the plural."""
    speaks: Word = "yes"
    """The best word that it allows."""

    def __str__(self) -> str:
        say = texts_in()
        return say(f"reasons.{self.name}", **{name: _written(say, value) for name, value in self.values.items()})


@dataclass(frozen=True)
class Verdict:
    """Whether rates inside bags are worth showing, in one word."""

    word: Word
    because: tuple[Reason, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Three plain sentences."""
        return tuple(map(str, self.because))

    def __str__(self) -> str:
        return " ".join([f"{self.word.capitalize()}.", *self.reasons])

    def __repr__(self) -> str:
        return "\n".join([f"Verdict: {self.word}", *(f"- {reason}" for reason in self.reasons)])

    def _repr_html_(self) -> str:
        """The same as a list, for notebooks."""
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in self.reasons)
        return f"<p>Verdict: <strong>{self.word}</strong></p><ul>{reasons}</ul>"

    def document(self) -> dict[str, Any]:
        """As it is stored, in English."""
        said = [
            {"name": reason.name, "values": dict(reason.values), "speaks": reason.speaks} for reason in self.because
        ]
        with written_in(ENGLISH):
            return {"word": self.word, "reasons": list(self.reasons), "said": said}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Verdict:
        """What `document` gave."""
        because = tuple(Reason(one["name"], one["values"], one["speaks"]) for one in document["said"])
        with written_in(ENGLISH):
            reasons = tuple(map(str, because))
        if document["word"] not in WORDS or tuple(document["reasons"]) != reasons:
            raise ValueError("a verdict must have a word and the reasons that were stored with it")
        return cls(document["word"], because)


def judge(
    nested: Nested | None,
    validation: Validation | None = None,
    bags: str = "bags",
    recovery: Recovery | None = None,
) -> Verdict:
    """Put together what validations and refits found; `bags` says what bags are, in the plural."""
    n = nested.claims.n_bags if nested is not None else validation.n_bags if validation is not None else None
    few = [] if n is None or n >= FEWEST_BAGS else [Reason("few", {"n": n, "bags": bags}, "no")]
    if nested is None or not nested.sums or not len(nested.claims.table):
        failures = [] if nested is None else nested.failures
        why = f" ({failures[0]['reason'].rstrip('.')})" if failures else ""
        because = few or [Reason("untested", {"bags": bags, "why": why}, "no")]
    else:
        cells = nested.cells(recovery)
        because = [
            *(few or [_inside_unions(nested, bags)]),
            _inside_bags(cells.skill, bags),
            _intervals(cells.coverage[JUDGED].value, nested, validation, bags),
        ]
    return Verdict(max((reason.speaks for reason in because), key=WORDS.index), tuple(because))


def _inside_unions(nested: Nested, bags: str) -> Reason:
    """What tests at scales that can be seen say."""
    scales = nested.scales()
    known = scales[np.isfinite(scales["skill"])]
    best = scales.loc[(known if len(known) else scales)["unions"].idxmax()]
    values: Values = {"bags": bags, "unions": int(best["unions"])}
    named = "_named" if best["scale"] == NAMED else ""
    p = nested.p_value()
    if p >= LIKELY:
        return Reason(f"not_told{named}", values, "no")
    if not len(known):
        return Reason("unmeasured", values, "yes" if p < CLEAR else "with care")
    values = {**values, "skill": _share(max(best["skill"], 0.0))}
    return Reason(f"told{named}", values, "yes") if p < CLEAR else Reason(f"perhaps{named}", values, "with care")


def _inside_bags(skill: Estimate, bags: str) -> Reason:
    """What is expected of cells."""
    ends = {"skill": skill.value, "low": skill.low, "high": skill.high}
    values: Values = {"bags": bags, **{name: _share(max(value, 0.0)) for name, value in ends.items()}}
    if skill.value < LEAST:
        return Reason("little", values, "no")
    return Reason("much", values, "yes" if skill.value >= USEFUL and skill.low > 0 else "with care")


def _intervals(expected: float, nested: Nested, validation: Validation | None, bags: str) -> Reason:
    """Whether the uncertainty can be trusted: of what can be seen, the worst that is clearly amiss, or of cells."""
    seen = {"unseen": _of_unseen_bags(validation), "inside": _of_bags_inside(nested)}
    amiss = {name: held for name, held in seen.items() if held < min(expected, JUDGED - TOLERATED)}
    name, held = min(amiss.items(), key=lambda one: one[1], default=("", expected))
    values: Values = {"bags": bags, "level": JUDGED, "held": _share(held)}
    return Reason(name or ("narrow" if held < JUDGED - TOLERATED else "right"), values, _allowed(held))


def _allowed(held: float) -> Word:
    """The best word where intervals of the level that is judged hold so much."""
    return "no" if held < FAR_OFF else "with care" if held < JUDGED - TOLERATED else "yes"


def _of_unseen_bags(validation: Validation | None) -> float:
    """Coverage of the totals of bags that were left out; NaN where it is not known."""
    if validation is None or not len(validation.table):
        return np.nan
    scores = validation.scores()
    name = f"coverage_{percent(JUDGED)}"
    return float(scores[name].iloc[0]) if name in scores else np.nan


def _of_bags_inside(nested: Nested) -> float:
    """Coverage of the totals of bags inside unions, at all scales together."""
    totals = [sums.total() for sums in nested.sums.values()]
    return float(sum(one.inside[JUDGED].sum() for one in totals) / sum(one.bags.sum() for one in totals))


def _share(value: float) -> float:
    """Without digits that these numbers do not have."""
    return round(float(value), 2)


def _written(say: Texts, value: str | float) -> str:
    value = _number(value)
    if isinstance(value, str):
        return say.noun(value)
    return numerals.count(value) if isinstance(value, int) else numerals.share(value)


def _number(value: str | float) -> str | int | float:
    """A value; earlier versions kept numbers as English texts."""
    if not isinstance(value, str) or not WRITTEN.fullmatch(value):
        return value
    digits = value.replace(",", "")
    return float(digits.removesuffix("%")) / 100 if digits.endswith("%") else int(digits)
