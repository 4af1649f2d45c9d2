"""A run of a country two of whose districts did not report, and two published bounds."""

import json
import shutil

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import rasterio
from tiny_country import CHEAP, frame, write_files

from vbagg import geo
from vbagg.cli import main
from vbagg.workflow.run import Run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::vbagg.errors.DataWarning")]

MISSING, SUPPRESSED = ["D01", "D09"], ["D04", "D08"]
COUNTED = [name for name in frame()["name"] if name not in MISSING + SUPPRESSED]


def counts():
    """A table with a row too few, an empty cell, `<10` for 7 and a mark for 3."""
    table = frame()[["name", "cases"]].astype({"cases": int}).astype({"cases": str}).set_index("name")
    table.loc["D04"], table.loc["D08"], table.loc["D09"] = "<10", "*", ""
    return table.drop(index="D01")


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    files = write_files(folder)
    gpd.read_file(files["districts"]).drop(columns="cases").to_file(folder / "shapes.gpkg")
    counts().to_csv(folder / "counts.csv")
    return {
        "polygons": str(folder / "shapes.gpkg"),
        "totals": str(folder / "counts.csv"),
        "on": "name",
        "response": "cases",
        "suppressed": "1-4",
        "population": str(files["population"]),
        "population_is": "counts",
        "covariate": str(files["height"]),
    }


def arguments(words):
    return [text for word, value in words.items() for text in (f"--{word.replace('_', '-')}", str(value))]


@pytest.fixture(scope="module")
def finished(words, tmp_path_factory):
    return geo.run(
        tmp_path_factory.mktemp("run") / "out", progress=False, match_totals=True, **words, **CHEAP | {"recovery": 1}
    )


