"""Facilities that share cells: prepared, mapped, and kept on disk."""

import functools
import json
import warnings

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import rasterio
from clinics import (
    BEDS,
    CELLS,
    HEIGHT,
    NAMES,
    SICK,
    TRANSFORM,
    WIDTH,
    counts,
    friction,
    population,
    shares,
    table,
    wards,
    write_files,
)
from geofiles import write_raster
from shapely import box

import vbagg
from vbagg import geo
from vbagg.geo.aggregate import lay_areas
from vbagg.geo.cell_index import means_of_cells
from vbagg.geo.grid import Grid
from vbagg.geo.leaks import Leaks
from vbagg.geo.overlay import overlay
from vbagg.geo.polygons import read_polygons
from vbagg.geo.prepared import Prepared
from vbagg.geo.travel import least_minutes

TRAVEL = {"at": "lon,lat", "decay": 20.0, "reach": 60.0}
GRID = Grid("EPSG:4326", tuple(TRANSFORM)[:6], HEIGHT, WIDTH)


def by_travel(folder, **more):
    """The clinics prepared by travel time, on the cells of the people."""
    paths = write_files(folder)
    words = {"facilities": paths["clinics"], "friction": paths["friction"], **TRAVEL, **more}
    return geo.prepare(
        None, "clinic", "sick", paths["people"], [paths["height"]],
        population_is="counts", folder=folder / "prepared", **words,
    )  # fmt: skip


def by_table(folder, **more):
    paths = write_files(folder)
    words = {"shares": paths["shares"], "totals": paths["counts"], **more}
    return geo.prepare(
        paths["wards"], "ward", "sick", paths["people"], [paths["height"]],
        population_is="counts", folder=folder / "prepared", **words,
    )  # fmt: skip


def shares_by_hand(decay=20.0, reach=60.0, attraction=None, staying=0.0):
    """Share of each clinic in each cell (clinics, rows, columns)."""
    minutes = np.stack([least_minutes(friction(), cell) for cell in CELLS])
    attracts = np.ones(len(CELLS)) if attraction is None else np.array(attraction)
    pull = np.where(minutes <= reach, attracts[:, None, None] * np.exp(-minutes / decay), 0.0)
    whole = staying + pull.sum(axis=0)
    return np.divide(pull, whole, out=np.zeros_like(pull), where=pull.sum(axis=0) > 0)


@pytest.mark.parametrize(
    ("more", "by_hand"),
    [
        ({}, {}),
        ({"attraction": "beds", "staying": 4.0, "reach": 45.0}, {"attraction": BEDS, "staying": 4.0, "reach": 45}),
    ],
)
def test_people_by_travel_time(tmp_path, more, by_hand):
    prepared = by_travel(tmp_path, **more)
    expected = shares_by_hand(**by_hand)
    people = population()
    np.testing.assert_allclose(prepared.polygons.frame["population"], (expected * people).sum(axis=(1, 2)), rtol=1e-6)
    assert prepared.polygons.labels.tolist() == NAMES
    assert prepared.y().tolist() == SICK
    offset = prepared.stack.grid.offset_in(GRID)
    got = np.zeros((5, HEIGHT, WIDTH))
    pixels = prepared.pixels
    row, column = np.divmod(pixels["cell"].to_numpy(), prepared.stack.grid.width)
    at = pd.Index(NAMES).get_indexer(pixels["polygon"])
    got[at, row + offset[0], column + offset[1]] = pixels["coverage"]
    np.testing.assert_allclose(got, expected, atol=1e-8)


def test_people_are_conserved(tmp_path):
    """Those of all catchments and those who leak are those of the raster."""
    prepared = by_travel(tmp_path, staying=0.3)
    shared = shares_by_hand(staying=0.3)
    people = population().astype(float)
    attending = (shared.sum(axis=0) * people).sum()
    beyond = people[shared.sum(axis=0) == 0].sum()
    assert beyond > 100
    note = next(note for note in prepared.notes if "attend a facility" in note)
    for number in (people.sum(), attending, beyond, people.sum() - attending - beyond):
        assert f"{number:,.0f}" in note
    assert prepared.polygons.frame["population"].sum() == pytest.approx(attending)


