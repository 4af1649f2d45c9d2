"""What the check says of survey points."""

import numpy as np
import pandas as pd
import pytest
from small_surveys import LAT, LON, WORDS, surveys
from tiny_country import frame, write_files

from vbagg.doctor import check
from vbagg.workflow.settings import Data, Model

X = np.linspace(30.35, 30.95, 7)


def found(folder, table, model=None, **words):
    """Findings about points alone, and the facts."""
    files = write_files(folder)
    table.to_csv(folder / "surveys.csv", index=False)
    options = {"id": "name", "response": ("cases",), "population": files["population"], "population_is": "counts"}
    options |= {"polygons": files["districts"], "covariate": (files["height"], files["wetness"])}
    data = Data(**{**options, "points": folder / "surveys.csv", **WORDS, **words})
    findings = check(data, Model(**(model or {})))
    return [(one.level, one.code, one.text) for one in findings.all if "point" in one.code], findings


def test_sound_points_have_facts_and_no_findings(tmp_path):
    told, findings = found(tmp_path, surveys())
    assert told == []
    assert findings.facts["points"] == {
        "file": "surveys.csv", "number": 7, "left_out": 0, "cells": 7, "in_polygons": 7,
        "found": {"name": "positive", "sum": 48}, "size": {"name": "tested", "sum": 176},
    }  # fmt: skip
    text = "points      7 of surveys.csv in 7 cells, 7 of them in polygons; 48 positive of 176 tested (27%)"
    assert text in str(findings)


def test_points_that_share_a_cell_or_lie_in_no_polygon_are_counted(tmp_path):
    table = surveys(lon=[LON[1], *LON[1:6], 30.25], lat=[LAT[1] - 0.003, *LAT[1:6], -1.4])
    told, findings = found(tmp_path, table)
    ((level, code, text),) = told
    assert (level, code) == ("advice", "points-outside")
    assert "1 point lies on the grid but in no polygon (line 8)" in text
    assert (findings.facts["points"]["cells"], findings.facts["points"]["in_polygons"]) == (6, 6)


@pytest.mark.parametrize(
    ("changes", "level", "code", "text"),
    [
        ({"tested": [0, *surveys()["tested"][1:]], "positive": [0, *surveys()["positive"][1:]]},
         "warning", "points-left-out", "1 point has tested of 0 (line 2) and will be left out"),
        ({"lon": [None, *LON[1:]]}, "warning", "points-left-out", "1 point has no coordinates (line 2)"),
        ({"positive": [None, None, *surveys()["positive"][2:]]},
         "warning", "points-left-out", "2 points have no positive (line 2, line 3)"),
        ({"lat": [40.0, *LAT[1:]]}, "warning", "points-left-out", "1 point lies off the target grid (line 2)"),
        ({"lon": [LON[1], *LON[1:]], "lat": [LAT[1], *LAT[1:]]},
         "advice", "points-at-one-place", "2 points share their places with others (line 2, line 3)"),
        ({"positive": 0}, "warning", "points-alike", "none of those examined at points are positive"),
        ({"positive": surveys()["tested"]}, "warning", "points-alike", "all of those examined"),
        ({"positive": [99, *surveys()["positive"][1:]]}, "error", "points", "got 99 of 21 (line 2)"),
        ({"lon": LAT, "lat": LON}, "error", "points", "would if coordinates were exchanged: `--at lat,lon`"),
    ],
)  # fmt: skip
def test_each_flaw_is_told_alone(tmp_path, changes, level, code, text):
    told, _ = found(tmp_path, surveys(**changes))
    assert [one[:2] for one in told] == [(level, code)]
    assert text in told[0][2]


def test_more_cases_than_people_are_told(tmp_path):
    words = {"point_trials": None, "point_people": "tested"}
    ((level, code, text),), _ = found(tmp_path, surveys(positive=[99, *surveys()["positive"][1:]]), **words)
    assert (level, code) == ("warning", "points-above")
    assert "positive exceeds tested at 1 point (line 2). Were the columns exchanged?" in text
    expected = {"population": None, "population_is": "guess", "exposure_column": "cases"}
    told, _ = found(tmp_path, surveys(positive=[99, *surveys()["positive"][1:]]), **words, **expected)
    assert told == []


def test_rows_that_are_there_twice_are_told(tmp_path):
    told, _ = found(tmp_path, pd.concat([surveys(), surveys().iloc[2:4]]))
    assert [one[1] for one in told] == ["points-twice"]
    assert "2 rows are there twice" in told[0][2]


def test_covariates_that_polygons_do_not_have_are_told(tmp_path):
    import rasterio

    write_files(tmp_path)
    told, _ = found(tmp_path, surveys())
    assert told == []
    # rain is as far from what it is in polygons only where no polygon lies
    with rasterio.open(tmp_path / "height.tif") as source:
        values, profile = source.read(1), source.profile
    values[:, 0] += 5000
    values[0, 0] = np.nan
    with rasterio.open(tmp_path / "rain.tif", "w", **profile) as target:
        target.write(values, 1)
    table = surveys(lon=[30.25, 30.26, *LON[2:]], lat=[-1.42, -1.33, *LAT[2:]])
    told, _ = found(tmp_path, table, covariate=(tmp_path / "rain.tif",))
    assert {one[1] for one in told} == {"points-outside", "points-beyond", "points-in-gaps"}
    beyond, gaps = (next(one for one in told if one[1] == code) for code in ("points-beyond", "points-in-gaps"))
    assert "1 point lies where 'rain' is far outside of what it is in polygons" in beyond[2]
    assert "(line 2)" in beyond[2]
    assert "1 point lies in cells where a covariate is missing (line 3)" in gaps[2]


def test_what_the_model_makes_of_points_is_looked_at(tmp_path):
    ((level, _, text),), _ = found(tmp_path, surveys(), {"point_likelihood": "same"})
    assert level == "error"
    assert "knows no numbers examined" in text
    assert frame()["name"].is_unique
