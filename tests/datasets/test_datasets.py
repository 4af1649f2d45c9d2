"""The swiss roll against the authors' numbers; loaders on tiny files and, where present, the real ones."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import make_swiss_roll
from sklearn.preprocessing import StandardScaler

from vbagg import datasets, metrics
from vbagg.datasets import aggregate, files

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def roll():
    return datasets.swiss_roll_parts()


def small_roll(**changes):
    return datasets.swiss_roll(**{"n_bags": 12, "mean_size": 20, "std_size": 8, "seed": 4, "test_bags": 9, **changes})


def constant_rate(data):
    return np.repeat(data.y / data.bags.sizes, data.bags.sizes)


# Swiss roll


def test_roll_reproduces_the_authors_constant_model(roll):
    train, test = roll["train"], roll["test"]
    rate = constant_rate(train)
    assert metrics.mse(train.rate, rate) == pytest.approx(0.8952, abs=5e-5)
    assert metrics.nll(train.individual_y, train.rate) == pytest.approx(2.1485, abs=5e-5)
    overall = train.y.sum() / train.bags.n_individuals
    assert metrics.nll(test.y, overall * test.bags.sizes) == pytest.approx(20.76, abs=5e-3)


def test_roll_reproduces_the_authors_stirling_nll(roll):
    train = roll["train"]
    counts = np.maximum(train.individual_y, 1)
    log_gamma = np.where(train.individual_y > 1, counts * np.log(counts) - counts + 0.5 * np.log(2 * np.pi * counts), 0)

    def stirling_nll(rate):
        return np.mean(rate - train.individual_y * np.log(rate) + log_gamma)

    assert stirling_nll(train.rate) == pytest.approx(2.1299, abs=5e-5)
    assert stirling_nll(constant_rate(train)) == pytest.approx(2.2256, abs=5e-5)


def test_normal_roll_reproduces_the_authors_constant_model():
    train = datasets.swiss_roll(likelihood="normal")
    assert metrics.mse(train.rate, constant_rate(train)) == pytest.approx(0.0394, abs=5e-5)
    assert np.std(train.individual_y - train.rate) == pytest.approx(0.1, abs=0.002)
    assert train.rate.min() == pytest.approx(0, abs=1e-3)
    assert train.rate.max() == pytest.approx(1, abs=1e-3)


def test_roll_parts_have_their_sizes_and_totals(roll):
    assert {part: len(data.bags) for part, data in roll.items()} == {
        "train": 150,
        "early_stop": 150,
        "validation": 150,
        "test": 500,
    }
    for data in roll.values():
        assert list(data.bags.labels) == list(range(len(data.bags)))
        assert data.bags.X.shape == (len(data.rate), 18)
        for bag in (0, 7, len(data.bags) - 1):
            rows = data.bags.bag == bag
            assert data.y[bag] == data.individual_y[rows].sum()
    assert roll["test"].bags.sizes.mean() == pytest.approx(150, abs=7)
    assert roll["test"].bags.sizes.std() == pytest.approx(50, abs=5)


def test_roll_follows_the_recipe_step_by_step():
    got = small_roll(part="validation")
    seeds = np.random.RandomState(4).randint(2**32, size=4, dtype=np.int64)

    def draw(seed):
        random = np.random.RandomState(seed)
        p = 1 - 19 / 64  # mean size 20, standard deviation 8
        sizes = stats.nbinom(19 * (1 - p) / p, 1 - p).rvs(size=12, random_state=random) + 1
        roll, angle = make_swiss_roll(sum(sizes), noise=0.0, random_state=random)
        rows = sorted(range(len(roll)), key=lambda row: -roll[row, 2])
        counts = [random.poisson(angle[row] / 2) for row in rows]
        padded = np.hstack([roll[rows], np.zeros((len(rows), 15))])
        rotation, _ = np.linalg.qr(np.random.RandomState(23).uniform(0, 2, (18, 18)))
        return padded @ rotation, sizes, angle[rows] / 2, counts

    X, sizes, rate, counts = draw(seeds[2])
    np.testing.assert_allclose(got.bags.X, StandardScaler().fit(draw(seeds[0])[0]).transform(X), atol=1e-10)
    np.testing.assert_array_equal(got.bags.sizes, sizes)
    np.testing.assert_allclose(got.rate, rate)
    np.testing.assert_array_equal(got.individual_y, counts)


def test_all_parts_are_standardised_by_the_train_part(roll):
    np.testing.assert_allclose(roll["train"].bags.X.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(roll["train"].bags.X.std(axis=0), 1, atol=1e-10)
    assert np.abs(roll["test"].bags.X.mean(axis=0)).max() > 1e-4


def test_one_part_equals_the_same_part_of_all():
    parts = datasets.swiss_roll_parts(n_bags=12, mean_size=20, std_size=8, seed=4, test_bags=9)
    assert set(parts) == set(datasets.PARTS)
    for part, expected in parts.items():
        got = small_roll(part=part)
        np.testing.assert_array_equal(got.bags.X, expected.bags.X)
        np.testing.assert_array_equal(got.individual_y, expected.individual_y)
    assert len(parts["test"].bags) == 9
    assert not np.array_equal(parts["train"].y, parts["validation"].y)


def test_rate_scale_scales_the_rate():
    np.testing.assert_allclose(small_roll(rate_scale=0.1).rate, 0.1 * small_roll().rate)
    low = small_roll(rate_scale=0.01)
    assert low.individual_y.mean() < 0.2


def test_seeds_differ_and_data_are_frozen():
    one = small_roll()
    assert not np.array_equal(one.y, small_roll(seed=5).y)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.y = one.y + 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"part": "holdout"}, "`part` must be one of 'train'.*got 'holdout'"),
        ({"likelihood": "binomial"}, "`likelihood` must be one of 'poisson', 'normal'"),
        ({"likelihood": "normal", "rate_scale": 2.0}, "`rate_scale` scales Poisson rates only; got 2.0"),
        ({"n_bags": 0}, "`n_bags` must be positive; got 0"),
        ({"rate_scale": -1.0}, "`rate_scale` must be positive; got -1.0"),
        ({"std_size": 4}, "mean_size=20, std_size=4. Raise `std_size`"),
    ],
)
def test_roll_refuses(changes, message):
    with pytest.raises(ValueError, match=message):
        small_roll(**changes)


# Projection


def angle_between(lon1, lat1, lon2, lat2):
    """Angle in radians between two points, by the haversine formula."""
    lon1, lat1, lon2, lat2 = np.radians([lon1, lat1, lon2, lat2])
    h = np.sin((lat2 - lat1) / 2) ** 2 + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    return 2 * np.arcsin(np.sqrt(h))


LON, LAT, WEIGHT = np.array([44.0, 50.0, 47.0]), np.array([-25.0, -12.5, -19.0]), np.array([1.0, 2.0, 5.0])


def test_projection_keeps_distance_and_bearing_from_the_weighted_mean():
    x, y = files._equal_area_km(LON, LAT, WEIGHT)
    lon0, lat0 = WEIGHT @ LON / 8, WEIGHT @ LAT / 8
    for i in range(3):
        chord = 2 * 6371.0072 * np.sin(angle_between(LON[i], LAT[i], lon0, lat0) / 2)
        assert np.hypot(x[i], y[i]) == pytest.approx(chord, rel=1e-10)
    assert (np.sign(x) == np.sign(LON - lon0)).all()
    assert (np.sign(y) == np.sign(LAT - lat0)).all()


def test_projection_keeps_area():
    step = 1e-3
    for lon, lat in zip(LON, LAT, strict=True):
        lons = np.append(lon + step * np.array([-1, 1, 0, 0]), LON)
        lats = np.append(lat + step * np.array([0, 0, -1, 1]), LAT)
        x, y = files._equal_area_km(lons, lats, np.append(np.zeros(4), WEIGHT))
        area = (x[1] - x[0]) * (y[3] - y[2]) - (x[3] - x[2]) * (y[1] - y[0])
        on_sphere = 6371.0072**2 * np.cos(np.radians(lat)) * np.radians(2 * step) ** 2
        assert area == pytest.approx(on_sphere, rel=1e-6)


# Loaders on tiny files


@pytest.fixture
def tiny_madagascar(tmp_path):
    """Three districts: rows interleaved, other files in other orders, a pixel without population."""
    folder = tmp_path / "madagascar_malaria"
    folder.mkdir()
    pd.DataFrame(
        {
            "ID_2": [30, 10, 30, 20, 10, 20],
            "longitude": [47.0, 48.0, 47.5, 46.0, 48.5, 46.5],
            "latitude": [-19.0, -18.0, -19.5, -20.0, -18.5, -21.0],
            "pop": [100.0, 40.0, 0.0, 7.0, 60.0, 3.0],
            "Elevation": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            "EVI": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
            "LSTmean": [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0],
        }
    ).to_csv(folder / "pixels.csv", index=False)
    pd.DataFrame({"ID_2": [10, 20, 30], "Name_2": ["Ten", "Twenty", "Thirty"], "cases": [1.5, 2.5, 3.5]}).to_csv(
        folder / "districts.csv", index=False
    )
    pd.DataFrame({"ID_2": [20, 30, 10], "fold": [2, 3, 1]}).to_csv(folder / "cv_folds_seed0.csv", index=False)
    return folder


def test_madagascar_joins_its_files_by_district(tiny_madagascar):
    data = datasets.madagascar(tiny_madagascar)
    assert list(data.bags.labels) == [30, 10, 20]
    assert list(data.names) == ["Thirty", "Ten", "Twenty"]
    np.testing.assert_array_equal(data.cases, [3.5, 1.5, 2.5])
    np.testing.assert_array_equal(data.folds, [3, 1, 2])
    np.testing.assert_array_equal(data.population, [100, 100, 10])
    assert data.bags.feature_names == ("x", "y", "Elevation", "EVI", "LSTmean")
    np.testing.assert_array_equal(data.bags.X[:, 2], [1, 3, 2, 5, 4, 6])
    np.testing.assert_array_equal(data.bags.weight, [100, 0, 40, 60, 7, 3])
    assert data.bags.X[0, 0] < data.bags.X[1, 0]  # x grows eastwards, and row 0 is further west
    assert data.bags.X[0, 1] > data.bags.X[1, 1]


@pytest.mark.parametrize("file", ["districts.csv", "cv_folds_seed0.csv"])
def test_madagascar_refuses_a_missing_or_repeated_district(tiny_madagascar, file):
    frame = pd.read_csv(tiny_madagascar / file)
    for broken in (frame[:-1], pd.concat([frame, frame[:1]])):
        broken.to_csv(tiny_madagascar / file, index=False)
        with pytest.raises(ValueError, match=f"{file} must list each district"):
            datasets.madagascar(tiny_madagascar)


def test_elevators_drops_the_empty_column_and_the_raw_label(tmp_path):
    pd.DataFrame(
        {"p": [1.0, 2.0], "diffSaTime2": [0.0, 0.0], "q": [3.0, 4.0], "Goal": [9.0, 8.0], "y01": [0.0, 1.0]}
    ).to_csv(tmp_path / "data.csv", index=False)
    data = datasets.elevators(tmp_path)
    assert list(data.X.columns) == ["p", "q"]
    np.testing.assert_array_equal(data.y01, [0, 1])


# Elevators


@pytest.fixture
def tiny_elevators(tmp_path):
    """200 individuals; `p` numbers them, and `diffRollRate` has many ties."""
    random = np.random.default_rng(5)
    frame = pd.DataFrame(random.normal(size=(200, 18)), columns=list(files.ELEVATORS_FEATURES))
    frame["p"] = np.arange(200.0)
    frame["diffRollRate"] = random.integers(-4, 9, 200) / 100
    frame["Goal"] = random.integers(12, 79, 200) / 1000
    frame["y01"] = (frame["Goal"] - 0.012) / 0.066
    frame.to_csv(tmp_path / "data.csv", index=False)
    return frame


def original_rows(parts):
    """Row numbers of each part's individuals in the file, from the standardised column `p`."""
    p = {part: data.bags.X[:, data.bags.feature_names.index("p")] for part, data in parts.items()}
    everyone = np.concatenate(list(p.values()))
    step = np.ptp(everyone) / 199
    return {part: np.rint((values - everyone.min()) / step).astype(int) for part, values in p.items()}


