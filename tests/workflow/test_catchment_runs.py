"""Facilities that share cells, from the command line and in whole runs."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import rasterio
from clinics import NAMES, SICK, shares, write_files
from tiny_country import CHEAP

from vbagg import geo
from vbagg.cli import main
from vbagg.workflow.stages import STAGES

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*there are only 5 polygons"),
    pytest.mark.filterwarnings("ignore::vbagg.errors.ConvergenceWarning"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("files"))


def travel(files, **more):
    return {
        "facilities": files["clinics"],
        "at": "lon,lat",
        "id": "clinic",
        "friction": files["friction"],
        "decay": 20.0,
        "reach": 60.0,
        "response": "sick",
        "population": files["people"],
        "population_is": "counts",
        "covariate": [files["height"]],
        **more,
    }


def table(files, **more):
    return {
        "polygons": files["wards"],
        "id": "ward",
        "shares": files["shares"],
        "totals": files["counts"],
        "response": "sick",
        "population": files["people"],
        "population_is": "counts",
        "covariate": [files["height"]],
        **more,
    }


def without(words, *names):
    return {name: value for name, value in words.items() if name not in names}


def test_the_check_knows_both(files):
    for words in (travel(files), table(files)):
        findings = geo.check(**words, skip_validation=True)
        assert findings.errors == ()
        assert findings.facts["polygons"]["number"] == 5
        leak = next(found for found in findings.all if found.code == "leak")
        assert "attend a facility" in leak.text
        assert "facilities per cell on average" in str(findings)
        assert not {"overlap", "border-cells", "tiny", "partly-outside"} & {found.code for found in findings.all}
    assert findings.facts["catchments"]["beyond"] == 0


def test_much_that_leaks_is_a_warning(files):
    some = geo.check(**travel(files, reach=200, staying=0.01), skip_validation=True)
    much = geo.check(**travel(files, reach=200, staying=1.5), skip_validation=True)
    assert "leak" in {found.code for found in some.advice}
    assert "leak" in {found.code for found in much.warnings}
    whole = some.facts["catchments"]["people"]
    assert much.facts["catchments"]["attending"] < 0.5 * whole


def test_areas_without_shares_are_warned_of(files):
    findings = geo.check(**table(files, shares=shares()[lambda frame: frame["area"] != "W6"]), skip_validation=True)
    assert "no row has a share of 1 area ('W6')" in next(f.text for f in findings.warnings if f.code == "no-share")
    assert findings.facts["catchments"]["beyond"] > 1000


@pytest.mark.parametrize(
    ("made", "change", "message"),
    [
        (travel, {"shares": "shares.csv"}, "got both `--shares` and `--facilities`"),
        (travel, {"polygons": "wards.gpkg"}, "got `--polygons` beside `--facilities`"),
        (travel, {"friction": None}, "need `--friction`, a raster of minutes to cross a cell"),
        (travel, {"decay": None}, "need `--decay`, a number of minutes"),
        (travel, {"reach": None}, "need `--reach`, a number of minutes"),
        (travel, {"share_columns": "a,b,c"}, "`--share-columns` goes with `--shares`"),
        (travel, {"at": "lon"}, "`--at` must name two columns"),
        (travel, {"id": "clinics"}, "no column 'clinics' for the id; did you mean `clinic`"),
        (travel, {"attraction": "bed"}, "no column 'bed' for `--attraction`; did you mean `beds`"),
        (travel, {"response": "sickness"}, "no column 'sickness' for the response"),
        (
            travel,
            {"population": None, "population_column": "beds"},
            "a column of people of each facility goes with pol",
        ),
        (table, {"totals": None}, "Totals of facilities are missing"),
        (table, {"polygons": None}, "Shares are those of areas"),
        (table, {"id": None}, "Name the column of the areas by `--id`"),
        (table, {"on": "clinic"}, "has no column 'clinic' to join it by"),
        (table, {"on": "clinic=facility"}, "Write `--on facility=facility`"),
        (table, {"share_columns": "area,facility"}, "must name three columns, .*; got 'area,facility'"),
        (table, {"share_columns": "ward,facility,share"}, "no column 'ward' of areas"),
        (table, {"reach": 30.0}, "`--reach` goes with `--facilities`"),
        (table, {"shares": None, "totals": None, "friction": "friction.tif"}, "`--friction` goes with `--facilities`"),
    ],
)
def test_what_does_not_go_together_is_refused(files, tmp_path, made, change, message):
    """By the check and by `prepare`, which say the same."""
    words = without(made(files, **change), *(name for name, value in change.items() if value is None))
    findings = geo.check(**words, skip_validation=True)
    assert re.search(message, findings.errors[0].text)
    words = {"polygons": None, "id": None} | words
    covariate = words.pop("covariate")
    with pytest.raises(ValueError, match=message):
        geo.prepare(**words, covariates=covariate, folder=tmp_path / "prepared")


def test_no_raster_is_read_before_words_and_tables_are_right(files, tmp_path):
    """The friction is no raster at all."""
    broken = tmp_path / "friction.tif"
    broken.write_text("no raster")
    for change, message in (({"decay": None}, "--decay"), ({"response": "sickness"}, "sickness"), ({}, "friction.tif")):
        words = without(travel(files, friction=broken) | change, *(name for name in change if change[name] is None))
        assert message in geo.check(**words, skip_validation=True).errors[0].text


def test_the_command_line_says_what_is_wrong(files, capsys):
    words = ["--facilities", files["clinics"], "--at", "lat,lon", "--id", "clinic", "--response", "sick"]
    more = ["--friction", files["friction"], "--decay", 20, "--reach", 60, "--population", files["people"]]
    assert main(["check", *map(str, [*words, *more])]) == 2
    assert "covers x 30.2 to 31.6, y -1.85 to -1.3" in " ".join(capsys.readouterr().out.split())
    assert main(["check", *map(str, words), "--decay", "-3"]) == 2
    assert "data.decay" in capsys.readouterr().err


def test_workers_lay_out_the_same(files, tmp_path):
    """Shares travel to where bands are found."""
    distributed = pytest.importorskip("distributed")
    words = table(files)
    covariate = words.pop("covariate")
    polygons, id = words.pop("polygons"), words.pop("id")
    alone = geo.prepare(polygons, id, covariates=covariate, folder=tmp_path / "alone", **words)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        there = geo.prepare(polygons, id, covariates=covariate, folder=tmp_path / "there", client=client, **words)
    pd.testing.assert_frame_equal(alone.pixels, there.pixels)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::vbagg.errors.DataWarning")
def test_whole_runs(files, tmp_path):
    words = table(files, likelihood="poisson", match_totals=True, to=files["wards"], **CHEAP | {"recovery": 1})
    run = geo.run(tmp_path / "out", progress=False, **words)
    assert list(STAGES) == [name for name in STAGES if (tmp_path / "out" / name).is_dir()]
    own, maps = run.to_geopandas(), run.to_xarray()
    assert own["facility"].tolist() == NAMES
    assert own["observed"].tolist() == SICK
    pixels = run.prepared().pixels
    matched = maps["expected_count_matched"].to_numpy().ravel()[pixels["cell"]]
    sums = (pixels["coverage"] * matched).groupby(pixels["polygon"]).sum()
    np.testing.assert_allclose(sums[NAMES], SICK, rtol=1e-3)
    with rasterio.open(files["people"]) as source:
        people = source.read(1)
    assert float(np.nansum(maps["population"])) <= people.sum()
    page = run.pages()[0].read_text(encoding="utf-8")
    assert "Catchments share cells; each is drawn where its share is the largest" in page
    assert page.count("attend none where others do") == 1
    assert "attend a facility" in (tmp_path / "out" / "run.log").read_text(encoding="utf-8")
    read = json.loads((tmp_path / "out" / "prepared" / "stage.json").read_text())["settings"]
    assert {"data.shares", "data.totals", "data.id"} <= set(read)
