"""The simulated country against what it promises, at a fiftieth of its size; the full size is a slow test."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats
from scipy.ndimage import find_objects, label
from scipy.spatial import KDTree
from sklearn.neighbors import KNeighborsRegressor

from vbagg import datasets
from vbagg.datasets import country as country_module
from vbagg.datasets import districts, terrain
from vbagg.datasets.covariates import COVARIATES

SCALE, SEED = 0.02, 6
N_PIXELS = 20_894  # 0.02 times 1,044,683


@pytest.fixture(scope="module")
def country():
    return datasets.simulated_country(SCALE, SEED)


@pytest.fixture(scope="module")
def column(country):
    return dict(zip(country.bags.feature_names, country.bags.X.T, strict=True))


@pytest.fixture
def reproducible():
    return np.random.default_rng(11)


def owners(country):
    """District of each cell of the grid, -1 outside."""
    grid = np.full(country.shape, -1)
    grid.flat[country.pixel] = country.bags.bag
    return grid


def assert_connected(owner):
    boxes = find_objects(owner + 1)
    for district, box in enumerate(boxes):
        assert label(owner[box] == district)[1] == 1, f"district {district} is not in one piece"


# Districts and pixels


def test_sizes_are_those_of_the_paper_in_proportion(country):
    assert len(country.bags) == 957
    assert country.bags.n_individuals == N_PIXELS
    assert country.bags.sizes.min() == 5
    assert country.bags.sizes.max() == 133  # 6,667 of a mean of 1,091.6, here of a mean of 21.8
    assert len(country.y) == 957
    for values in (country.rate, country.field, country.pixel):
        assert values.shape == (N_PIXELS,)


def test_country_and_districts_are_connected(country):
    owner = owners(country)
    assert label(owner >= 0)[1] == 1
    assert_connected(owner)


def test_country_does_not_touch_the_frame(country):
    outside = np.isnan(country.raster(country.rate))
    assert outside[[0, -1]].all()
    assert outside[:, [0, -1]].all()


def test_labels_run_from_north_to_south(country, column):
    assert country.bags.labels[[0, 9, -1]].tolist() == ["D0001", "D0010", "D0957"]
    centre = country.bags.sum_by_bag(column["y"]) / country.bags.sizes
    assert (np.diff(centre) <= 1e-9).all()
    assert centre[0] > centre[-1] + 500


def test_coordinates_are_centres_of_cells(country, column):
    assert country.bags.coordinates == (0, 1)
    assert country.pixel_km == pytest.approx(SCALE**-0.5)
    row, column_number = np.divmod(country.pixel, country.shape[1])
    np.testing.assert_allclose(column["x"], (column_number + 0.5) * country.pixel_km)
    np.testing.assert_allclose(column["y"], country.extent[3] - (row + 0.5) * country.pixel_km)
    assert len(set(country.pixel)) == N_PIXELS
    area = N_PIXELS * country.pixel_km**2
    assert area == pytest.approx(1_044_683, rel=1e-4)


def test_busy_districts_are_small(country):
    density = country.bags.totals() / country.bags.sizes
    assert stats.spearmanr(density, country.bags.sizes).statistic < -0.5


@pytest.mark.parametrize(
    ("scale", "n_districts", "expected"),
    [(0.0002, 957, (10, 5, 52)), (0.001, 957, (52, 5, 123)), (0.01, 10, (10, 12, 2611)), (0.02, 50, (50, 5, 2552))],
)
def test_small_twins_have_fewer_districts_in_the_same_proportion(scale, n_districts, expected):
    twin = datasets.simulated_country(scale, n_districts=n_districts)
    assert (len(twin.bags), twin.bags.sizes.min(), twin.bags.sizes.max()) == expected
    assert twin.bags.n_individuals == round(scale * 1_044_683)
    assert_connected(owners(twin))


@pytest.mark.slow
def test_full_size_is_that_of_the_paper():
    country = datasets.simulated_country()
    assert len(country.bags) == 957
    assert country.bags.n_individuals == 1_044_683
    assert (country.bags.sizes.min(), country.bags.sizes.max()) == (13, 6_667)
    assert country.pixel_km == 1
    assert country.bags.n_features == 20
    owner = owners(country)
    assert label(owner >= 0)[1] == 1
    assert_connected(owner)
    assert 100 < np.median(country.y) < 10_000
    assert np.mean((country.rate > 1) & (country.rate < 500)) > 0.9


# Moving pixels


def test_removable_pixels_leave_their_district_in_one_piece(reproducible):
    for _ in range(20):
        owner = np.kron(reproducible.integers(0, 3, (4, 5)), np.ones((2, 2), int))
        owner[reproducible.integers(1, 7, 6), reproducible.integers(1, 9, 6)] = 1
        removable = districts._removable(np.pad(owner, 1, constant_values=-1))[1:-1, 1:-1]
        assert removable.any()
        for row, column in np.argwhere(removable):
            mine = owner == owner[row, column]
            before = label(mine)[1]
            mine[row, column] = False
            assert label(mine)[1] == before


def test_a_bridge_a_single_pixel_and_the_inside_are_not_removable():
    picture = ["........", ".###.##.", ".######.", ".###.##.", "........", "...x...."]
    window = np.array([[".#x".index(letter) for letter in line] for line in picture])
    removable = districts._removable(window)
    assert not removable[2, 4]  # the bridge
    assert not removable[2, 2]  # the inside
    assert not removable[5, 3]  # alone
    assert removable[1, 1]
    assert removable[2, 1]


def test_pieces_agree_with_labelling_each_district(reproducible):
    owner = reproducible.integers(-1, 3, (15, 21))
    piece = districts.pieces(owner)
    assert ((piece == -1) == (owner == -1)).all()
    expected = sum(label(owner == district)[1] for district in range(3))
    assert set(piece[piece >= 0]) == set(range(expected))
    for number in range(expected):
        assert label(piece == number)[1] == 1
        assert len(set(owner[piece == number])) == 1


@pytest.mark.parametrize(("smallest", "largest"), [(3, 60), (7, 120), (25, 60)])
def test_bounds_are_reached_and_nothing_is_cut(smallest, largest):
    owner = np.full((14, 30), -1)
    for district, columns in enumerate(np.split(np.arange(1, 29), [1, 5, 6, 13, 14, 20, 24])):
        owner[1:13, columns] = district
    owner[5:9, 10:13] = -1  # a lake
    inside = owner >= 0
    got = districts._with_bounds(owner.copy(), smallest, largest)
    sizes = np.bincount(got[inside])
    assert (sizes.min(), sizes.max()) == (smallest, largest)
    assert ((got >= 0) == inside).all()
    assert len(sizes) == 8
    assert_connected(got)


# Covariates and people


def test_columns_are_the_coordinates_and_eighteen_covariates(country):
    assert country.bags.feature_names == ("x", "y", *COVARIATES)
    assert len(COVARIATES) == 18
    assert (country.bags.X.std(axis=0) > 0).all()
    assert np.linalg.matrix_rank(np.corrcoef(country.bags.X.T)) == 20


def test_covariates_have_believable_values(column):
    assert np.mean(column["night_lights"] == 0) > 0.8
    assert 10 < column["night_lights"].max() <= 63
    assert stats.skew(column["accessibility"]) > 1
    assert column["accessibility"].min() >= 0
    for name, low, high in (
        ("elevation", 0, 5000),
        ("slope", 0, 45),
        ("evi", 0, 1),
        ("temperature_suitability", 0, 1),
        ("forest", 0, 100),
        ("cropland", 0, 100),
        ("rainfall", 100, 5000),
        ("lst_day", 0, 60),
    ):
        assert low <= column[name].min() < column[name].max() <= high, name


@pytest.mark.parametrize(
    ("one", "other", "sign"),
    [
        ("elevation", "lst_night", -1),
        ("rainfall", "evi", 1),
        ("rainfall", "aridity_index", 1),
        ("evi", "tc_brightness", -1),
        ("slope", "wetness_index", -1),
        ("lst_day", "lst_range", 1),
        ("forest", "cropland", -1),
    ],
)
def test_covariates_are_related_as_in_nature(column, one, other, sign):
    assert sign * stats.spearmanr(column[one], column[other]).statistic > 0.3


def test_covariates_are_smooth_in_space(country, column):
    for name in COVARIATES:
        raster = country.raster(stats.rankdata(column[name]))
        west, east = raster[:, :-1].ravel(), raster[:, 1:].ravel()
        both = np.isfinite(west) & np.isfinite(east)
        assert np.corrcoef(west[both], east[both])[0, 1] > (0.2 if name == "night_lights" else 0.4), name


def test_water_is_near_the_river_and_the_land_beside_it_wet(country, column):
    to_river, _ = KDTree(country.river).query(country.bags.X[:, :2])
    assert (column["distance_to_water"] <= to_river + 1.5 * country.pixel_km).all()
    beside = to_river < 3
    assert beside.sum() > 50
    assert column["wetness_index"][beside].mean() > np.quantile(column["wetness_index"], 0.75)
    assert np.median(country.rate[beside]) > 2 * np.median(country.rate)


def test_river_crosses_the_country_in_bends(country):
    outside = np.isnan(country.raster(country.rate))
    row, column_number = np.nonzero(outside)
    beyond = KDTree(np.c_[column_number + 0.5, country.shape[0] - row - 0.5] * country.pixel_km)
    to_border, _ = beyond.query(country.river[[0, -1]])
    assert (to_border < 2 * country.pixel_km).all()
    straight = np.linalg.norm(country.river[-1] - country.river[0])
    course = np.linalg.norm(np.diff(country.river, axis=0), axis=1).sum()
    assert straight > 400
    assert course > 1.15 * straight


def test_population_is_positive_and_heavy_tailed(country):
    people = country.bags.weight
    assert (people > 0).all()
    assert people.sum() == pytest.approx(24_000, rel=0.02)
    largest_first = np.sort(people)[::-1]
    assert largest_first[: people.size // 100].sum() > 0.25 * people.sum()
    assert np.median(people) < 0.5 * people.mean()


def test_noise_has_mean_zero_and_variance_one():
    grid = terrain.Grid(pixel_km=10.0)
    random = np.random.default_rng(4)
    surfaces = np.stack([grid.noise(random, (150, 75, 40), 0.7) for _ in range(60)])
    assert surfaces.shape == (60, 125, 148)
    assert surfaces.mean() == pytest.approx(0, abs=0.05)
    assert surfaces.var() == pytest.approx(1, abs=0.1)
    near = np.mean(surfaces[:, :-1] * surfaces[:, 1:])
    assert near > 0.9
    assert abs(np.mean(surfaces[:, :60] * surfaces[:, 65:])) < 0.1


# Rates and cases


def logistic(t):
    return 1 / (1 + np.exp(-t))


def test_rate_is_the_documented_function_times_the_field(country, column):
    assert country.relevant == country_module.RELEVANT
    assert set(country.relevant) < set(COVARIATES)
    wet = logistic((column["wetness_index"] - 10) / 0.5)
    near = np.exp(-column["distance_to_water"] / 10)
    expected = 150 * (0.05 + 0.2 * wet + 0.3 * near + 1.5 * near * wet)
    expected *= logistic((column["temperature_suitability"] - 0.7) / 0.1)
    expected *= logistic((900 - column["elevation"]) / 120)
    expected *= 1 - 0.9 * logistic((column["night_lights"] - 6) / 1.5)
    np.testing.assert_allclose(country.rate, (1 + expected) * np.exp(country.field), rtol=1e-9)


@pytest.mark.parametrize("name", country_module.RELEVANT)
def test_rate_changes_with_each_relevant_covariate_in_its_direction(column, name):
    higher = {**column, name: column[name] + np.std(column[name])}
    change = np.log(datasets.rate_of_covariates(higher) / datasets.rate_of_covariates(column))
    sign = 1 if name in ("wetness_index", "temperature_suitability") else -1
    assert (sign * change > -1e-12).all()
    assert np.abs(change).max() > 0.3


def test_other_covariates_tell_less_about_the_rate(country, column):
    without_field = np.log(country.rate) - country.field
    others = [name for name in COVARIATES if name not in country.relevant]
    halves = np.random.default_rng(2).permutation(N_PIXELS).reshape(2, -1)

    def unexplained(names):
        X = np.stack([stats.rankdata(column[name]) for name in names], axis=1)
        fitted = KNeighborsRegressor(5).fit(X[halves[0]], without_field[halves[0]])
        return np.mean((fitted.predict(X[halves[1]]) - without_field[halves[1]]) ** 2) / without_field.var()

    assert unexplained(country.relevant) < 0.06
    assert unexplained(others) > 3 * unexplained(country.relevant)


def test_rates_vary_within_and_between_districts(country):
    assert np.mean((country.rate > 1) & (country.rate < 500)) > 0.9
    log_rate = np.log(country.rate)
    mean = country.bags.sum_by_bag(log_rate) / country.bags.sizes
    assert np.std(log_rate - mean[country.bags.bag]) > 0.3
    assert np.std(mean) > 0.5
    assert 100 < np.median(country.y) < 10_000


def test_field_is_smooth_and_not_flat(country):
    field = country.raster(country.field)
    assert 0.2 < country.field.std() < 1.2
    assert np.nanmax(np.abs(np.diff(field, axis=0))) < 0.25
    assert np.nanmax(np.abs(np.diff(field, axis=1))) < 0.25


def test_cases_are_poisson_about_population_times_rate(country):
    for a in (0, 400, 956):
        rows = country.bags.bag == a
        expected = sum(p * r for p, r in zip(country.bags.weight[rows], country.rate[rows], strict=True))
        assert country.expected[a] == pytest.approx(expected)
    z = (country.y - country.expected) / np.sqrt(country.expected)
    assert z.mean() == pytest.approx(0, abs=4 / np.sqrt(957))
    assert z.var() == pytest.approx(1, abs=4 * np.sqrt(2 / 957))
    assert (country.y == np.rint(country.y)).all()
    np.testing.assert_allclose(country.district_rate * country.bags.totals(), country.y)


def test_dispersion_adds_its_share_of_the_squared_mean(country):
    dispersed = datasets.simulated_country(SCALE, SEED, dispersion=0.3)
    np.testing.assert_array_equal(dispersed.rate, country.rate)
    ratio = ((dispersed.y - country.expected) ** 2 - country.expected) / country.expected**2
    assert ratio.mean() == pytest.approx(0.3, abs=0.12)
    draws = country_module._draw_cases(np.full(200_000, 40.0), 0.3, np.random.default_rng(1))
    assert draws.mean() == pytest.approx(40, rel=0.01)
    assert draws.var() == pytest.approx(40 + 0.3 * 40**2, rel=0.03)


# Repetition


def test_equal_arguments_give_equal_countries_and_seeds_differ():
    one, same, other = (datasets.simulated_country(0.002, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.bags.X, same.bags.X)
    np.testing.assert_array_equal(one.bags.weight, same.bags.weight)
    np.testing.assert_array_equal(one.y, same.y)
    np.testing.assert_array_equal(one.river, same.river)
    assert set(one.pixel) != set(other.pixel)
    assert not np.array_equal(one.y, other.y)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.y = one.y + 1


def test_number_of_districts_leaves_the_land_alone():
    many, few = (datasets.simulated_country(0.002, 3, n_districts=n) for n in (100, 30))
    np.testing.assert_array_equal(many.raster(many.rate), few.raster(few.rate))
    np.testing.assert_array_equal(many.raster(many.bags.weight), few.raster(few.bags.weight))
    assert (len(many.bags), len(few.bags)) == (100, 30)


def test_coarser_twin_is_the_same_country(country, column):
    twin = datasets.simulated_country(SCALE / 4, SEED)
    assert twin.pixel_km == pytest.approx(2 * country.pixel_km)
    _, nearest = KDTree(twin.bags.X[:, :2]).query(country.bags.X[:, :2])
    for name in ("elevation", "rainfall", "lst_night", "distance_to_water", "evi"):
        coarse = twin.bags.X[nearest, twin.bags.feature_names.index(name)]
        assert np.corrcoef(coarse, column[name])[0, 1] > 0.9, name
    assert np.corrcoef(twin.field[nearest], country.field)[0, 1] > 0.99
    assert twin.bags.weight.sum() == pytest.approx(country.bags.weight.sum(), rel=0.01)


# Maps


def test_raster_puts_each_pixel_back_in_its_place(country, column):
    raster = country.raster(column["elevation"])
    assert raster.shape == country.shape
    np.testing.assert_array_equal(raster.flat[country.pixel], column["elevation"])
    assert np.isfinite(raster).sum() == N_PIXELS
    highest = np.argmax(column["elevation"])
    row, column_number = np.unravel_index(np.nanargmax(raster), raster.shape)
    assert (column_number + 0.5) * country.pixel_km == pytest.approx(column["x"][highest])
    assert country.extent[3] - (row + 0.5) * country.pixel_km == pytest.approx(column["y"][highest])


def test_raster_of_districts_repeats_their_value(country):
    raster = country.raster(country.y)
    np.testing.assert_array_equal(raster.flat[country.pixel], np.repeat(country.y, country.bags.sizes))
    with pytest.raises(ValueError, match=r"per pixel \(20894\) or per district \(957\); got shape \(7,\)"):
        country.raster(np.zeros(7))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": 1e-5}, "`scale` must be at least 0.00019; got 1e-05"),
        ({"scale": 0.01, "n_districts": 9}, "`n_districts` must be at least 10; got 9"),
        ({"scale": 0.01, "dispersion": -0.1}, "`dispersion` must be non-negative; got -0.1"),
    ],
)
def test_impossible_countries_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        datasets.simulated_country(**arguments)


# Splits


def test_splits_have_the_papers_sizes_and_hold_each_bag_once(country):
    parts = datasets.split_bags(country.district_rate, seed=8)
    assert tuple(parts) == datasets.PARTS
    assert [len(part) for part in parts.values()] == [576, 95, 95, 191]
    assert sorted(np.concatenate(list(parts.values()))) == list(range(957))
    for positions in parts.values():
        assert (np.diff(positions) > 0).all()


def test_splits_of_fewer_bags_are_in_proportion():
    values = np.random.default_rng(0).gamma(0.5, size=100)
    assert [len(part) for part in datasets.split_bags(values).values()] == [60, 10, 10, 20]
    assert [len(part) for part in datasets.split_bags(values, (7, 1, 0, 2)).values()] == [70, 10, 0, 20]
    assert sum(len(part) for part in datasets.split_bags(values[:13]).values()) == 13


def test_splits_have_labels_distributed_alike(country):
    values = country.district_rate
    distances = []
    for seed in range(10):
        for positions in datasets.split_bags(values, seed=seed).values():
            distances.append(stats.ks_2samp(values[positions], values).statistic)
    assert max(distances) < 0.03  # a plain random choice of 95 is 0.08 away on average


def test_members_of_a_part_lie_evenly_among_the_sorted_values():
    values = np.random.default_rng(1).normal(size=957)
    rank = stats.rankdata(values) - 1
    for positions in datasets.split_bags(values, seed=2).values():
        quantile = np.sort(rank[positions]) / 957
        even = (np.arange(len(positions)) + 0.5) / len(positions)
        assert np.abs(quantile - even).max() < 1.5 / len(positions) + 0.01


def test_every_bag_has_its_chance_of_every_part():
    values = np.random.default_rng(3).gamma(0.5, size=120)
    tested = np.zeros(120)
    for seed in range(400):
        tested[datasets.split_bags(values, seed=seed)["test"]] += 1
    share = tested / 400
    assert share.mean() == pytest.approx(0.2)
    assert 0.1 < share.min() < share.max() < 0.3


def test_equal_values_are_divided_at_random_and_equal_seeds_agree():
    values = np.zeros(60)
    one, same, other = (datasets.split_bags(values, seed=seed)["train"] for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, same)
    assert set(one) != set(other)
    assert one.tolist() != list(range(36))


@pytest.mark.parametrize(
    ("values", "sizes", "message"),
    [
        ([1.0, np.nan], (1, 1, 0, 0), "one finite number per bag"),
        ([[1.0, 2.0]], (1, 1, 0, 0), "one finite number per bag"),
        ([1.0, 2.0], (1, 1), "`sizes` must be 4 non-negative numbers.*got \\(1, 1\\)"),
        ([1.0, 2.0], (2, 1, -1, 0), "`sizes` must be 4 non-negative numbers"),
    ],
)
def test_impossible_splits_are_refused(values, sizes, message):
    with pytest.raises(ValueError, match=message):
        datasets.split_bags(values, sizes)