def test_people_of_shares_of_wards(tmp_path):
    prepared = by_table(tmp_path)
    covered = overlay(read_polygons(wards(), "ward"), GRID)
    own = np.bincount(covered["polygon"], covered["coverage"] * population().ravel()[covered["cell"]])
    of_area = shares().assign(people=lambda frame: frame["area"].str[1:].astype(int).map(lambda k: own[k - 1]))
    expected = (of_area["people"] * of_area["share"]).groupby(of_area["facility"]).sum()
    got = prepared.polygons.frame.set_index("facility")["population"]
    np.testing.assert_allclose(got, expected[got.index], rtol=1e-6)
    assert prepared.y().to_dict() == dict(zip(NAMES, SICK, strict=True))
    note = next(note for note in prepared.notes if "attend a facility" in note)
    assert f"of {own.sum():,.0f} people, {expected.sum():,.0f}" in note
    assert (
        f"{own.sum() - expected.sum():,.0f} ({1 - expected.sum() / own.sum():.1%}) attend none where others do" in note
    )


def test_folders_keep_what_is_shared(tmp_path):
    by_travel(tmp_path).save(tmp_path / "kept")
    again = Prepared.load(tmp_path / "kept")
    assert again.is_shared
    assert again.bags().totals().sum() == pytest.approx(again.polygons.frame["population"].sum())
    again.stored_bags()
    document = json.loads((tmp_path / "kept" / "prepared.json").read_text())
    (tmp_path / "kept" / "prepared.json").write_text(json.dumps(document | {"is_shared": False}))
    with pytest.raises(ValueError, match="pixels must lie near their polygons"):
        Prepared.load(tmp_path / "kept").bags()


def test_folders_with_more_people_than_cells_have_are_refused(tmp_path):
    by_travel(tmp_path).save(tmp_path / "kept")
    pixels = pd.read_parquet(tmp_path / "kept" / "pixels.parquet")
    cell = pixels["cell"].value_counts().index[0]
    pixels.loc[pixels["cell"] == cell, "coverage"] *= 1.2
    pixels.to_parquet(tmp_path / "kept" / "pixels.parquet", index=False)
    with pytest.raises(ValueError, match="shares of a cell must add up to at most 1"):
        Prepared.load(tmp_path / "kept").bags()


def test_other_grids_conserve_people_too(tmp_path):
    """Eight cells in each of the friction's, to which people are spread."""
    prepared = by_travel(tmp_path, resolution=0.025)
    shared = shares_by_hand()
    assert prepared.stack.grid.resolution == pytest.approx((0.025, 0.025))
    total = prepared.polygons.frame["population"]
    np.testing.assert_allclose(total, (shared * population()).sum(axis=(1, 2)), rtol=1e-5)
    attended = np.where(shared.sum(axis=0) > 0, population(), 0).sum()
    assert total.sum() == pytest.approx(attended, rel=1e-5)


def test_polygons_made_beforehand_can_be_prepared(tmp_path):
    """And catchments of one's own shares."""
    paths = write_files(tmp_path)
    catchments = geo.catchments_by_travel(
        table(), paths["friction"], 20.0, 60.0, "sick", at="lon,lat", id="clinic", attraction="beds"
    )
    words = {"population_is": "counts", "folder": tmp_path / "own"}
    prepared = geo.prepare(catchments, None, "sick", paths["people"], [paths["height"]], **words)
    same = by_travel(tmp_path, attraction="beds")
    pd.testing.assert_frame_equal(prepared.pixels, same.pixels)
    minutes = geo.travel_minutes(paths["friction"], table()[["lon", "lat"]], 60.0)
    of_own = geo.catchments_of(table(), geo.attendance(minutes, 20.0, BEDS), "sick", id="clinic")
    words["folder"] = tmp_path / "of own"
    prepared = geo.prepare(of_own, None, "sick", paths["people"], [paths["height"]], **words)
    pd.testing.assert_frame_equal(prepared.pixels, same.pixels)
    with pytest.raises(ValueError, match="a row for each of the 5 facilities of the shares, in their order; it has 4"):
        geo.catchments_of(table()[1:], of_own.catchments, "sick")
    from_table = geo.catchments_from_shares(wards(), "ward", shares(), "sick", totals=counts())
    assert from_table.catchments.n_facilities == 5
    assert from_table.frame["facility"].tolist() == NAMES


