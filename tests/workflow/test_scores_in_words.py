from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from vbagg.colours import rate_scale
from vbagg.report import MapLayer
from vbagg.report.scales import scales_of
from vbagg.report.texts import texts_in
from vbagg.workflow.report_page.scores import score_table


def test_scores_are_told_in_words():
    scores = pd.DataFrame(
        {"bags": 9, "nll": [2.2361, 2.5], "crps": [0.6663, 1234.5], "mae": [0.92, 1.0], "correlation": [0.4276, -0.05],
         "coverage_95": [0.9583, 1.0]}, index=["vbagg", "constant"],
    )  # fmt: skip
    table = score_table(texts_in(), SimpleNamespace(scores=lambda: scores), "cases per 1000 people")
    assert [head if isinstance(head, str) else (head.text, head.word) for head in table.headers] == [
        "",
        "This model",
        ("Constant rate", "constant"),
    ]
    rows = {row[0].word: row[1:] for row in table.rows}
    assert rows == {
        "mae": ["0.92", "1"],
        "crps": ["0.666", "1,234"],
        "nll": ["2.24", "2.5"],
        "correlation": ["0.43", "\u22120.05"],
        "coverage": ["96%", "100%"],
    }
    assert "Errors are in cases per 1000 people" in table.caption


def test_observed_and_predicted_rates_have_one_scale_in_pictures_and_viewer():
    """That of both together: districts may have less and more than any cell."""
    cells, polygons = np.linspace(2.0, 5.0, 1001), np.linspace(1.0, 9.0, 51)
    scale = rate_scale(cells, polygons)
    mean = MapLayer("rate_mean", "", "", cells[None], log=scale.log, limits=scale.limits)
    observed = MapLayer("observed", "", "", polygons[None], same_scale_as="rate_mean")
    assert scales_of([mean, observed]) == {"rate_mean": scale, "observed": scale}
    assert scale.limits == (pytest.approx(1.16), pytest.approx(8.84))
