import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vbagg import chunks as chunks_module
from vbagg.bags import Bags
from vbagg.chunks import (
    CACHED,
    EXACT_LIMIT,
    PASSES,
    PASSES_OF_A_SEARCH,
    SUBSET_SIZE,
    TILE,
    Groups,
    block_numbers,
    gather,
    gather_rows,
    make_chunks,
    plan_batches,
    residual_modes,
    round_up,
)

SIZES = np.array([7, 2, 9, 1, 5, 33])


@pytest.fixture
def bags(rng):
    label = rng.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
    weight = rng.exponential(size=len(label))
    weight[np.isin(np.arange(len(label)), [3, 20, 41])] = 0.0
    return Bags(rng.normal(size=(len(label), 2)), label, weight)


def chunks_of(bags, residual="exact", max_elements=4e6, random_state=0, **options):
    b = len(bags)
    known = np.linspace(-1, 1, bags.n_individuals)
    y, facts = 10.0 + np.arange(b), {"trials": 2.0 + np.arange(b), "noise": 0.5 * np.arange(b)}
    return make_chunks(bags, y, facts, known, residual, max_elements, random_state, **options)


def filled(chunk):
    """Slots of a chunk that hold a bag, with the position of that bag."""
    return [(slot, position) for slot, position in enumerate(chunk.position) if position >= 0]


@given(st.integers(1, 10**6))
def test_round_up_is_close_and_has_four_significant_bits(value):
    rounded = round_up(value)
    assert value <= rounded <= value * 1.125
    assert rounded % (1 << max(rounded.bit_length() - 4, 0)) == 0
    assert round_up(rounded) == rounded


