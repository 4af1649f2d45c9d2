"""Each defect is put into a sound data set, and must be all that is found."""

import json
import warnings
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
from affine import Affine
from geofiles import write_raster
from shapely import Polygon, box, transform

from vbagg.cli import main
from vbagg.doctor import check
from vbagg.geo.prepare import prepare
from vbagg.likelihoods import REGISTERED, get_likelihood
from vbagg.workflow.settings import SECTIONS, WORDS, Data, Maps, Model, Validation

ROWS, COLUMNS, LEFT, TOP, ACROSS, DOWN = 30, 40, 30.0, 10.0, 0.05, 0.04
TRANSFORM = Affine(ACROSS, 0, LEFT, 0, -DOWN, TOP)
# edges of 6 x 4 districts, in cells: the outer ones lie on edges of cells, the inner ones do not
EDGES_X, EDGES_Y = (2, 8.4, 14.7, 20.2, 26.6, 32.5, 38), (1, 8.3, 15.6, 22.1, 29)


def shares(edges, n):
    """Part of each of n cells in each interval between edges."""
    cells = np.arange(n)
    return np.array([np.clip(np.minimum(b, cells + 1) - np.maximum(a, cells), 0, 1) for a, b in pairwise(edges)])


def place(left, top, right, bottom):
    """A box given in cells."""
    return box(LEFT + ACROSS * left, TOP - DOWN * bottom, LEFT + ACROSS * right, TOP - DOWN * top)


