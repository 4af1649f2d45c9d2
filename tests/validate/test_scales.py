"""Tables of scales with what is expected of cells, and how they are shown."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from made_scales import cells, made, scale

from vbagg.validate.result import FoldResult
from vbagg.validate.scales import CELLS, Nested
from vbagg.validate.verdict import Reason, Verdict, judge

WRONG = {"fold": "4", "model": "vbagg", "bags": 15, "reason": "no <peak> was found."}


def failed(name):
    return FoldResult(name, ("vbagg",), "normal", 15, pd.DataFrame(), (WRONG | {"fold": name},))


def test_the_trend_ends_with_what_is_expected_of_cells():
    nested = made()
    trend, scales, expected = nested.trend(), nested.scales(), nested.cells()
    pd.testing.assert_frame_equal(trend.iloc[:2][list(scales.columns)], scales, check_dtype=False)
    assert trend["observed"].tolist() == [True, True, False]
    last = trend.iloc[-1]
    assert (last["scale"], last["size"], last["claimed"]) == (CELLS, 38, pytest.approx(0.4))
    assert last[["skill", "low", "high"]].tolist() == [expected.skill.value, expected.skill.low, expected.skill.high]
    held = expected.coverage[0.9]
    assert last[["coverage_90", "low_90", "high_90"]].tolist() == [held.value, held.low, held.high]
    assert np.isnan(last["p_better"])


def test_coverage_of_cells_begins_at_what_refits_hold():
    recovery = SimpleNamespace(coverage=lambda level: level - 0.3, skill=0.4, has_results=True)
    nested = made()
    told = nested.trend(recovery).iloc[-1]
    assert told["coverage_90"] == nested.cells(recovery).coverage[0.9].value < nested.trend().iloc[-1]["coverage_90"]
    useless = SimpleNamespace(has_results=False)
    pd.testing.assert_frame_equal(nested.trend(useless), nested.trend())


def test_skill_of_cells_is_at_most_all():
    """What comes true may be more than what was told."""
    nested = Nested((scale("2", 200, 0.3, 1.0, error=1e-3),), cells(0.95))
    row = nested.trend().iloc[-1]
    assert row["low"] < row["skill"] <= row["high"] <= 1


def test_scales_that_could_not_be_fitted_are_left_out():
    one = replace(made(), folds=(made().folds[0], failed("4")))
    assert one.trend()["scale"].tolist() == ["2", CELLS]
    without = replace(made(), claims=failed(CELLS))
    assert without.trend()["observed"].tolist() == [True, True]
    none = Nested((failed("2"), failed("4")), made().claims)
    assert not len(none.trend())


def test_a_picture_needs_a_scale(tmp_path):
    none = Nested((failed("2"),), made().claims)
    with pytest.raises(ValueError, match=r"A picture needs a scale .* no <peak> was found"):
        none.plot(tmp_path / "inside.png")
    path = replace(made(), claims=failed(CELLS)).plot(str(tmp_path / "inside.png"), panels=["skill"])
    assert path == tmp_path / "inside.png"
    assert path.stat().st_size > 10_000


def test_scales_say_what_they_are():
    nested = replace(made(), folds=(*made().folds, failed("8")))
    text = repr(nested)
    assert text.startswith("Nested: 60 bags, as models see them")
    assert "cells (expected)" in text
    assert "inside 90% intervals" in text
    assert text.endswith("8: no <peak> was found.")
    html = nested._repr_html_()
    assert "<table" in html
    assert "no &lt;peak&gt; was found" in html
    none = Nested((failed("2"),), failed(CELLS))
    assert repr(none).splitlines()[1:] == ["2: no <peak> was found.", "cells: no <peak> was found."]
    assert "<table" not in none._repr_html_()


def test_verdicts_say_what_they_are():
    verdict = judge(made(), bags="districts")
    assert repr(verdict).splitlines() == ["Verdict: yes", *(f"- {reason}" for reason in verdict.reasons)]
    odd = Verdict("no", (Reason("few", {"n": "7", "bags": "<i>"}),))
    assert "<strong>no</strong>" in odd._repr_html_()
    assert "<li>7 &lt;i&gt; with totals" in odd._repr_html_()