def test_elevators_parts_divide_all_individuals(tiny_elevators, tmp_path):
    parts = datasets.elevators_parts(seed=3, mean_size=6, std_size=4, path=tmp_path)
    rows = original_rows(parts)
    assert tuple(parts) == datasets.PARTS
    assert [len(part) for part in rows.values()] == [140, 20, 20, 20]
    assert sorted(np.concatenate(list(rows.values()))) == list(range(200))
    assert "diffSaTime2" not in parts["train"].bags.feature_names
    assert parts["train"].bags.n_features == 17
    np.testing.assert_allclose(parts["train"].bags.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(parts["train"].bags.X.std(axis=0), 1)
    assert np.abs(parts["test"].bags.X.mean(axis=0)).max() > 0.1


def test_elevators_bags_follow_the_roll_rate(tiny_elevators, tmp_path):
    parts = datasets.elevators_parts(seed=3, mean_size=6, std_size=4, path=tmp_path)
    for part, rows in original_rows(parts).items():
        data = parts[part]
        y01 = tiny_elevators["y01"].to_numpy()[rows]
        np.testing.assert_allclose(data.individual_y, y01)
        assert data.rate is None
        start = 0
        for size, total in zip(data.bags.sizes, data.y, strict=True):
            assert total == pytest.approx(sum(y01[start : start + size]))
            start += size
        assert (np.diff(tiny_elevators["diffRollRate"].to_numpy()[rows]) >= 0).all()
    assert len(set(parts["train"].bags.sizes[:-1])) > 3


def test_a_column_that_is_constant_in_training_is_left_out(tiny_elevators, tmp_path):
    rows = original_rows(datasets.elevators_parts(seed=3, mean_size=6, std_size=4, path=tmp_path))
    tiny_elevators["Sgz"] = np.isin(np.arange(200), rows["test"][:2]).astype(float)
    tiny_elevators.to_csv(tmp_path / "data.csv", index=False)
    parts = datasets.elevators_parts(seed=3, mean_size=6, std_size=4, path=tmp_path)
    for data in parts.values():
        assert "Sgz" not in data.bags.feature_names
        assert data.bags.n_features == 16
        assert np.isfinite(data.bags.X).all()
    tiny_elevators.loc[rows["train"][5], "Sgz"] = 1.0
    tiny_elevators.to_csv(tmp_path / "data.csv", index=False)
    other = datasets.elevators_parts(seed=3, mean_size=6, std_size=4, path=tmp_path)
    assert other["train"].bags.feature_names.index("Sgz") >= 0


def test_elevators_ties_are_broken_at_random(tiny_elevators, tmp_path):
    rows = original_rows(datasets.elevators_parts(seed=3, mean_size=6, std_size=4, path=tmp_path))["train"]
    for value, tied in pd.Series(rows).groupby(tiny_elevators["diffRollRate"].to_numpy()[rows]):
        assert not tied.is_monotonic_increasing or len(tied) < 4, value


def test_elevators_seeds_differ_and_equal_seeds_agree(tiny_elevators, tmp_path):
    one, same, other = (datasets.elevators_parts(seed, 6, 4, tmp_path)["train"] for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.bags.X, same.bags.X)
    np.testing.assert_array_equal(one.bags.sizes, same.bags.sizes)
    assert set(np.round(one.individual_y, 9)) != set(np.round(other.individual_y, 9))
    with pytest.raises(ValueError, match=r"mean_size=6, std_size=2. Raise `std_size`"):
        datasets.elevators_parts(0, 6, 2, tmp_path)


def test_bag_sizes_have_their_mean_and_deviation():
    sizes = aggregate.draw_sizes(np.random.default_rng(2), 40_000, mean_size=30, std_size=15)
    assert sizes.min() >= 1
    assert sizes.mean() == pytest.approx(30, abs=0.3)
    assert sizes.std() == pytest.approx(15, abs=0.3)


@pytest.fixture
def no_local_data(monkeypatch, tmp_path):
    monkeypatch.delenv("VBAGG_DATA", raising=False)
    monkeypatch.setattr(files, "_REPOSITORY", tmp_path / "a" / "repository")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")


def test_elevators_of_openml_are_the_local_ones(monkeypatch, tiny_elevators, tmp_path, no_local_data):
    asked = {}

    def fetch_openml(**arguments):
        asked.update(arguments)
        shuffled = tiny_elevators.drop(columns="y01")[::-1].iloc[:, ::-1][::-1]
        return SimpleNamespace(frame=shuffled.rename(columns={"climbRate": "ClimbRate", "Goal": "goal"}))

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    got, expected = datasets.elevators(download=True), datasets.elevators(tmp_path)
    assert asked == {"name": "elevators", "version": 1, "as_frame": True}
    pd.testing.assert_frame_equal(got.X, expected.X)
    np.testing.assert_allclose(got.y01, expected.y01)
    with pytest.raises(FileNotFoundError, match=r"nowhere.*Without `path=`, `download=True`"):
        datasets.elevators(tmp_path / "nowhere", download=True)


def test_elevators_of_openml_with_other_columns_are_refused(monkeypatch, tiny_elevators, no_local_data):
    fetched = SimpleNamespace(frame=tiny_elevators.drop(columns=["Sa", "Goal"]))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: fetched)
    with pytest.raises(ValueError, match="Sa, Goal not found"):
        datasets.elevators(download=True)


