"""Pictures of skill and coverage by scale: what is drawn, and what is where numbers cannot be drawn."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from vbagg.language import LANGUAGES, written_in
from vbagg.texts import texts_in
from vbagg.validate import picture
from vbagg.validate.picture import plot_trend

NAN = float("nan")
LEGEND = {
    "observed": "observed, with 90% interval",
    "expected": "expected, not observed, with 90% interval",
    "claimed": "what the model itself claims",
    "one_rate": "0%: as good as one rate for each area",
    "judged": "90% intervals; dashes: what they should hold",
    "second": "50% intervals, alike",
    "if_right": "what they hold if the model is right",
    "below": "goes on below",
    "above": "goes on above",
    "unknown": "cannot be told from chance",
}
TITLES = {"skill": "Differences inside areas that are explained", "coverage": "Intervals that hold the true value"}
SEEN = {"observed": True, "claimed": 0.3}
COVERED = {"coverage_50": 0.4, "low_50": 0.3, "high_50": 0.6, "coverage_90": 0.85, "low_90": 0.7, "high_90": 0.95}


def row(size, skill, low, high, **more):
    return {
        "scale": str(size),
        "size": float(size),
        "skill": skill,
        "low": low,
        "high": high,
        **SEEN,
        **COVERED,
        **more,
    }


SCALES = (row(2, 0.6, 0.4, 0.7), row(4, 0.3, 0.1, 0.5, coverage_50=0.0, low_50=0.0, coverage_90=1.0, high_90=1.0))
CELLS = row(120, 0.2, -0.1, 0.5, observed=False, claimed=0.25, coverage_90=0.8)


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """The panels that a table leads to."""
    figures = []
    save = picture.save
    monkeypatch.setattr(picture, "save", lambda figure, path: figures.append(figure) or save(figure, path))

    def draw(*rows, **options):
        path = plot_trend(pd.DataFrame(rows), tmp_path / "inside.png", **options)
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        return figures[-1]

    return draw


def marks(axes, name):
    """Places of the marks with a meaning in the legend."""
    found = [dots.get_offsets() for dots in axes.collections if dots.get_label() == LEGEND[name]]
    return np.concatenate(found).tolist() if found else []


def bars(axes):
    """Ends of intervals."""
    lines = [line for own in axes.collections if hasattr(own, "get_segments") for line in own.get_segments()]
    return [(line[0][0], line[0][1], line[1][1]) for line in lines if len(line)]


def meanings(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_what_was_seen_and_what_is_expected(drawn):
    figure = drawn(*SCALES, CELLS, what="districts", cells="cells")
    skill, coverage = figure.axes
    np.testing.assert_allclose(marks(skill, "observed"), [[2, 60], [4, 30]])
    np.testing.assert_allclose(marks(skill, "expected"), [[120, 20]])
    np.testing.assert_allclose(marks(skill, "claimed"), [[2, 30], [4, 30], [120, 25]])
    np.testing.assert_allclose(bars(skill), [(2, 40, 70), (4, 10, 50), (120, -10, 50)])
    np.testing.assert_allclose(marks(coverage, "observed"), [[2, 85], [4, 100]])
    np.testing.assert_allclose(marks(coverage, "expected"), [[120, 80]])
    assert [tick.get_text() for tick in coverage.get_xticklabels()] == ["2", "4", "120"]
    assert skill.get_xscale() == "log"
    assert [text.get_text() for text in skill.texts] == [
        "observed:\ndistricts in groups",
        "expected:\ncells in districts",
    ]
    assert "share explained" in skill.get_ylabel()
    assert "parts of each area" in coverage.get_xlabel()
    levels = {
        float(line.get_ydata()[0]) for line in coverage.lines if line.get_linestyle() == "--" and len(line.get_ydata())
    }
    assert levels == {50, 90}
    assert 0 in [line.get_ydata()[0] for line in skill.lines]
    assert meanings(figure) == list(LEGEND.values())[:6]
    for axes in (skill, coverage):
        (ground,) = axes.patches
        assert 4 < ground.get_x() < 120


def test_nothing_is_cut_at_no_and_full_coverage(drawn):
    low, high = drawn(*SCALES, CELLS).axes[1].get_ylim()
    assert low < 0
    assert high > 100


def test_one_scale_and_no_cells(drawn):
    figure = drawn(SCALES[0])
    assert LEGEND["expected"] not in meanings(figure)
    assert len(figure.axes[0].texts) == 1
    assert not any(axes.patches for axes in figure.axes)


def test_cells_stand_to_the_right_even_if_they_are_few(drawn):
    few = CELLS | {"size": 3.0}
    skill, axes = drawn(*SCALES, few).axes
    assert marks(skill, "expected")[0][0] == 4 * picture.BEYOND
    assert [tick.get_text() for tick in axes.get_xticklabels()][-1] == "3"


def test_skill_far_below_zero_is_cut_off_and_told(drawn):
    figure = drawn(row(2, -3.4, -9.0, -1.7), row(4, -40.0, -90.0, 0.1), row(8, 0.1, -2.0, 0.4), CELLS)
    axes = figure.axes[0]
    bottom = axes.get_ylim()[0]
    assert -130 < bottom <= -100
    assert [place[0] for place in marks(axes, "below")] == [2, 4, 8]
    assert all(np.isclose(place[1], bottom, atol=30) for place in marks(axes, "below"))
    assert [text.get_text() for text in axes.texts][:2] == ["\u2212340%", "<\u22121,000%"]
    heights = [place[1] for place in marks(axes, "observed")]
    assert np.isnan(heights[0])
    assert heights[2] == pytest.approx(10)
    assert LEGEND["below"] in meanings(figure)


def test_more_than_all_is_cut_off_too(drawn):
    """As chance that is taken off may lead to."""
    axes = drawn(row(2, 1.2, 0.9, 6.2), row(4, 1.88, 0.9, 3.0), row(8, 20.0, 2.0, 30.0), CELLS).axes[0]
    assert [place[0] for place in marks(axes, "above")] == [2, 4, 8]
    assert {text.get_text() for text in axes.texts[:2]} == {"188%", ">1,000%"}
    heights = [place[1] for place in marks(axes, "observed")]
    assert heights[0] == pytest.approx(120)
    assert np.isnan(heights[1:]).all()
    bottom, top = drawn(row(2, 1.2, 0.9, 1.3), CELLS).axes[0].get_ylim()
    assert top - 0.22 / 1.22 * (top - bottom) == pytest.approx(130)


def test_skill_that_is_not_known_is_marked(drawn):
    figure = drawn(SCALES[0], row(4, NAN, 0.1, 0.6), CELLS)
    axes = figure.axes[0]
    assert [bar[0] for bar in bars(axes)] == [2, 120]
    assert marks(axes, "unknown") == [[4.0, 0.0]]
    assert LEGEND["unknown"] in meanings(figure)
    assert LEGEND["unknown"] not in meanings(drawn(*SCALES))


def test_what_refits_hold_is_marked_beside_cells(drawn):
    shares = {0.9: 0.88, 0.5: 0.47}
    recovery = SimpleNamespace(coverage=shares.get, has_results=True)
    figure = drawn(*SCALES, CELLS, recovery=recovery)
    assert [round(place[1]) for place in marks(figure.axes[1], "if_right")] == [88, 47]
    assert LEGEND["if_right"] in meanings(figure)
    failed = SimpleNamespace(coverage=shares.get, has_results=False)
    assert LEGEND["if_right"] not in meanings(drawn(*SCALES, CELLS, recovery=failed))


@pytest.mark.parametrize("panel", ["skill", "coverage"])
def test_panels_can_stand_alone(drawn, panel):
    figure = drawn(*SCALES, CELLS, panels=[panel], what="$a")
    (axes,) = figure.axes
    assert axes.get_title() == TITLES[panel]
    assert axes.texts[0].get_text() == "observed:\n\\$a in groups"
    assert axes.get_xlabel()


def far_off():
    """A figure with all that may be told."""
    recovery = SimpleNamespace(coverage={0.9: 0.88, 0.5: 0.47}.get, has_results=True)
    rows = (row(2, -40.0, -90.0, 0.1), row(5, 1.88, 0.9, 3.0), row(24, NAN, NAN, NAN), {**CELLS, "size": 1234.0})
    return rows, recovery


def test_words_and_numbers_are_those_of_the_language(drawn):
    rows, recovery = far_off()
    with written_in("fr"):
        figure = drawn(*rows, recovery=recovery, what="districts", cells="cellules")
    skill, coverage = figure.axes
    assert skill.get_title() == "Différences expliquées au sein des zones"
    assert [text.get_text() for text in skill.texts if "%" in text.get_text()] == [
        "<\u22121\u202f000\u00a0%",
        "188\u00a0%",
    ]
    assert [tick.get_text() for tick in coverage.get_yticklabels()][-1] == "100\u00a0%"
    assert [tick.get_text() for tick in coverage.get_xticklabels()] == ["2", "5", "24", "1\u202f234"]
    told = meanings(figure)
    assert len(told) == len(LEGEND)
    assert told[0] == "observé, avec l\u2019intervalle à 90\u00a0%"
    assert told[5].startswith("intervalles à 50\u00a0%")
    assert meanings(drawn(*rows, recovery=recovery)) == list(LEGEND.values())


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_words_fit(drawn, language):
    """On the figure, and those on grounds each on its own."""
    rows, recovery = far_off()
    with written_in(language):
        words = {"what": texts_in()("inside.districts"), "cells": texts_in()("inside.cells")}
        figure = drawn(*rows, recovery=recovery, **words)
    for axes in figure.axes:
        for text in (axes.title, axes.xaxis.label, axes.yaxis.label, *figure.legends[0].get_texts()):
            box = text.get_window_extent()
            assert min(box.x0, box.y0) >= 0, text.get_text()
            assert box.x1 <= figure.bbox.width, text.get_text()
            assert box.y1 <= figure.bbox.height, text.get_text()
    left, right = (text.get_window_extent() for text in figure.axes[0].texts if "\n" in text.get_text())
    assert figure.axes[0].bbox.x0 <= left.x0 < left.x1 < right.x0 < right.x1 <= figure.axes[0].bbox.x1