@given(
    st.lists(st.integers(1, 2000), min_size=1, max_size=60),
    st.sampled_from(["auto", "exact", "subset", "diagonal"]),
    st.integers(1, 10**6),
)
def test_batches_hold_every_bag_once_within_the_budget(sizes, residual, max_elements):
    sizes = np.array(sizes)
    batches = plan_batches(sizes, residual, max_elements)
    assert sorted(np.concatenate([batch.positions for batch in batches])) == list(range(len(sizes)))
    for batch in batches:
        assert 1 <= len(batch.positions) <= batch.n_bags
        if batch.n_tiles is not None:
            tiles = np.sum(-(-sizes[batch.positions] // TILE))
            assert tiles + batch.n_bags - len(batch.positions) <= batch.n_tiles
            alone = (len(batch.positions) == 1) or tiles * TILE * 64 <= 3 * max_elements
            assert alone
            continue
        assert sizes[batch.positions].max() <= batch.size
        cost = batch.size**2 if batch.residual == "exact" else batch.size
        assert batch.n_bags == 1 or batch.n_bags * cost <= max_elements


@given(
    st.lists(st.integers(1, 2000), min_size=1, max_size=60),
    st.sampled_from(["auto", "exact", "subset", "diagonal"]),
    st.integers(1, 3000),
)
def test_chunks_of_a_block_are_the_same_whatever_other_blocks_there_are(sizes, residual, rows):
    """But for their shapes, which all blocks share: the bags of each."""
    sizes = np.array(sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks_module, "BLOCK", rows)
        block = block_numbers(sizes)
    assert (np.diff(block) >= 0).all()
    assert block[0] == 0
    assert np.unique(block).tolist() == list(range(block.max() + 1))
    begin = np.cumsum(sizes) - sizes
    assert all((begin[block == number] // rows == begin[block == number][0] // rows).all() for number in set(block))
    batches = plan_batches(sizes, residual, 3e4, block=block)
    assert sorted(np.concatenate([batch.positions for batch in batches])) == list(range(len(sizes)))
    for batch in batches:
        assert len(set(block[batch.positions])) == 1
    kinds: dict[tuple, set[int]] = {}
    for batch in batches:
        kinds.setdefault((batch.residual, batch.size, batch.n_tiles is None), set()).add(batch.n_bags)
    assert all(len(shapes) == 1 for shapes in kinds.values())


def test_auto_residual_is_exact_up_to_the_limit():
    sizes = np.array([EXACT_LIMIT + 1, 3, EXACT_LIMIT])
    mode = {position: batch.residual for batch in plan_batches(sizes, "auto", 1e7) for position in batch.positions}
    assert mode == {0: "subset", 1: "exact", 2: "exact"}


def test_sizes_are_merged_only_where_padding_is_cheap():
    few = plan_batches(np.array([3, 9, 30, 60]), "diagonal", 1e9, n_columns=400)
    many = plan_batches(np.repeat([3, 60, 300], 2000), "diagonal", 1e9, n_columns=400)
    assert [batch.size for batch in few] == [64]
    assert sorted((batch.size, batch.n_tiles) for batch in many) == [(3, None), (60, None), (TILE, 10240)]


def test_similar_folds_share_their_shapes():
    sizes = np.tile([4, 9, 30], 40)
    shapes = {
        tuple((batch.n_bags, batch.size) for batch in plan_batches(np.delete(sizes, left_out), "exact", 1e7))
        for left_out in ([0, 1], [2, 4, 6], [7])
    }
    assert len(shapes) == 1


@pytest.mark.parametrize(("passes", "same"), [(PASSES, True), (PASSES_OF_A_SEARCH, False)])
def test_folds_of_large_bags_share_their_shapes_where_padding_costs_little(rng, passes, same):
    sizes = rng.integers(150, 600, 100)
    shapes = {
        tuple((batch.n_bags, batch.size, batch.n_tiles) for batch in plan_batches(own, "auto", 1e7, passes=passes))
        for own in np.split(sizes[rng.permuted(np.tile(np.arange(100), (6, 1)), axis=1)[:, :80]].ravel(), 6)
    }
    assert (len(shapes) == 1) == same


def test_shapes_of_much_work_are_fine():
    (many,) = plan_batches(np.full(1100, 1000), "subset", 1e12, n_columns=500)
    (few,) = plan_batches(np.full(11, 1000), "subset", 1e12, n_columns=500)
    assert many.n_tiles <= 1.07 * 1100 * -(-1000 // TILE)
    assert few.n_tiles == 192


@pytest.mark.parametrize("max_elements", [30, 200, 4e6])
def test_chunks_hold_the_rows_of_each_bag_and_inert_padding(bags, max_elements):
    chunks = chunks_of(bags, "diagonal", max_elements)
    known = np.linspace(-1, 1, bags.n_individuals)
    seen = []
    for chunk in chunks:
        for slot, position in filled(chunk):
            rows = slice(bags.starts[position], bags.starts[position + 1])
            size = SIZES[bags.labels[position]]
            np.testing.assert_array_equal(chunk.X[slot, :size], bags.X[rows])
            np.testing.assert_array_equal(chunk.weight[slot, :size], bags.weight[rows])
            np.testing.assert_array_equal(chunk.known[slot, :size], known[rows])
            assert not chunk.weight[slot, size:].any()
            np.testing.assert_array_equal(chunk.rows[slot, :size], np.arange(rows.start, rows.stop))
            assert (chunk.rows[slot, size:] == -1).all()
            assert chunk.y[slot] == 10.0 + position
            assert {name: values[slot] for name, values in chunk.facts.items()} == {
                "trials": 2.0 + position,
                "noise": 0.5 * position,
            }
            assert chunk.valid[slot] == 1
            seen.append(position)
    assert sorted(seen) == list(range(len(SIZES)))


def test_padded_bags_do_not_count_but_have_a_positive_total(rng):
    """The logarithm of their total is taken too."""
    (chunk,) = chunks_of(Bags(rng.normal(size=(34, 2)), np.repeat(np.arange(17), 2)))
    assert chunk.shape == (24, 2)
    assert (chunk.position[-1], chunk.valid[-1]) == (-1, 0)
    assert chunk.weight[-1].sum() > 0
    assert (chunk.rows[-1] == -1).all()
    assert {name: values[-1] for name, values in chunk.facts.items()} == {"trials": 1.0, "noise": 1.0}


def test_gather_returns_to_the_order_of_the_bags(bags):
    chunks = chunks_of(bags, "diagonal", max_elements=30)
    assert len(chunks) > 2
    parts = [np.column_stack([chunk.y, -chunk.facts["trials"]]) for chunk in chunks]
    expected = np.column_stack([10.0 + np.arange(6), -2.0 - np.arange(6)])
    np.testing.assert_array_equal(gather(parts, chunks), expected)


@pytest.mark.parametrize("tile", [4, 64])
def test_rows_return_to_the_order_of_the_data(bags, tile, monkeypatch):
    monkeypatch.setattr(chunks_module, "TILE", tile)
    monkeypatch.setattr(chunks_module, "SHAPE_COST", 0.0)  # smaller bags first, whatever their place
    bags = bags[[4, 0, 5, 2, 1, 3]]
    chunks = chunks_of(bags, "diagonal")
    assert (np.diff(np.concatenate([chunk.position for chunk in chunks])) < 0).any()
    assert any(chunk.tiles is not None for chunk in chunks) == (tile == 4)
    parts = [chunk.X[..., 0] - 3 * chunk.weight for chunk in chunks]
    np.testing.assert_array_equal(gather_rows(parts, chunks), bags.X[:, 0] - 3 * bags.weight)


@pytest.mark.parametrize("tile", [4, 64])
def test_groups_go_with_their_rows(bags, rng, tile, monkeypatch):
    monkeypatch.setattr(chunks_module, "TILE", tile)
    n = bags.n_individuals
    groups = Groups(rng.uniform(0.1, 1.0, n), rng.exponential(size=(n, 2)))
    chunks = chunks_of(bags, "subset", groups=groups)
    assert chunks_of(bags, "subset")[0].groups is None
    np.testing.assert_array_equal(gather_rows([chunk.groups.share for chunk in chunks], chunks), groups.share)
    for column in (0, 1):
        parts = [chunk.groups.deviation[..., column] for chunk in chunks]
        np.testing.assert_array_equal(gather_rows(parts, chunks), groups.deviation[:, column])
    some = groups.at(np.array([3, 1]))
    np.testing.assert_array_equal(some.share, groups.share[[3, 1]])
    np.testing.assert_array_equal(some.deviation, groups.deviation[[3, 1]])


def test_individuals_are_drawn_in_proportion_to_weight(bags):
    count = np.zeros((len(SIZES), 64))
    repetitions = 40
    for seed in range(repetitions):
        (chunk,) = chunks_of(bags, "subset", random_state=seed)
        assert chunk.drawn.shape[1] == SUBSET_SIZE
        for slot, position in filled(chunk):
            count[position] += np.bincount(chunk.drawn[slot], minlength=64)
    n_draws = repetitions * SUBSET_SIZE
    for position in range(len(SIZES)):
        weight = bags.weight[bags.starts[position] : bags.starts[position + 1]]
        p = weight / weight.sum()
        observed = count[position, : len(p)]
        assert count[position].sum() == n_draws == observed.sum()
        assert not observed[p == 0].any()
        assert np.abs(observed - n_draws * p).max() < 4.5 * np.sqrt(n_draws / 4)


def test_draws_do_not_depend_on_row_order_or_zero_weight_rows(bags, rng):
    order = rng.permutation(bags.n_individuals)
    X = np.concatenate([bags.X[order], rng.normal(size=(6, 2))])
    label = np.concatenate([bags.labels[bags.bag][order], bags.labels])
    weight = np.concatenate([bags.weight[order], np.zeros(6)])
    changed = Bags(X, label, weight)

    def drawn_rows(bags):
        (chunk,) = chunks_of(bags, "subset", random_state=3)
        return {bags.labels[position]: chunk.X[slot][chunk.drawn[slot]] for slot, position in filled(chunk)}

    before, after = drawn_rows(bags), drawn_rows(changed)
    for label, rows in before.items():
        np.testing.assert_array_equal(after[label], rows)


def test_tiles_hold_the_rows_of_each_bag(bags, monkeypatch):
    monkeypatch.setattr(chunks_module, "TILE", 4)
    known = np.linspace(-1, 1, bags.n_individuals)
    seen = []
    for chunk in chunks_of(bags, "subset"):
        if chunk.tiles is None:
            assert max(np.sum(chunk.weight > 0, axis=1)) <= 4
            continue
        owner, first = chunk.tiles.owner, chunk.tiles.first
        assert (np.diff(owner) >= 0).all()
        assert len(owner) == len(chunk.weight)
        np.testing.assert_array_equal(owner[first], np.arange(len(chunk.y)))
        totals = np.bincount(owner, chunk.weight.sum(axis=1))
        assert (totals > 0).all()
        for slot, position in filled(chunk):
            rows, n = slice(bags.starts[position], bags.starts[position + 1]), SIZES[bags.labels[position]]
            np.testing.assert_array_equal(chunk.X[owner == slot].reshape(-1, 2)[:n], bags.X[rows])
            np.testing.assert_array_equal(chunk.weight[owner == slot].ravel()[:n], bags.weight[rows])
            np.testing.assert_array_equal(chunk.known[owner == slot].ravel()[:n], known[rows])
            np.testing.assert_array_equal(chunk.rows[owner == slot].ravel()[:n], np.arange(rows.start, rows.stop))
            np.testing.assert_allclose(totals[slot], bags.weight[rows].sum())
            seen.append(position)
    assert sorted(SIZES[bags.labels[position]] for position in seen) == [5, 7, 9, 33]


def test_large_bags_of_all_sizes_share_one_shape_without_much_padding(rng):
    sizes = np.round(rng.lognormal(6.5, 1.0, 900)).astype(int).clip(13, 6667)
    batches = [batch for batch in plan_batches(sizes, "subset", CACHED, 600) if batch.n_tiles is not None]
    assert len({(batch.n_bags, batch.n_tiles) for batch in batches}) == 1
    padded = sum(batch.n_tiles * TILE for batch in batches)
    assert padded < 1.25 * sizes[sizes > TILE].sum()


def test_more_tries_leave_less_padding_in_one_shape(rng):
    padding = {1: 0.0, 9: 0.0}
    for _ in range(20):
        sizes = np.round(rng.lognormal(5.7, 0.8, 85)).astype(int).clip(129, 1600)
        tiles = -(-sizes // TILE)
        for tries in padding:
            batches = plan_batches(sizes, "subset", 1.5e6, 322, tries=tries)
            assert sorted(np.concatenate([batch.positions for batch in batches])) == list(range(85))
            assert len({(batch.n_bags, batch.n_tiles) for batch in batches}) == 1
            assert all(tiles[batch.positions].sum() <= batch.n_tiles for batch in batches)
            padding[tries] += (sum(batch.n_tiles for batch in batches) / tiles.sum() - 1) / 20
    assert padding[9] < 0.8 * padding[1]
    # one bag far larger than a chunk should be: the others fill chunks of its shape
    sizes = np.append(rng.integers(200, 1000, 300), 9000)
    batches = plan_batches(sizes, "subset", 1.5e6, 322, tries=9)
    assert sum(batch.n_tiles for batch in batches) < 1.3 * (-(-sizes // TILE)).sum()


def test_rows_of_zero_weight_change_no_mode_unless_they_are_many():
    weighty = np.array([128, 129, 100, 3])
    rows = np.array([160, 129, 513, 512])
    assert residual_modes("auto", rows, weighty).tolist() == ["exact", "subset", "subset", "exact"]
    assert residual_modes("diagonal", rows, weighty).tolist() == 4 * ["diagonal"]
    bags = Bags(np.arange(300.0)[:, None], np.repeat([0, 1], 150), np.tile(np.arange(150) < 120, 2) + 0.0)
    (chunk,) = make_chunks(bags, np.ones(2), {}, np.zeros(300))
    assert chunk.residual == "exact"
    (chunk,) = make_chunks(bags.with_arrays(weight=np.ones(300)), np.ones(2), {}, np.zeros(300))
    assert chunk.residual == "subset"