def test_local_elevators_are_not_downloaded(monkeypatch, tiny_elevators, tmp_path):
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: pytest.fail("asked the network"))
    assert len(datasets.elevators(tmp_path, download=True).y01) == 200


# Folders


def test_data_folder_is_the_configured_one_before_the_neighbour_of_the_working_folder(monkeypatch, tmp_path):
    frame = pd.DataFrame({"p": [1.0], "diffSaTime2": [0.0], "Goal": [9.0], "y01": [0.25]})
    for folder, y01 in (("configured", 0.5), ("shared/data", 0.75)):
        (tmp_path / folder / "elevators").mkdir(parents=True)
        frame.assign(y01=y01).to_csv(tmp_path / folder / "elevators" / "data.csv", index=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("VBAGG_DATA", str(tmp_path / "configured"))
    assert datasets.elevators().y01 == 0.5
    monkeypatch.delenv("VBAGG_DATA")
    assert datasets.elevators().y01 == 0.75


def test_missing_data_names_the_folders_tried_and_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("VBAGG_DATA", str(tmp_path / "elsewhere"))
    monkeypatch.setattr(files, "_REPOSITORY", tmp_path / "a" / "repository")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        datasets.elevators()
    for text in (
        "data.csv",
        "elsewhere/elevators",
        "a/shared/data/elevators",
        "VBAGG_DATA",
        "`path=`",
        "`download=True`",
    ):
        assert text in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"tried [^,]*nowhere\."):
        datasets.madagascar(tmp_path / "nowhere")


