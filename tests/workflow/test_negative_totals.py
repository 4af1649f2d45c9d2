"""Totals that may be negative, as changes from one year to the next: the likelihood `normal`."""

import re
from pathlib import Path

import geopandas as gpd
import numpy as np
import pytest
from matplotlib import image
from page_text import without_tags
from tiny_country import CHEAP, frame, write_files

from vbagg import geo
from vbagg.cli import main
from vbagg.colours import wants_log
from vbagg.doctor.findings import Gathered
from vbagg.doctor.modelling import check_model
from vbagg.geo.diagnostics import plot_observed_predicted
from vbagg.geo.exposure import exposure_of
from vbagg.geo.polygons import read_polygons
from vbagg.geo.prepared import Prepared
from vbagg.workflow.settings import Maps, Model, from_words

CHANGE = np.array([140.5, -20, 33, 61, -7.25, 12, -250, 40, 3, 6, -90, 18])


def changes(values=CHANGE):
    return frame().assign(change=values)


def test_negative_totals_are_read_where_they_are_said_to_be():
    with pytest.raises(ValueError, match=r"must be a non-negative number .*; got -20.0 for 'D01'.*add `--negative`"):
        read_polygons(changes(), "name", columns=["change"])
    read = read_polygons(changes(), "name", columns=["change"], negative=True)
    np.testing.assert_array_equal(read.frame["change"], CHANGE)
    as_text = changes([f"{value:,}" if at != 5 else None for at, value in enumerate(CHANGE * 100)])
    read = read_polygons(as_text, "name", columns=["change"], negative=True)
    np.testing.assert_array_equal(read.totals("change").exact[[0, 1, 6]], [14050, -2000, -25000])
    assert read.totals("change").missing.tolist() == [at == 5 for at in range(12)]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({3: "<5"}, "'change' must be a number, or empty, since bounds are those of counts; got '<5' for 'D03'"),
        ({3: "four"}, "'change' must be a number, or empty; got 'four' for 'D03'"),
        ({3: -9999, 8: -9999}, "got -9999.0 for 'D03' (row 4), the first of 2 such values. Empty it if it is a code"),
        ({3: np.inf}, "'change' must be a number for every polygon; got inf for 'D03'"),
    ],
)
def test_what_is_no_such_total(cells, message):
    values = CHANGE.astype(object)
    values[list(cells)] = list(cells.values())
    text = [str(value) for value in values] if any(isinstance(cell, str) for cell in cells.values()) else None
    with pytest.raises(ValueError, match=re.escape(message)):
        read_polygons(changes(text or values.astype(float)), "name", columns=["change"], negative=True)


def test_people_are_never_negative():
    exposure = exposure_of(None, "change", None, None)
    with pytest.raises(ValueError, match=r"the population 'change' must be a non-negative number"):
        read_polygons(changes(), "name", columns=["cases"], exposure=exposure, negative=True)


@pytest.mark.parametrize("likelihood", ["negative_binomial", "binomial", "exponential"])
def test_other_likelihoods_do_not_take_them(likelihood):
    found = Gathered()
    check_model(Model(likelihood=likelihood, trials="tested" if likelihood == "binomial" else None), True, found)
    (error,) = found.findings({}).errors
    assert (
        error.text
        == f"`negative` goes with the likelihood 'normal'; got it with '{likelihood}'. Leave out one of them."
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"threshold": -1.0}, "`maps.threshold` must be a positive rate; got -1"),
        ({"threshold": -1.0, "negative": True}, None),
        ({"match_totals": True, "negative": True}, "`maps.match_totals` rescales counts"),
        ({"match_totals": True}, None),
    ],
)
def test_maps_that_are_asked_for(words, message):
    if message is None:
        assert from_words(words).maps == Maps(**{name: value for name, value in words.items() if name != "negative"})
    else:
        with pytest.raises(ValueError, match=message):
            from_words(words)


def test_the_check_names_what_lies_far_off(tmp_path, capsys):
    files = write_files(tmp_path)
    far = CHANGE.copy()
    far[4] = -90_000.0
    changes(far).to_file(tmp_path / "changes.gpkg")
    words = ["--polygons", str(tmp_path / "changes.gpkg"), "--id", "name", "--response", "change", "--population"]
    words += [str(files["population"]), "--covariate", str(files["height"]), "--likelihood", "normal", "--folds", "2"]
    assert main(["check", *words]) == 2
    assert "add `--negative`" in capsys.readouterr().out
    assert main(["check", *words, "--negative"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert re.search(
        r"the rate of change is far from that elsewhere in \d+ polygons?, .*'D04' \(\u221290,000 change", shown
    )


def test_plots_of_negative_rates_have_no_logarithm(tmp_path):
    assert wants_log(np.array([0.01, 1.0, 100.0]))
    assert not wants_log(np.array([0.01, 1.0, 100.0, -1.0]))
    y = np.array([-3.0, 4.0, 0.5, 20.0])
    path = plot_observed_predicted(y, y + 1, y - 2, y + 3, tmp_path / "p.png", units="change", level=0.9, title="t")
    assert image.imread(path).std() > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::vbagg.errors.DataWarning")
def test_a_run(tmp_path):
    files = write_files(tmp_path)
    run = geo.run(
        tmp_path / "out",
        polygons=changes(),
        id="name",
        response="change",
        negative=True,
        likelihood="normal",
        population=str(files["population"]),
        covariate=str(files["height"]),
        population_is="counts",
        threshold=-2.0,
        progress=False,
        **CHEAP,
    )
    table = run.to_geopandas()
    assert isinstance(table, gpd.GeoDataFrame)
    np.testing.assert_allclose(table["observed"], CHANGE)
    assert (table["rate"] < 0).any()
    assert "link identity" in without_tags(Path(run.pages()[0]).read_text())


def test_a_folder_says_whether_totals_may_be_negative(tmp_path):
    files = write_files(tmp_path)
    words = {"population_is": "counts", "negative": True, "folder": tmp_path / "prepared"}
    made = geo.prepare(changes(), "name", "change", files["population"], files["height"], **words)
    made.save(tmp_path / "prepared")
    again = Prepared.load(tmp_path / "prepared")
    np.testing.assert_array_equal(again.y("change"), CHANGE)
    document = tmp_path / "prepared" / "prepared.json"
    document.write_text(document.read_text().replace('"negative": true', '"negative": false'))
    with pytest.raises(ValueError, match="must be a non-negative number"):
        Prepared.load(tmp_path / "prepared")
