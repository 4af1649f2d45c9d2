"""Surveys: what their columns say, which of them can be used, and the points that `prepare` keeps of them."""

import json

import numpy as np
import pandas as pd
import pytest
from small_surveys import CELLS, LAT, LON, POSITIVE, TESTED, WORDS, surveys
from tiny_country import GAP, WIDTH, prepared_country, write_files

from vbagg.geo import Prepared, prepare
from vbagg.geo.cell_features import point_bags
from vbagg.geo.points import observed_as
from vbagg.geo.prepared import DOCUMENT, POINTS
from vbagg.geo.surveyed import surveyed_by


def prepared(folder, points, missing="drop", **words):
    files = write_files(folder)
    covariates = [files["height"], files["wetness"]]
    options = {"population_is": "counts", "missing": missing, "folder": folder / "prepared", **WORDS, **words}
    return prepare(files["districts"], "name", "cases", files["population"], covariates, points=points, **options)


def test_points_have_the_features_of_their_cells(tmp_path):
    made = prepared(tmp_path, surveys())
    bags, pixels = point_bags(made), made.pixels
    assert len(bags) == bags.n_individuals == 7
    assert bags.feature_names == made.bags().feature_names
    assert bags.coordinates == made.bags().coordinates
    for at, cell in enumerate(CELLS):
        own = pixels[pixels["cell"] == cell].iloc[0]
        np.testing.assert_allclose(bags.X[at], own[["x", "y", "height", "wetness"]].astype(float), rtol=1e-6)
    assert made.points.y.tolist() == POSITIVE
    assert made.points.trials.tolist() == TESTED
    assert made.points.y.index.tolist() == bags.labels.tolist() == [f"row {at}" for at in range(1, 8)]
    assert bags.weight.tolist() == [1] * 7


def test_people_are_weights(tmp_path):
    made = prepared(tmp_path, surveys(), point_trials=None, point_people="tested")
    assert made.points.trials is None
    assert point_bags(made).weight.tolist() == TESTED


def test_surveys_in_one_cell_are_points_of_their_own(tmp_path):
    made = prepared(tmp_path, surveys(lon=[LON[1]] * 4 + LON[4:], lat=[LAT[1]] * 4 + LAT[4:]))
    bags = point_bags(made)
    assert len(bags) == 7
    np.testing.assert_array_equal(bags.X[0], bags.X[3])


def test_what_cannot_be_used_is_left_out_and_named(tmp_path):
    x, y = 30.2 + 0.1 * (GAP[1] + 0.3), -1.3 - 0.05 * (GAP[0] + 0.6)
    table = surveys(
        lon=[*LON[:3], None, LON[4], 20.0, x],
        lat=[*LAT[:5], LAT[5], y],
        tested=[21, 0, *TESTED[2:]],
        positive=[3, 0, 17, 0, None, 2, 6],
    )
    made = prepared(tmp_path, pd.concat([table, surveys()], ignore_index=True))
    assert made.points.table["point"].tolist() == ["row 1", "row 3", *(f"row {at}" for at in range(8, 15))]
    assert [note for note in made.notes if "points: left out" in note] == [
        "points: left out because of no coordinates: 1 point (row 4).",
        "points: left out because of no positive: 1 point (row 5).",
        "points: left out because of tested of 0: 1 point (row 2).",
        "points: left out because of a place off the grid: 1 point (row 6).",
        "points: left out because of missing covariates in their cell: 1 point (row 7).",
    ]
    assert GAP[0] * WIDTH + GAP[1] not in made.points.table["cell"].tolist()


def test_points_in_filled_gaps_are_used(tmp_path):
    x, y = 30.2 + 0.1 * (GAP[1] + 0.3), -1.3 - 0.05 * (GAP[0] + 0.6)
    made = prepared(tmp_path, surveys(lon=[x, *LON[1:]], lat=[y, *LAT[1:]]), missing="nearest")
    assert len(made.points) == 7
    assert np.isfinite(point_bags(made).X).all()


@pytest.mark.parametrize(
    ("changes", "words", "message"),
    [
        (
            {"positive": [3, 40, *POSITIVE[2:]]},
            {},
            r"'positive' must not exceed 'tested'; got 40 of 34 \(row 2\)\. Correct it",
        ),
        ({"positive": TESTED, "tested": POSITIVE}, {}, r"the first of 7 such rows\. Were the columns exchanged\?"),
        ({"tested": [21.5, *TESTED[1:]]}, {}, r"'tested' must hold whole numbers; got 21.5 \(row 1\)"),
        ({"positive": [-3, *POSITIVE[1:]]}, {}, r"must be a number that is not negative; got -3 \(row 1\)"),
        ({"positive": ["few", *POSITIVE[1:]]}, {}, "'positive' must be a number .*got 'few'"),
        ({"tested": pd.Timestamp("2024-03-01")}, {}, "got '2024-03-01 00:00:00'"),
        ({"positive": None}, {}, "of its rows 7 have no positive"),
        (
            {},
            {"point_response": "positives"},
            r"no column 'positives' for what was found, as `--point-response` says",
        ),
        ({}, {"point_trials": "test"}, "no column 'test' for numbers examined, as `--point-trials` says"),
        ({}, {"point_response": None}, "points: the column with what was found is missing"),
        ({}, {"point_people": "tested"}, "do not go together"),
        ({"lon": LAT, "lat": LON}, {}, "7 of 7 points lie elsewhere .*7 would if .* exchanged: `--at lat,lon`"),
        ({"lon": np.array(LON) + 9}, {}, "Check its coordinates and their reference system"),
    ],
)
def test_what_is_refused_before_rasters_are_read(tmp_path, monkeypatch, changes, words, message):
    def refuse(*arguments, **options):
        raise AssertionError("rasters were read")

    monkeypatch.setattr("vbagg.geo.layout.open_all", refuse)
    with pytest.raises(ValueError, match=message):
        prepared(tmp_path, surveys(**changes), **words)
    assert not (tmp_path / "prepared").exists()


