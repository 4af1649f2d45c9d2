from types import SimpleNamespace

import pandas as pd
import pytest

from vbagg.workflow.folder import RunFolder
from vbagg.workflow.page import Page
from vbagg.workflow.run import Run
from vbagg.workflow.settings import from_words

POLYGONS = pd.DataFrame({"observed": [30.0, 50.0, 12.0], "population": [1000.0, 3000.0, 0.0]}, index=["a", "b", "off"])
TESTED = pd.Series({"a": 100.0, "b": 400.0})


@pytest.mark.parametrize(
    ("words", "rate"),
    [
        ({}, ("Rate per 1000 people", "20")),
        (
            {"likelihood": "binomial", "link": "logistic", "trials": "tested"},
            ("Rate per 1000 trials", "160"),
        ),
    ],
)
def test_totals_and_rates_of_the_summary_are_of_the_same_polygons(tmp_path, words, rate):
    """Those that lie off the grid are in neither."""
    columns = {"cases": POLYGONS["observed"][:2], "tested": TESTED}
    prepared = SimpleNamespace(exposure="population", y=lambda name: columns[name])
    run = Run(from_words({"response": "cases", **words}), RunFolder(tmp_path))
    found = dict(Page(run, prepared, "cases", tmp_path, None)._summary(POLYGONS))
    assert found["Cases"] == "80"
    assert found["People"] == "4,000"
    assert rate in found.items()