# The real files


def load_or_skip(loader):
    try:
        return loader()
    except FileNotFoundError as error:
        pytest.skip(str(error))


def test_real_madagascar():
    data = load_or_skip(datasets.madagascar)
    assert len(data.bags) == 109
    assert data.bags.n_individuals == 28_892
    assert (data.bags.weight == 0).sum() == 311
    rate = data.cases / data.population
    assert 0.0004 < rate.min() < rate.max() < 0.44
    assert np.bincount(data.folds).tolist() == [0, 22, 22, 22, 22, 21]
    assert data.names[0] == "Ambatondrazaka"
    # Madagascar is about 1,570 km long, and 1/24 of a degree is a little over 4.4 km here.
    x, y = data.bags.X[:, 0], data.bags.X[:, 1]
    assert np.ptp(y) == pytest.approx(1500, abs=80)
    assert np.ptp(x) < 900
    assert abs(np.average(x, weights=data.bags.weight)) < 10
    assert abs(np.average(y, weights=data.bags.weight)) < 10


def test_real_elevators():
    data = load_or_skip(datasets.elevators)
    assert data.X.shape == (16_599, 17)
    assert "diffSaTime2" not in data.X
    assert data.y01.var() == pytest.approx(0.01036, abs=1e-5)
    raw = pd.read_csv(files._folder("elevators", ("data.csv",), None) / "data.csv")
    assert list(raw.columns) == [*files.ELEVATORS_FEATURES, "Goal", "y01"]
    assert (raw["Goal"].min(), raw["Goal"].max()) == files.GOAL_RANGE


def test_real_elevators_give_the_papers_number_of_bags():
    load_or_skip(datasets.elevators)
    counts = np.mean(
        [[len(data.bags) for data in datasets.elevators_parts(seed, 50, 25).values()] for seed in range(4)], axis=0
    )
    np.testing.assert_allclose(counts, [225, 33, 33, 33], rtol=0.08)


def test_real_elevators_give_the_papers_constant_bag_error():
    load_or_skip(datasets.elevators)
    errors = []
    for seed in range(4):
        parts = datasets.elevators_parts(seed)
        overall = parts["train"].y.sum() / parts["train"].bags.n_individuals
        errors.append(metrics.mse(parts["train"].y, overall * parts["train"].bags.sizes))
    assert np.mean(errors) == pytest.approx(0.366, abs=0.03)


# The module


def test_importing_the_data_sets_imports_nothing_heavy():
    program = (
        "import sys, vbagg.datasets\n"
        "print([name for name in ('pandas', 'sklearn', 'scipy', 'jax') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"


def test_public_names_are_there():
    assert set(datasets.__all__) <= set(dir(datasets))
    assert isinstance(small_roll(), datasets.AggregateData)
    assert isinstance(small_roll(), datasets.SimulatedData)