def test_words_without_points_are_refused():
    for word in ("response", "trials", "people", "crs", "sheet"):
        with pytest.raises(ValueError, match="goes with points; none were named"):
            surveyed_by(None, **{word: "x"})
    assert surveyed_by(None) is None


def test_most_points_must_have_covariates(tmp_path):
    x, y = 30.2 + 0.1 * (GAP[1] + 0.3), -1.3 - 0.05 * (GAP[0] + 0.6)
    with pytest.raises(ValueError, match="all covariates are known; 5 of 7 points lie in cells without"):
        prepared(tmp_path, surveys(lon=[x] * 5 + LON[5:], lat=[y] * 5 + LAT[5:]))


def test_points_are_kept_with_prepared_data(tmp_path):
    made = prepared(tmp_path, surveys())
    made.save(tmp_path / "prepared")
    kept = Prepared.load(tmp_path / "prepared").points
    pd.testing.assert_frame_equal(kept.table, made.points.table)
    assert kept.document() == json.loads(json.dumps(made.points.document())) | {"notes": kept.notes}
    plain = prepared_country(tmp_path)
    plain.save(tmp_path / "plain")
    assert Prepared.load(tmp_path / "plain").points is None
    with pytest.raises(ValueError, match="holds no points"):
        point_bags(plain)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"found": 99.0}, "find no more than were examined"),
        ({"found": -1.0}, "find nothing negative"),
        ({"size": 0.0}, "have a positive size"),
        ({"size": np.nan}, "have finite numbers"),
        ({"cell": 10**6}, "lie in a cell of the grid"),
        ({"cell": CELLS[0]}, "lie where its cell is; row 1"),
        ({"cell": GAP[0] * WIDTH + GAP[1], "longitude": 30.83, "latitude": -1.578}, "have all covariates in its cell"),
        ({"point": "row 1"}, "name each point by a text of its own"),
        ({"cell": 3.5}, "columns of the right types"),
        ({"more": 1.0}, "must have 7 rows with the columns"),
    ],
)
def test_damaged_points_are_refused(tmp_path, change, message):
    prepared(tmp_path, surveys()).save(tmp_path / "prepared")
    path = tmp_path / "prepared" / POINTS
    pd.read_parquet(path).assign(**change).to_parquet(path, index=False)
    with pytest.raises(ValueError, match=f"cannot be read as prepared data: .*{message}.*Prepare it again"):
        Prepared.load(tmp_path / "prepared")


@pytest.mark.parametrize("how", ["missing", "cut", "other", "document"])
def test_files_that_do_not_agree_are_refused(tmp_path, how):
    folder = tmp_path / "prepared"
    prepared(tmp_path, surveys()).save(folder)
    if how == "document":
        document = json.loads((folder / DOCUMENT).read_text())
        document["points"]["sized_by"] = "length"
        (folder / DOCUMENT).write_text(json.dumps(document))
    else:
        content = (folder / POINTS).read_bytes()
        (folder / POINTS).unlink()
        if how != "missing":
            (folder / POINTS).write_bytes(content[:99] if how == "cut" else b"SQLite format 3\0")
    with pytest.raises(ValueError, match="cannot be read as prepared data"):
        Prepared.load(folder)


@pytest.mark.parametrize(
    ("sized_by", "polygons", "asked", "slope", "seen"),
    [
        ("trials", "negative_binomial", None, "1", ("binomial", 1.0)),
        ("trials", "poisson", "beta_binomial", "0.7", ("beta_binomial", 0.7)),
        ("trials", "binomial", "same", "1", (None, 1.0)),
        ("trials", "binomial", None, "learnt", ("binomial", "learnt")),
        ("people", "poisson", None, "1", (None, 1.0)),
        ("people", "poisson", "negative_binomial", "learnt", ("negative_binomial", "learnt")),
        (None, "poisson", "normal", "1.0", ("normal", 1.0)),
    ],
)
def test_how_points_are_seen(sized_by, polygons, asked, slope, seen):
    assert tuple(observed_as(sized_by, polygons, asked, slope, "population")) == seen


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, "poisson", None, "1", "population"), "need the number examined or their people"),
        ((None, "poisson", "same", "1", "population"), "Name their column by `--point-people`"),
        ((None, "poisson", "binomial", "1", "population"), "'binomial' needs numbers examined"),
        (("trials", "poisson", "same", "1", "population"), "that of the polygons, 'poisson', knows no numbers"),
        (("people", "binomial", None, "1", "population"), "that of the polygons, 'binomial', needs numbers examined"),
        (
            ("people", "poisson", None, "learnt", "population"),
            "`point_slope` goes with a likelihood of the points",
        ),
        (("people", "poisson", None, "1", "area"), "polygons without people have rates per square kilometre"),
    ],
)
def test_likelihoods_that_do_not_fit_points(arguments, message):
    with pytest.raises(ValueError, match=message):
        observed_as(*arguments)