def test_the_check_tells_of_gaps_and_bounds(words, capsys):
    assert main(["check", *arguments(words), "--folds", "2"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "between 213 and 225 in all; between" in shown
    assert "missing in 2 polygons; suppressed in 2 polygons" in shown
    found = {finding.code: finding for finding in geo.check(**words, folds=2).all}
    assert found["missing-totals"].polygons == tuple(MISSING)
    assert found["suppressed-totals"].polygons == tuple(SUPPRESSED)
    assert found["no-row"].level == "warning"
    assert "2 totals were read as bounds, for example '<10' as 0 to 9, '*' as 1 to 4." in shown


def test_prepared_data_hold_bounds(finished, words, tmp_path):
    prepared = finished.prepared()
    assert prepared.y()[MISSING].isna().all()
    assert prepared.y()[SUPPRESSED].tolist() == [0, 1]
    assert prepared.upper().dropna().to_dict() == {"D04": 9, "D08": 4}
    assert sum("no total of 'cases' ('D01', 'D09')" in note for note in prepared.notes) == 1
    assert sum("only bounds of 'cases' are known ('D04', 'D08')" in note for note in prepared.notes) == 1
    assert main(["prepare", *arguments(words), "--out", str(tmp_path / "out")]) == 0
    again = geo.Prepared.load(tmp_path / "out" / "prepared")
    pd.testing.assert_series_equal(again.upper(), prepared.upper())
    pd.testing.assert_series_equal(again.y(), prepared.y())


def test_the_model_is_told_what_is_known(finished):
    notes = " ".join(finished.model().status_.notes)
    assert "2 of 12 bags have no output (bags 'D01', 'D09')" in notes
    assert "Of 2 of 12 bags only bounds are known (bags 'D04', 'D08')" in notes


def test_maps_have_rates_everywhere(finished):
    maps = {path.stem: path for path in finished.map_files()}
    values = {}
    for name in ("rate_mean", "rate_sd", "expected_count", "expected_count_matched", "population"):
        with rasterio.open(maps[name]) as source:
            values[name] = source.read(1)
    cells = finished.prepared().pixels
    inside = {name: cells["cell"][cells["polygon"] == name].to_numpy() for name in frame()["name"]}
    for name in MISSING + SUPPRESSED:
        assert (values["rate_mean"].ravel()[inside[name]] > 0).all()
        assert (values["rate_sd"].ravel()[inside[name]] > 0).all()
    shared = pd.Series(np.concatenate(list(inside.values()))).duplicated(keep=False).to_numpy()
    alone = set(np.concatenate(list(inside.values()))[~shared])
    for name, own in inside.items():
        at = [cell for cell in own if cell in alone and values["population"].ravel()[cell] > 0]
        same = np.allclose(
            values["expected_count"].ravel()[at], values["expected_count_matched"].ravel()[at], rtol=1e-5
        )
        assert same == (name in MISSING + SUPPRESSED)


def test_tables_say_what_is_known(finished):
    table = finished.to_geopandas().set_index("name")
    plain = pd.read_csv(finished.maps() / "polygons.csv").set_index("name")
    for found in (table, plain):
        assert found["observation"].to_dict() == (
            dict.fromkeys(COUNTED, "observed")
            | dict.fromkeys(MISSING, "missing")
            | dict.fromkeys(SUPPRESSED, "suppressed")
        )
        assert found.loc[MISSING + SUPPRESSED, ["observed", "observed_rate", "pit", "residual"]].isna().all(axis=None)
        assert found.loc[COUNTED, ["observed", "observed_rate", "pit", "residual"]].notna().all(axis=None)
        assert found.loc[MISSING, ["observed_lower", "observed_upper"]].isna().all(axis=None)
        assert found.loc[SUPPRESSED, ["observed_lower", "observed_upper"]].to_numpy().tolist() == [[0, 9], [1, 4]]
        assert (found["observed_lower"] == found["observed_upper"])[COUNTED].all()
        widths = found["fitted_upper"] - found["fitted_lower"]
        assert (widths > 0).all()
        assert found["predicted_upper"].notna().all()


def test_validation_leaves_them_out_and_says_so(finished):
    assert sorted(finished.validation().table["bag"].unique()) == COUNTED
    log = (finished.folder.path / "run.log").read_text()
    assert "validation: cases: 2 suppressed totals left out, since scores need the totals themselves" in log


def test_the_report_tells_of_them(finished):
    (page,) = finished.pages()
    text = page.read_text()
    for words in (
        "Polygons whose total is missing",
        "2 polygons whose total is missing and 2 polygons whose total is suppressed could not be scored.",
        "only bounds of &#39;cases&#39; are known",
    ):
        assert words in text, words


def test_prepared_data_whose_gaps_are_others_are_refused(finished, tmp_path):
    folder = tmp_path / "prepared"
    shutil.copytree(finished.folder["prepared"], folder)
    document = json.loads((folder / "prepared.json").read_text())
    assert document["polygons"]["uppers"] == {"cases": "cases_upper"}
    assert document["polygons"]["gaps"] == {"cases": {"missing": 2, "suppressed": 2}}
    for change, told in (
        ({"gaps": {"cases": {"missing": 1, "suppressed": 2}}}, "must have the gaps"),
        ({"uppers": {}}, "must have the gaps"),
        ({"uppers": {"cases": "tested"}}, "must hold more than 'cases', or nothing"),
        ({"uppers": {"cases": "region"}}, "must hold numbers"),
        ({"uppers": {"cases": "absent"}}, "no column 'absent'"),
        ({"uppers": {"cases": "cases_upper", "other": "cases_upper"}}, "must be those of responses"),
    ):
        changed = document | {"polygons": document["polygons"] | change}
        (folder / "prepared.json").write_text(json.dumps(changed))
        with pytest.raises(ValueError, match=told):
            geo.Prepared.load(folder)


def test_folders_of_complete_totals_that_say_nothing_of_gaps_can_be_loaded(tmp_path):
    files = write_files(tmp_path)
    prepared = geo.prepare(files["districts"], "name", "cases", files["population"], folder=tmp_path / "out")
    prepared.save(tmp_path / "out")
    document = json.loads((tmp_path / "out" / "prepared.json").read_text())
    for name in ("uppers", "gaps"):
        del document["polygons"][name]
    (tmp_path / "out" / "prepared.json").write_text(json.dumps(document))
    loaded = geo.Prepared.load(tmp_path / "out")
    assert loaded.upper() is None
    pd.testing.assert_series_equal(loaded.y(), prepared.y())


def test_another_meaning_of_the_mark_makes_the_stages_anew(finished):
    from vbagg.workflow.run import outdated
    from vbagg.workflow.settings import combine
    from vbagg.workflow.stages import MODELS, PREPARED

    other = combine(finished.settings, {"data": {"suppressed": ("1-9",)}}, "test")
    assert outdated(finished, MODELS) is None
    reason = 'data.suppressed was ["1-4"] and is ["1-9"] now'
    assert outdated(Run(other, finished.folder), PREPARED) == reason
    assert outdated(Run(other, finished.folder), MODELS) == f"prepared: {reason}"


def test_effects_are_of_polygons_whose_totals_are_known_if_only_within_bounds(finished):
    table = finished.to_geopandas().set_index("name")
    assert (
        table.loc[MISSING, ["effect", "effect_lower", "effect_upper", "effect_above", "chance"]].isna().all(axis=None)
    )
    assert table.loc[COUNTED + SUPPRESSED, ["effect", "effect_above", "chance"]].notna().all(axis=None)
    assert table["from_others"].notna().all()
    assert not table.loc[MISSING, "stands_out"].any()
    assert (table["effect_lower"] < table["effect"]).loc[COUNTED].all()
    # what is expected of a count without its own is as wide as that of a new one
    wide = table["from_others_upper"] - table["from_others_lower"]
    assert (wide[MISSING] == (table["predicted_upper"] - table["predicted_lower"])[MISSING]).all()


def test_log_and_command_tell_of_odd_totals(finished, capsys):
    log = (finished.folder.path / "run.log").read_text()
    assert "maps: cases: none of 10 totals stands out from what the other polygons say" in log
    assert main(["predict", "--out", str(finished.folder.path)]) == 0
    assert "cases: none of 10 totals stands out" in capsys.readouterr().out


def test_the_report_tells_of_odd_totals(finished):
    (page,) = finished.pages()
    text = page.read_text()
    assert "None of 10 totals stands out." in text
    assert "Official totals add up to" in text
    assert "Cells of the map of matched counts add up to the official totals." in text
    assert "Totals against what is expected" in text
    assert (finished.folder["report"] / "plots" / "cases" / "effects.png").exists()