def test_gaps_and_bounds_of_totals_go_on(tmp_path):
    totals = counts().astype({"sick": object}).set_index("facility")
    totals.loc["Dolo", "sick"] = "<5"
    prepared = by_table(tmp_path, totals=totals.drop(index="Bero"))
    assert np.isnan(prepared.y()["Bero"])
    assert prepared.upper().dropna().to_dict() == {"Dolo": 4.0}
    assert any("no row matches 1 catchment ('Bero')" in note for note in prepared.notes)
    extra = counts().replace({"Écu": "ecu", "Aba": "Goa"})
    with pytest.raises(
        ValueError, match=r"belong to a catchment of shares.csv, .*2 rows match none: .*'ecu' \(row \d: 'Écu'"
    ):
        by_table(tmp_path, totals=extra)


@functools.cache
def fitted(folder):
    prepared = by_travel(folder, staying=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = vbagg.Newton(max_iterations=2, starts=1)
        model = vbagg.VBAgg("poisson", landmarks=6, hyper="point", inference=search)
        return prepared, model.fit(prepared.bags(), prepared.y())


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mapped")
    prepared, model = fitted(folder)
    return prepared, model, geo.write_maps(model, prepared, folder / "maps", response="sick", match_totals=True)


def in_pixels(path, prepared):
    with rasterio.open(path) as source:
        return source.read(1).ravel()[prepared.pixels["cell"]].astype(float)


def test_counts_of_cells_add_up_to_those_of_facilities(mapped):
    """Of all together as facilities see their cells; each facility's own by its matched counts.

    Fitted totals take another path than sums over cells, and five totals are few.
    """
    prepared, model, maps = mapped
    pixels = prepared.pixels
    expected, own = in_pixels(maps["expected_count"], prepared), model.posterior(prepared.bags()).mean
    fitted_totals = geo.polygon_table(model, prepared, "sick").set_index("clinic")["fitted"]
    by_pixels = (own * pixels["weight"]).groupby(pixels["polygon"]).sum()
    np.testing.assert_allclose(by_pixels[NAMES], fitted_totals[NAMES], rtol=0.1)
    assert (pixels["coverage"] * expected).sum() == pytest.approx(by_pixels.sum(), rel=1e-5)
    matched = (
        (pixels["coverage"] * in_pixels(maps["expected_count_matched"], prepared)).groupby(pixels["polygon"]).sum()
    )
    np.testing.assert_allclose(matched[NAMES], SICK, rtol=1e-3)


def test_counts_of_cells_are_rates_times_all_people(mapped):
    prepared, _, maps = mapped
    people, rate = in_pixels(maps["population"], prepared), in_pixels(maps["rate_mean"], prepared)
    np.testing.assert_allclose(in_pixels(maps["expected_count"], prepared), rate / 1000 * people, rtol=1e-5)
    row, column = np.divmod(prepared.pixels["cell"].to_numpy(), prepared.stack.grid.width)
    down, right = prepared.stack.grid.offset_in(GRID)
    np.testing.assert_allclose(people, population()[row + down, column + right])


def test_rates_of_shared_cells_are_means_of_what_facilities_say(mapped):
    prepared, model, maps = mapped
    pixels = prepared.pixels
    law = model.posterior(prepared.bags())
    for name, own in (("rate_mean", law.mean), ("rate_q0.025", law.quantile([0.025])[0])):
        weighted = (pixels["coverage"] * 1000 * own).groupby(pixels["cell"]).sum()
        mean = weighted / pixels.groupby("cell")["coverage"].sum()
        np.testing.assert_allclose(in_pixels(maps[name], prepared), mean[pixels["cell"]], rtol=1e-5)


def test_means_of_cells_leave_out_polygons_that_were_not_fitted():
    values = np.array([[1.0, 2, 4, 8], [3, 5, 7, 9]])
    place, fitted = np.array([0, 0, 1, 1]), np.array([True, False, False, False])
    got = means_of_cells(values, place, np.array([0.2, 0.7, 0.1, 0.3]), fitted, 2)
    np.testing.assert_allclose(got, [[1, 7], [3, 8.5]])


def test_rates_of_other_areas_count_all_people(mapped):
    """Those who leak too."""
    prepared, model, _ = mapped
    found = geo.aggregate(model, prepared, read_polygons(wards(), "ward"))
    covered = overlay(read_polygons(wards(), "ward"), GRID)
    people = np.bincount(covered["polygon"], covered["coverage"] * population().ravel()[covered["cell"]])
    np.testing.assert_allclose(found["population"], people, rtol=1e-6)


def test_rates_of_other_areas_are_those_of_the_map(mapped):
    """Of whole rows of cells within reach, whichever facility has the largest share in them."""
    prepared, model, maps = mapped
    with rasterio.open(maps["expected_count"]) as source:
        counts, grid = source.read(1).astype(float), prepared.stack.grid
    left, _, right, top = grid.bounds
    down = grid.resolution[1]
    whole = np.flatnonzero(~np.isnan(counts).any(axis=1))
    assert len(whole) >= 2
    rows = [box(left, top - (row + 1) * down, right, top - row * down) for row in whole]
    found = geo.aggregate(model, prepared, read_polygons(gpd.GeoDataFrame({"row": whole}, geometry=rows, crs=4326)))
    np.testing.assert_allclose(found["total"], counts.sum(axis=1)[whole], rtol=1e-5)
    parts = lay_areas(prepared, read_polygons(gpd.GeoDataFrame(geometry=rows[:1], crs=4326)), maps["rate_mean"].parent)
    assert parts.meetings.meet(np.zeros(5, np.intp), np.arange(5)).all()


def test_how_far_catchments_are_apart(tmp_path):
    """Alike: nobody lives elsewhere. Two that share nothing, of one size: half of all do."""
    assert Leaks(10.0, 7.0, 2.0, np.zeros(1)).staying == 1.0
    whole = by_travel(tmp_path, decay=1e6, reach=1e4)
    findings = geo.check(
        facilities=tmp_path / "clinics.csv", at="lon,lat", id="clinic", response="sick", decay=1e6, reach=1e4,
        friction=tmp_path / "friction.tif", population=tmp_path / "people.tif", skip_validation=True,
    )  # fmt: skip
    assert findings.facts["catchments"]["apart"] == pytest.approx(0, abs=1e-3)
    alike = next(found for found in findings.warnings if found.code == "alike")
    assert "catchments hardly differ" in alike.text
    assert "not for each metre" in alike.text
    assert whole.polygons.frame["population"].std() < 1


def test_leaks_and_distances_agree_with_loops(tmp_path):
    prepared = by_travel(tmp_path)
    findings = geo.check(
        facilities=tmp_path / "clinics.csv", **TRAVEL, id="clinic", response="sick",
        friction=tmp_path / "friction.tif", population=tmp_path / "people.tif", skip_validation=True,
    )  # fmt: skip
    weight = shares_by_hand() * population()
    parts = weight / weight.sum(axis=(1, 2), keepdims=True)
    whole = weight.sum(axis=0) / weight.sum()
    facts = findings.facts["catchments"]
    assert facts["apart"] == pytest.approx(np.median(np.abs(parts - whole).sum(axis=(1, 2)) / 2), rel=1e-5)
    assert facts["facilities_per_cell"] == pytest.approx(len(prepared.pixels) / prepared.pixels["cell"].nunique())
    assert "alike" not in {finding.code for finding in findings.all}


def test_catchments_smaller_than_cells_are_told(tmp_path):
    """A clinic on an island of its own, in a cell of ten times the size."""
    minutes = friction()
    minutes[7:10, 2:5] = np.nan
    minutes[8, 3] = 5.0
    write_files(tmp_path)
    write_raster(tmp_path / "friction.tif", minutes, TRANSFORM)
    findings = geo.check(
        facilities=tmp_path / "clinics.csv", **TRAVEL, id="clinic", response="sick", resolution=0.5,
        friction=tmp_path / "friction.tif", population=tmp_path / "people.tif", skip_validation=True,
    )  # fmt: skip
    outside = next(found for found in findings.warnings if found.code == "outside")
    assert outside.polygons == ("Bero", "Écu")
    assert "2 catchments have no cell of the grid and will be left out ('Bero', 'Écu'), with 52 sick" in outside.text
