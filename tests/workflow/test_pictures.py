from types import SimpleNamespace

import pandas as pd
import pytest

from vbagg.geo.told import NOTHING
from vbagg.workflow import pictures
from vbagg.workflow.folder import RunFolder
from vbagg.workflow.run import Run
from vbagg.workflow.settings import from_words


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"likelihood": "binomial", "link": "logistic", "trials": "tested"}, "cases per 100 trials"),
        ({}, "cases per 100 km²"),
    ],
)
def test_units_of_plots_are_those_of_the_model(tmp_path, monkeypatch, words, expected):
    told = {}

    def drawing(name):
        def draw(*given, units=None, **options):
            told[name] = units or next(one for one in given if isinstance(one, pictures.Units)).rate

        return draw

    monkeypatch.setattr(pictures.plots, "plot_input", drawing("input"))
    monkeypatch.setattr(pictures.diagnostics, "plot_observed_predicted", drawing("fitted"))
    monkeypatch.setattr(pictures.diagnostics, "plot_dependence", drawing("dependence"))
    monkeypatch.setattr(pictures.diagnostics, "highest_rate", lambda curves: 1.0)
    monkeypatch.setattr(pictures.diagnostics, "plot_relevance", lambda *given, **options: None)
    for name in ("relevance", "partial_dependence"):
        monkeypatch.setattr(pictures, name, lambda *given, **options: None)
    monkeypatch.setattr(pictures, "link_of", lambda model: SimpleNamespace(scale_name="rate"))
    monkeypatch.setattr(Run, "model", lambda run, response: None)
    columns = ("observed_rate", "rate", "fitted", "predicted_lower", "predicted_upper")
    table = pd.DataFrame({name: [1.0, 2.0] for name in columns}).assign(effect=float("nan"))
    run = Run(
        from_words({"response": "cases", "per": 100.0, "orientation": False, **words}), RunFolder(tmp_path / "out")
    )
    prepared = SimpleNamespace(exposure="area", covariates=("height",), told=NOTHING, described={}, label=str)
    pictures.draw_all(run, prepared, "cases", tmp_path, table, tmp_path, {})
    assert told == dict.fromkeys(("input", "fitted", "dependence"), expected)