@dataclass
class Country:
    """Twenty-four districts, their cases, a population and two covariates; arrays and frame may be spoilt."""

    folder: Path
    settings: dict = field(default_factory=dict)
    model: dict = field(default_factory=dict)
    validation: dict = field(default_factory=dict)
    maps: dict = field(default_factory=dict)
    crs: str = "EPSG:4326"

    def __post_init__(self):
        rng = np.random.default_rng(8)
        self.population = rng.lognormal(5, 0.8, (ROWS, COLUMNS)).astype(np.float32)
        self.rain = rng.normal(900, 100, (ROWS, COLUMNS)).astype(np.float32)
        self.height = rng.gamma(2, 200, (ROWS, COLUMNS)).astype(np.float32)
        self.more = {}
        boxes = [(x, y) for y in range(4) for x in range(6)]
        people = shares(EDGES_Y, ROWS) @ self.population @ shares(EDGES_X, COLUMNS).T
        self.people = np.array([people[y, x] for x, y in boxes])
        shapes = [place(EDGES_X[x], EDGES_Y[y], EDGES_X[x + 1], EDGES_Y[y + 1]) for x, y in boxes]
        rates = rng.lognormal(np.log(0.02), 0.4, len(boxes))
        self.frame = gpd.GeoDataFrame(
            {"name": [f"d{i}" for i in range(len(boxes))], "cases": rng.poisson(rates * self.people).astype(float)},
            geometry=shapes,
            crs=self.crs,
        )

    def write(self, name, values, **more):
        return write_raster(self.folder / f"{name}.tif", values, **{"transform": TRANSFORM, **more})

    def data(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a CRS that is absent on purpose
            self.frame.to_file(self.folder / "districts.gpkg")
        files = {
            "polygons": self.folder / "districts.gpkg",
            "population": self.write("population", self.population, nodata=np.nan),
            "covariate": [
                self.write("rain", self.rain, nodata=np.nan),
                self.write("height", self.height, nodata=np.nan),
                *self.more.get("covariate", ()),
            ],
            "category": self.more.get("category", ()),
        }
        return Data(**{"id": "name", "response": ("cases",), "population_is": "counts", **files, **self.settings})

    def sections(self):
        plans = {"validation": Validation(**self.validation), "maps": Maps(**self.maps)}
        return {"data": self.data(), "model": Model(**self.model), **plans}

    def check(self):
        return check(**self.sections())

    def arguments(self):
        """The same for the command line."""
        arguments = []
        sections = self.sections()
        for word, (section, key) in WORDS.items():
            if section in sections:
                value = getattr(sections[section], key)
                if value != SECTIONS[section].model_fields[key].default:
                    for one in value if isinstance(value, tuple) else (value,):
                        arguments += [f"--{word.replace('_', '-')}", str(one)]
        return arguments


@pytest.fixture
def country(tmp_path):
    return Country(tmp_path)


def told(findings):
    return {(finding.level, finding.code) for finding in findings.all}


def test_a_sound_country_has_no_findings(country):
    findings = country.check()
    assert findings.all == ()
    facts = findings.facts
    assert facts["polygons"] == {
        "file": "districts.gpkg", "number": 24, "id": "name", "crs": "EPSG:4326", "reprojected": False
    }  # fmt: skip
    assert (facts["grid"]["rows"], facts["grid"]["columns"]) == (ROWS, 38)  # one cell to spare on each side
    assert facts["grid"]["cell"] == pytest.approx([ACROSS, DOWN])
    assert facts["grid"]["cell_km"] == pytest.approx(np.sqrt(0.05 * 0.04) * 111, rel=0.02)
    assert facts["pixels"]["cells"] == 28 * 36
    assert facts["exposure"]["total"] == pytest.approx(country.people.sum())
    cases = country.frame["cases"].to_numpy()
    assert facts["responses"]["cases"]["total"] == cases.sum()
    assert facts["responses"]["cases"]["per_1000_most"] == pytest.approx(1000 * (cases / country.people).max())
    assert [raster["aligned_by"] for raster in facts["rasters"]] == ["copy"] * 3
    assert "A run can begin." in str(findings)


def test_totals_and_rates_are_of_the_same_polygons(country):
    outside(country)
    findings = country.check()
    facts = findings.facts["responses"]["cases"]
    cases = country.frame["cases"].to_numpy()
    assert facts["total"] == cases[:-1].sum()
    assert facts["per_1000"] == pytest.approx(1000 * cases[:-1].sum() / country.people.sum())
    assert facts["left_out"] == {"polygons": 1, "total": 12.0}
    assert "in all, without 12 in 1 polygon left out for want of people; " in str(findings)


DEFECTS = {}


def defect(*expected, names=()):
    """Register a way to spoil a country, the findings (level and code) it leads to, and what the texts must name."""

    def register(spoil):
        DEFECTS[spoil.__name__] = (spoil, set(expected), names)
        return spoil

    return register


@defect(("error", "no-polygons"), names=["--polygons"])
def no_polygons(c):
    c.settings["polygons"] = None


@defect(("error", "no-response"), names=["--response"])
def no_response(c):
    c.settings["response"] = ()


@defect(("error", "polygon-file"), names=["absent.gpkg"])
def absent_polygons(c):
    c.settings["polygons"] = c.folder / "absent.gpkg"


@defect(("error", "polygon-file"), names=["districts.gpkg", "'regions'"])
def absent_layer(c):
    c.settings["layer"] = "regions"


@defect(("error", "population-file"), names=["nowhere.tif"])
def the_only_raster_is_absent(c):
    c.settings |= {"population": c.folder / "nowhere.tif", "covariate": ()}


@defect(("error", "geometry"), ("advice", "border-cells"), names=["2 rows are none: 'd3' has no area, 'd8' is a Point"])
def points_and_lines(c):
    c.frame.loc[3, "geometry"] = Polygon([(30, 9), (31, 9), (30.5, 9)])
    c.frame.loc[8, "geometry"] = c.frame.geometry[8].centroid


@defect(("error", "polygon-file"), names=["districts.gpkg", "empty"])
def no_rows(c):
    c.frame = c.frame[:0]


@defect(("error", "id"), names=["districts.gpkg", "'name'", "'d3'", "rows 4, 6"])
def repeated_id(c):
    c.frame.loc[5, "name"] = "d3"


@defect(("error", "id"), names=["districts.gpkg", "'nmae'", "`name`"])
def absent_id(c):
    c.settings["id"] = "nmae"


@defect(("error", "reserved-name"), names=["districts.gpkg", "'Population'"])
def reserved_id(c):
    c.frame["Population"] = c.frame["name"]
    c.settings["id"] = "Population"


@defect(("error", "reserved-name"), names=["districts.gpkg", "'population'"])
def reserved_response(c):
    c.frame["population"] = c.frame["cases"]
    c.settings["response"] = ("cases", "population")


@defect(("error", "geometry"), names=["districts.gpkg", "48 rows have 24 outlines", "rows 1, 25", "`--id`"])
def a_row_for_each_month(c):
    c.frame = pd.concat([c.frame, c.frame], ignore_index=True)
    c.settings["id"] = None


@defect(("error", "response"), names=["districts.gpkg", "'cases' was named twice"])
def response_named_twice(c):
    c.settings["response"] = ("cases", "cases")


@defect(("advice", "assumed"), names=["districts.gpkg", "is text, which was read as numbers", "' as {longest:.0f}."])
def totals_as_text(c):
    c.population *= 40
    c.frame["cases"] = [f"{40 * value:,.0f}" for value in c.frame["cases"]]


@defect(("error", "response"), names=["districts.gpkg", "'unknown'", "'d7'", "the first of 2 such"])
def words_among_totals(c):
    c.frame["cases"] = [f"{value:.0f}" for value in c.frame["cases"]]
    c.frame.loc[[7, 11], "cases"] = "unknown"


@defect(("error", "geometry"), names=["districts.gpkg", "'Sheet' is a plane of its own"])
def plane_of_its_own(c):
    sheet = 'LOCAL_CS["Sheet",UNIT["metre",1],AXIS["X",EAST],AXIS["Y",NORTH]]'
    c.frame = c.frame.set_crs(sheet, allow_override=True)


@defect(("error", "grid"), names=["population.tif", "x and y of one of them look swapped"])
def swapped(c):
    c.frame["geometry"] = transform(c.frame.geometry.to_numpy(), lambda points: points[:, ::-1])


@defect(("advice", "assumed"), names=["districts.gpkg", "numbered from 1"])
def unnamed_polygons(c):
    c.settings["id"] = None


@defect(("error", "response"), names=["districts.gpkg", "'case'", "`cases`"])
def absent_response(c):
    c.settings["response"] = ("case",)


@defect(("error", "response"), names=["districts.gpkg", "'cases'", "-3", "'d7'"])
def negative_response(c):
    c.frame.loc[7, "cases"] = -3.0


@defect(("advice", "missing-totals"), names=["districts.gpkg: 1 of 24 polygons (4.2%) has no total of 'cases' ('d7')"])
def missing_response(c):
    c.frame.loc[7, "cases"] = np.nan


@defect(
    ("warning", "missing-totals"),
    ("warning", "few-polygons"),
    names=["5 of 24 polygons (21%) have no total of 'cases' ('d2', 'd4', 'd7'", "only 19 polygons with a total"],
)
def many_missing_responses(c):
    c.frame.loc[[2, 4, 7, 8, 20], "cases"] = np.nan


@defect(("error", "response"), names=["'cases' must be known in at least 2 polygons; it is in 1 of 24"])
def all_but_one_are_missing(c):
    c.frame.loc[1:, "cases"] = np.nan


@defect(
    ("error", "response"),
    ("error", "folds"),
    ("warning", "missing-totals"),
    ("warning", "few-polygons"),
    ("warning", "empty"),
    names=["at least 2 polygons that have population; it is in 1"],
)
def those_with_people_are_missing(c):
    c.frame.loc[2:, "cases"] = np.nan
    c.population[:9, :9] = 0


@defect(
    ("advice", "suppressed-totals"),
    ("advice", "assumed"),
    names=["in 2 of 24 polygons (8.3%) only bounds of 'cases' are known ('d3', 'd7')", "'*' as 1 to 4"],
)
def suppressed_responses(c):
    c.frame["cases"] = c.frame["cases"].astype(int).astype(str)
    c.frame.loc[[3, 7], "cases"] = ["*", "<50"]
    c.settings["suppressed"] = ("1-4",)


@defect(
    ("error", "suppressed-totals"),
    ("advice", "suppressed-totals"),
    ("advice", "assumed"),
    names=["an interval of counts must be of fewer counts, 512 at most; got 600", "'d7'"],
)
def an_interval_that_is_too_wide(c):
    c.frame["cases"] = c.frame["cases"].astype(int).astype(str)
    c.frame.loc[7, "cases"] = "1-600"


@defect(("error", "suppressed"), names=["`suppressed` must say bounds", "'c=5-1'"])
def marks_that_say_nothing(c):
    c.settings["suppressed"] = ("c=5-1",)


@defect(
    ("error", "folds"),
    ("warning", "suppressed-totals"),
    ("advice", "assumed"),
    names=["`folds` must not exceed the 4 polygons", "--skip-validation"],
)
def nothing_to_validate_with(c):
    c.frame["cases"] = c.frame["cases"].astype(int).astype(str)
    c.frame.loc[4:, "cases"] = "<50"


@defect(("error", "response"), names=["'cases'", "0 in every polygon"])
def nothing_counted(c):
    c.frame["cases"] = 0.0


@defect(("error", "geometry"), names=["districts.gpkg", "'d4'"])
def no_geometry(c):
    c.frame.loc[4, "geometry"] = None


@defect(("error", "geometry"), names=["districts.gpkg", "coordinate reference system"])
def no_crs(c):
    c.frame = c.frame.set_crs(None, allow_override=True)


@defect(("warning", "invalid-geometry"), names=["districts.gpkg", "'d4'"])
def crossed_geometry(c):
    left, bottom, right, top = c.frame.geometry[4].bounds
    spike = (right - 0.001, top), (right, top - 0.002), (right - 0.001, top - 0.002), (right, top)
    c.frame.loc[4, "geometry"] = Polygon([(left, bottom), (left, top), *spike, (right, bottom)])


@defect(("warning", "few-polygons"), names=["18 polygons"])
def few_polygons(c):
    c.frame = c.frame[:18]
    c.population[22:] = 0  # nobody beside the polygons


@defect(("error", "few-polygons"), names=["at least 2"])
def one_polygon(c):
    c.frame = c.frame[:1]
    c.population[8:], c.population[:, 8:] = 0, 0


@defect(("warning", "overlap"), names=["districts.gpkg", "'d0' and 'd1' (25% of the smaller)"])
def overlapping(c):
    c.frame.loc[1, "geometry"] = place(8.4 - 1.6, EDGES_Y[0], EDGES_X[2], EDGES_Y[1])  # a quarter of 6.4 cells


@defect(("advice", "slivers"), names=["districts.gpkg", "20 pairs of neighbours"])
def slivers(c):
    c.frame["geometry"] = [
        box(left - 0.002 * (left > LEFT + ACROSS * 2.5), bottom, right, top)
        for left, bottom, right, top in c.frame.bounds.to_numpy()
    ]


@defect(("warning", "outside"), names=["districts.gpkg", "1 polygon", "'far'", "with 12 cases"])
def outside(c):
    c.frame.loc[24] = ["far", 12.0, place(50, 3, 53, 7)]


@defect(("warning", "partly-outside"), names=["districts.gpkg", "'d5' (57%)"])
def partly_outside(c):
    left, bottom, _, top = c.frame.geometry[5].bounds
    c.frame.loc[5, "geometry"] = box(left, bottom, LEFT + ACROSS * (COLUMNS + 10), top)


@defect(("advice", "partly-outside"), names=["districts.gpkg", "'d5' (2.6%)"])
def just_outside(c):
    left, bottom, _, top = c.frame.geometry[5].bounds
    c.frame.loc[5, "geometry"] = box(left, bottom, LEFT + ACROSS * (COLUMNS + 0.2), top)


@defect(("warning", "tiny"), names=["districts.gpkg", "'yard'"])
def tiny(c):
    c.frame.loc[24] = ["yard", round(0.02 * c.population[0, 4] / 3), place(4.2, 0.2, 4.8, 0.75)]
    c.population[0, 4] *= 60
    c.frame.loc[24, "cases"] = round(0.02 * 0.6 * 0.55 * float(c.population[0, 4]))


@defect(("error", "population-file"), names=["absent.tif"])
def absent_population(c):
    c.settings["population"] = c.folder / "absent.tif"


@defect(("error", "population-file"), names=["population2.tif", "one layer"])
def two_populations(c):
    c.settings["population"] = c.write("population2", np.stack([c.population, c.population]))


@defect(("error", "grid"), names=["elsewhere.tif", "must overlap", "districts.gpkg"])
def population_elsewhere(c):
    c.settings["population"] = c.write("elsewhere", c.population, transform=Affine(0.05, 0, 70, 0, -0.04, 10))


@defect(("error", "negative-population"), names=["population.tif", "-17", "2 cells", "'d0'", "(30.175, 9.78)"])
def negative_population(c):
    c.population[5, 3:5] = [-17, -3]


@defect(("error", "no-people"), names=["population.tif"])
def nobody(c):
    c.population[:] = 0


@defect(("advice", "missing-population"), names=["population.tif", "3 of 1,008 cells"])
def small_hole_in_population(c):
    c.population[5, 3:6] = np.nan


@defect(("warning", "missing-population"), names=["population.tif", "42 of 1,008 cells", "'d0'"])
def large_hole_in_population(c):
    c.population[1:8, 2:8] = np.nan
    c.population[8, 2:8] = 100_000
    c.frame.loc[0, "cases"] = round(0.02 * 100_000 * 6 * 0.3)
    c.frame.loc[6, "cases"] += round(0.02 * 100_000 * 6 * 0.7)


@defect(("warning", "empty"), names=["population.tif", "'d0'", "{cases0:g} cases"])
def empty_polygon(c):
    c.population[1:9, 2:9] = 0


@defect(("warning", "population-guess"), names=["population.tif", "a guess", "people per cell"])
def unclear_population(c):
    c.settings["population_is"] = "guess"


@defect(("advice", "population-guess"), names=["population_count.tif", "because of the words"])
def named_population(c):
    c.settings |= {"population_is": "guess", "population": c.write("population_count", c.population)}


@defect(("advice", "coarse"), names=["population.tif", "8.9 times"])
def coarse_population(c):
    c.settings["resolution"] = 0.005


@defect(("advice", "border-cells"), names=["population.tif", "people who count as living outside"])
def people_along_the_border(c):
    c.frame["geometry"] = [
        box(left, bottom, min(right, LEFT + ACROSS * 37.6), top)
        for left, bottom, right, top in c.frame.bounds.to_numpy()
    ]


@defect(("error", "covariate-file"), names=["absent.tif"])
def absent_covariate(c):
    c.more["covariate"] = [c.folder / "absent.tif"]


@defect(("error", "covariate-file"), names=["notes.tif", "cannot be read"])
def unreadable_covariate(c):
    (c.folder / "notes.tif").write_text("not a raster")
    c.more["covariate"] = [c.folder / "notes.tif"]


@defect(("error", "covariate-names"), names=["'rain'", "distinct"])
def same_name(c):
    (c.folder / "old").mkdir()
    c.more["covariate"] = [c.write("old/rain", c.rain[::-1])]


@defect(("error", "covariate-file"), names=["x.tif", "'x'"])
def reserved_name(c):
    c.more["covariate"] = [c.write("x", c.rain[::-1])]


@defect(("error", "no-values"), names=["elsewhere.tif", "'elsewhere'"])
def covariate_elsewhere(c):
    c.more["covariate"] = [c.write("elsewhere", c.rain, transform=Affine(0.05, 0, 70, 0, -0.04, 10))]


@defect(("advice", "missing-covariate"), names=["1 covariate", "in 3 of 1,008 cells", "rain 0.", "nearest"])
def few_gaps(c):
    c.rain[5, 3:6] = np.nan


@defect(("warning", "missing-covariate"), names=["rain.tif", "in 49 of 1,008 cells", "'d0' (9", "nearest"])
def many_gaps(c):
    c.rain[1:8, 2:9] = np.nan


@defect(("warning", "missing-covariate"), names=["rain.tif", "left out", "1 polygon with them ('d0')"])
def gaps_that_drop_a_polygon(c):
    c.rain[1:9, 2:9] = np.nan
    c.settings["missing"] = "drop"


@defect(
    ("warning", "missing-covariate"),
    ("error", "no-values"),
    names=["rain.tif", "height.tif", "No cell with people has all"],
)
def gaps_that_drop_everything(c):
    c.rain[:, ::2], c.height[:, 1::2] = np.nan, np.nan
    c.settings["missing"] = "drop"


@defect(("warning", "constant"), names=["rain.tif", "900 everywhere"])
def constant(c):
    c.rain[:] = 900


@defect(("advice", "constant-within"), names=["region.tif", "not within them"])
def constant_within_polygons(c):
    values = np.arange(6) ** 2 + np.array([[0, 3, 1, 2]]).T
    c.more["covariate"] = [
        c.write("region", np.repeat(np.repeat(values, 8, 0), 7, 1)[:ROWS, :COLUMNS].astype(np.float32))
    ]
    edges_x, edges_y = range(0, 43, 7), range(0, 33, 8)
    c.frame["geometry"] = [
        place(max(edges_x[x], 1), max(edges_y[y], 1), min(edges_x[x + 1], 39), min(edges_y[y + 1], 29))
        for y in range(4) for x in range(6)
    ]  # fmt: skip
    people = [
        c.population[max(8 * y, 1) : min(8 * y + 8, 29), max(7 * x, 1) : min(7 * x + 7, 39)].sum()
        for y in range(4)
        for x in range(6)
    ]
    c.frame["cases"] = np.round(0.02 * np.array(people))


@defect(("warning", "collinear"), names=["rain.tif", "dry.tif", "-0.99"])
def collinear(c):
    c.more["covariate"] = [
        c.write("dry", -2 * c.rain + np.random.default_rng(1).normal(0, 20, c.rain.shape).astype("f4"))
    ]


@defect(("advice", "coarse"), names=["coarse.tif", "10 times"])
def coarse(c):
    values = np.array([[3.0, 5, 2, 8], [1, 9, 4, 6], [7, 2, 8, 3]], dtype=np.float32)
    c.more["covariate"] = [c.write("coarse", values, transform=Affine(10 * ACROSS, 0, LEFT, 0, -10 * DOWN, TOP))]


@defect(("advice", "assumed"), ("advice", "missing-covariate"), names=["rain.tif", "-9999", "2 cells"])
def undeclared_code(c):
    c.rain[5, 3:5] = -9999


@defect(("advice", "classes"), names=["cover.tif", "3 whole numbers (10, 20, 55)", "--category"])
def classes_as_amounts(c):
    cover = np.random.default_rng(5).choice(np.array([10, 20, 55], np.int16), (ROWS, COLUMNS))
    c.more["covariate"] = [c.write("cover", cover)]


@defect(("advice", "rare-class"), names=["cover.tif", "2 classes", "4 (0.2%)", "7 (0%)"])
def rare_class(c):
    cover = np.random.default_rng(5).integers(1, 4, (ROWS, COLUMNS)).astype(np.uint8)
    cover[5, 3:5], cover[0, 0] = 4, 7
    cover[0, 2] = 7
    c.more["category"] = [c.write("cover", cover)]


@defect(("warning", "constant"), names=["cover.tif", "class 2"])
def one_class(c):
    c.more["category"] = [c.write("cover", np.full((ROWS, COLUMNS), 2, dtype=np.uint8))]


@defect(("error", "covariate-file"), names=["rain2.tif", "categories"])
def many_classes(c):
    c.more["category"] = [c.write("rain2", c.rain)]


@defect(("warning", "outlier"), names=["districts.gpkg", "far higher", "'d9'"])
def high_rate(c):
    c.frame.loc[9, "cases"] = round(0.45 * c.people[9])


@defect(("warning", "outlier"), names=["districts.gpkg", "far lower", "'d9'"])
def low_rate(c):
    c.frame.loc[9, "cases"] = 3


@defect(("warning", "zero-in-large-population"), names=["districts.gpkg", "'d9' (0 cases"])
def zero(c):
    c.frame.loc[9, "cases"] = 0


@defect(("warning", "more-than-people"), ("warning", "outlier"), names=["exceeds the population", "'d9'"])
def more_cases_than_people(c):
    c.frame.loc[9, "cases"] = round(1.2 * c.people[9])


@defect(("warning", "rate-not-total"), names=["cases", "exceeds 1"])
def rates(c):
    c.frame["cases"] /= c.people


@defect(("warning", "rate-not-total"), names=["cases", "does not grow with the population"])
def rates_per_thousand(c):
    c.population[:, :20] *= 12
    c.frame["cases"] = np.random.default_rng(4).integers(15, 30, 24).astype(float)


@defect(("advice", "not-whole"), names=["districts.gpkg", "1 of 24", "'d2'"])
def not_whole(c):
    c.frame.loc[2, "cases"] += 0.25


@defect(("warning", "claim-of-exactness"), names=["districts.gpkg", "'poisson'", "'negative_binomial'"])
def exact_counts(c):
    c.model["likelihood"] = "poisson"
    c.population *= 40
    c.frame["cases"] *= 40


@defect(("error", "link"), names=["'logistic'", "'negative_binomial'"])
def wrong_link(c):
    c.model["link"] = "logistic"


@defect(("error", "trials"), names=["--trials"])
def no_trials(c):
    c.model |= {"likelihood": "binomial", "link": "logistic"}


@defect(("error", "trials"), names=["districts.gpkg", "'tested'"])
def absent_trials(c):
    c.model |= {"likelihood": "binomial", "link": "logistic", "trials": "tested"}


@defect(("error", "trials"), names=["districts.gpkg", "'tested'", "'d3'"])
def too_few_trials(c):
    c.frame["tested"] = 2 * c.frame["cases"]
    c.frame.loc[3, "tested"] = 1
    c.model |= {"likelihood": "binomial", "link": "logistic", "trials": "tested"}


@defect(
    ("error", "landmarks"),
    names=["1,008 distinct places", "2,000"],
)
def too_many_landmarks(c):
    c.model["landmarks"] = 2000


@defect(("error", "landmarks"), ("advice", "missing-totals"), names=[" distinct places; got 950"])
def landmarks_where_nobody_counted(c):
    """There are 1,008 places, of which some two hundred lie in these four districts of a corner alone."""
    c.frame.loc[[0, 1, 6, 7], "cases"] = np.nan
    c.model["landmarks"] = 950


@defect(("error", "folds"), names=["`folds`", "24 polygons", "got 25"])
def too_many_folds(c):
    c.validation["folds"] = 25


@defect(("error", "folds"), names=["districts.gpkg", "'zoen'", "`zone`"])
def absent_fold_column(c):
    c.frame["zone"] = 1
    c.validation["fold_column"] = "zoen"


@defect(("error", "folds"), names=["districts.gpkg", "'zone'", "'d7'"])
def gap_in_fold_column(c):
    c.frame["zone"] = ["north"] * 7 + [None] + ["south"] * 16
    c.validation["fold_column"] = "zone"


@defect(("error", "folds"), names=["districts.gpkg", "'zone'", "'south' leaves 1"])
def nothing_left_to_fit(c):
    c.frame["zone"] = ["north"] + ["south"] * 23
    c.validation["fold_column"] = "zone"


@defect(("error", "to"), names=["absent.gpkg"])
def absent_other_polygons(c):
    c.maps["to"] = (c.folder / "absent.gpkg",)


@defect(("error", "to"), names=["areas.gpkg", "target grid"])
def other_polygons_elsewhere(c):
    gpd.GeoDataFrame({"area_name": ["a"]}, geometry=[box(80, 1, 81, 2)], crs=c.crs).to_file(c.folder / "areas.gpkg")
    c.maps["to"] = (c.folder / "areas.gpkg",)


@defect(("error", "to"), names=["polygons.gpkg", "Rename"])
def other_polygons_with_a_taken_name(c):
    c.frame.to_file(c.folder / "polygons.gpkg")
    c.maps["to"] = (c.folder / "polygons.gpkg",)


@pytest.mark.parametrize("name", DEFECTS)
def test_each_defect_is_found_and_nothing_else(country, name):
    spoil, expected, names = DEFECTS[name]
    spoil(country)
    findings = country.check()
    assert told(findings) == expected
    texts = " ".join(finding.text for finding in findings.all)
    cases = pd.to_numeric(country.frame["cases"].astype(str).str.replace(",", ""), errors="coerce")
    facts = {"cases0": cases.iloc[0] if len(cases) else 0, "longest": cases[cases > 9999].iloc[:1].sum()}
    assert [part for part in (n.format(**facts) for n in names) if part not in texts] == []
    assert all(f"{finding.text}\n" in f"{findings}\n" for finding in findings.all)


OF_THE_MODEL = {
    "those_with_people_are_missing",
    "an_interval_that_is_too_wide",
    "nothing_to_validate_with",
    "wrong_link",
    "no_trials",
    "absent_trials",
    "too_few_trials",
    "too_many_landmarks",
    "landmarks_where_nobody_counted",
    "one_polygon",
    "nothing_counted",
    "too_many_folds",
    "absent_fold_column",
    "gap_in_fold_column",
    "nothing_left_to_fit",
    "absent_other_polygons",
    "other_polygons_elsewhere",
    "other_polygons_with_a_taken_name",
}
FATAL = [name for name, (_, expected, _) in DEFECTS.items() if any(level == "error" for level, _ in expected)]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", FATAL)
def test_a_run_refuses_each_error_in_one_line_and_leaves_nothing(country, name, tmp_path, capsys):
    spoil, _, names = DEFECTS[name]
    spoil(country)
    assert main(["run", *country.arguments(), "--out", str(tmp_path / "out")]) == 2
    printed, told = capsys.readouterr()
    *others, error = told.strip().splitlines()
    assert printed == ""
    assert all(line.startswith("Warning: ") for line in others)
    assert error.startswith("Error: ")
    assert "Traceback" not in told
    assert [part for part in names if part not in told] == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", sorted(set(DEFECTS) - OF_THE_MODEL - {"no_polygons", "no_response"}))
def test_errors_are_what_preparation_refuses(country, name, tmp_path):
    spoil, expected, _ = DEFECTS[name]
    spoil(country)
    data = country.data()
    refused = False
    try:
        prepare(
            data.polygons, data.id, data.response, data.population, data.covariate, categories=data.category,
            layer=data.layer, population_is=data.population_is, missing=data.missing, suppressed=data.suppressed,
            folder=tmp_path / "prepared",
        )  # fmt: skip
    except ValueError:
        refused = True
    assert refused == any(level == "error" for level, _ in expected)


@pytest.mark.parametrize("likelihood", REGISTERED)
def test_every_likelihood_takes_bounds(country, likelihood):
    suppressed_responses(country)
    trials = {"trials": "tested"} if get_likelihood(likelihood).needs_trials else {}
    country.frame["tested"] = np.round(country.people)
    country.model |= {"likelihood": likelihood, "link": get_likelihood(likelihood).links[0], **trials}
    findings = country.check()
    assert findings.errors == ()
    facts = findings.facts["responses"]["cases"]
    counts = pd.to_numeric(country.frame["cases"], errors="coerce")
    assert (facts["total"], facts["total_upper"]) == (counts.sum() + 1, counts.sum() + 4 + 49)
    base = country.frame["tested"].sum() if trials else country.people.sum()
    assert facts["per_1000_upper"] == pytest.approx(1000 * facts["total_upper"] / base)
    assert (facts["suppressed"], "missing" in facts) == (2, False)


def test_several_defects_are_all_found(country):
    country.settings |= {"id": "nmae", "response": ("cases", "deaths"), "resolution": None}
    country.more["covariate"] = [country.folder / "absent.tif"]
    country.population[5, 3] = -4
    country.rain[:] = 900
    country.frame.loc[9, "cases"] = round(0.45 * country.people[9])
    country.frame.loc[4, "geometry"] = None
    country.model["link"] = "logistic"
    errors = ["link", "id", "response", "geometry", "covariate-file", "negative-population"]
    findings = country.check()
    assert [finding.code for finding in findings.errors] == errors
    assert told(findings) - {("error", code) for code in errors} == {("warning", "constant"), ("warning", "outlier")}


def test_a_bad_population_does_not_hide_other_defects(country):
    elsewhere = Affine(ACROSS, 0, 70, 0, -DOWN, TOP)
    country.settings["population"] = country.write("elsewhere", country.population, transform=elsewhere)
    country.rain[:] = 900
    assert told(country.check()) == {("error", "grid"), ("warning", "constant")}


def test_a_raster_elsewhere_is_told_once(country):
    elsewhere = Affine(ACROSS, 0, 70, 0, -DOWN, TOP)
    country.settings["population"] = country.write("people", country.population, transform=elsewhere)
    country.settings["covariate"] = [
        country.write("far", country.rain, transform=elsewhere),
        country.write("near", country.height),
    ]
    findings = country.check()
    assert [(finding.code, finding.where) for finding in findings.all] == [
        ("grid", "people.tif"),
        ("no-values", "far.tif"),
    ]


def test_the_column_of_names_is_told(country):
    country.frame["code"] = range(100, 124)
    country.frame["NAME_1"] = ["north", "south"] * 12
    country.frame["NAME_2"] = [f"Town {at}" for at in range(24)]
    country.settings["id"] = "code"
    findings = country.check()
    assert findings.facts["polygons"]["names"] == "name"
    assert "named by 'code' (in the report by 'name')" in str(findings)
    country.settings["name"] = "NAME_1"
    assert country.check().facts["polygons"]["names"] == "NAME_1"
    country.settings["name"] = "NAME_3"
    findings = country.check()
    assert [(one.level, one.code, one.where) for one in findings.all] == [
        ("error", "names", "districts.gpkg, column NAME_3")
    ]
    assert "has no column 'NAME_3' for the names; did you mean `NAME_" in findings.errors[0].text


def test_nothing_readable_at_all(tmp_path):
    data = Data(
        polygons=tmp_path / "a.gpkg",
        response=("cases",),
        population=tmp_path / "b.tif",
        covariate=(tmp_path / "c.tif",),
    )
    findings = check(data)
    assert [finding.where for finding in findings.errors] == ["a.gpkg", "b.tif", "c.tif"]
    assert findings.facts == {}


def test_json_holds_the_same(country):
    country.frame.loc[9, "cases"] = round(0.45 * country.people[9])
    country.rain[5, 3:6] = np.nan
    country.settings["id"] = "nmae"
    findings = country.check()
    document = json.loads(findings.to_json())
    for level in ("errors", "warnings", "advice"):
        held = getattr(findings, level)
        assert [(f.level, f.code, f.text, f.where, list(f.polygons)) for f in held] == [
            tuple(f.values()) for f in document[level]
        ]
    assert document["warnings"][0]["polygons"] == [10]  # without a sound id, polygons go by row
    assert document["facts"]["pixels"]["number"] == findings.facts["pixels"]["number"]


def test_nothing_is_written(country, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    data = country.data()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    check(data, Model())
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_without_population_areas_count(country):
    country.settings |= {"population": None, "resolution": 0.05}
    findings = country.check()
    km2 = 36 * 0.05 * 28 * 0.04 * 111.32 * 110.57 * np.cos(np.deg2rad(9.4))
    assert findings.facts["exposure"] == {"kind": "area", "total": pytest.approx(km2, rel=0.01)}
    assert not findings.errors


def test_inputs_in_other_crs_are_told(country):
    country.frame = country.frame.to_crs("EPSG:32636")
    finer = Affine(ACROSS / 2, 0, LEFT, 0, -DOWN / 2, TOP)
    country.more["covariate"] = [
        country.write("fine", np.random.default_rng(3).normal(size=(60, 80)).astype("f4"), transform=finer)
    ]
    findings = country.check()
    assert not findings.errors
    assert findings.facts["polygons"]["reprojected"]
    fine = findings.facts["rasters"][-1]
    assert (fine["aligned_by"], fine["times_as_coarse"]) == ("average", pytest.approx(0.5, rel=1e-3))
    assert "reprojected to EPSG:4326" in str(findings)
    assert "averaged from cells of 0.025 x 0.02, 0.5 times as long as the grid's: fine.tif" in str(findings)


def test_polygons_with_half_their_people_in_border_cells_are_a_warning(country):
    country.population[:, 37] *= 40
    country.frame["geometry"] = [
        transform(shape, lambda xy: xy - [0.3 * ACROSS, 0]) for shape in country.frame.geometry
    ]
    country.frame.loc[[5, 11, 17, 23], "geometry"] = [
        box(*shape.bounds[:2], LEFT + ACROSS * 37.4, shape.bounds[3])
        for shape in country.frame.geometry[[5, 11, 17, 23]]
    ]
    (finding,) = (f for f in country.check().all if f.code == "border-cells")
    assert finding.level == "warning"
    assert set(finding.polygons) == {"d5", "d11", "d17", "d23"}


def test_cost_grows_with_the_data(country):
    small = country.check().facts["fit"]
    country.settings["resolution"] = ACROSS / 4
    large = country.check().facts["fit"]
    assert 0 < small["cpu_seconds"] < large["cpu_seconds"]
    assert 0 < small["bytes"] < large["bytes"]
    country.model["landmarks"] = 20
    assert country.check().facts["fit"]["landmarks"] == 40  # of covariates and of places


@pytest.mark.parametrize("coarse", [False, True])
def test_madagascar(data_folder, coarse):
    folder = data_folder / "madagascar_malaria"
    rasters = [folder / f"{name}.tif" for name in ("EVI", "Elevation", "LSTmean")]
    rasters += sorted((folder / "coarse").glob("*.tif")) if coarse else []
    data = Data(
        polygons=folder / "districts.gpkg",
        id="ID_2",
        response=("cases",),
        population=folder / "population.tif",
        covariate=rasters,
    )
    findings = check(data, Model())
    assert told(findings) == {
        ("warning", "population-guess"), ("warning", "border-cells"),
        ("advice", "missing-covariate"), ("advice", "not-whole"), ("advice", "rate-not-total"),
    }  # fmt: skip
    assert findings.facts["pixels"]["cells"] == 29_793
    assert findings.facts["responses"]["cases"]["per_1000"] == pytest.approx(57.8, abs=0.1)
    interpolated = [raster["name"] for raster in findings.facts["rasters"] if raster["aligned_by"] == "interpolation"]
    assert len(interpolated) == 4 * coarse
