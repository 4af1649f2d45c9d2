"""Scales, what they lead to expect of cells, and the word: tables made by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from made_scales import cells, made, scale
from scipy import stats

from vbagg.language import written_in
from vbagg.validate.carried import AGREEMENT, TOLD, WIDTH, Line, carry
from vbagg.validate.scales import Nested
from vbagg.validate.sums import Sums
from vbagg.validate.verdict import FEWEST_BAGS, Reason, Verdict, judge


def test_skill_is_that_of_a_loop():
    fold = scale("2", 13, 0.5, 1.0)
    own = one = noise = 0.0
    for row in fold.table.itertuples():
        own += row.exposure * (row.value - row.estimate) ** 2
        one += row.exposure * row.value**2
        noise += row.exposure * row.noise
    sums = Sums.of(fold.table)
    assert sums.total().skill == pytest.approx(1 - (own - noise) / (one - noise))
    assert len(sums.own) == 13
    assert sums.bags.sum() == 26
    row = Nested((fold,), cells(0.3)).scales().iloc[0]
    assert row["low"] < row["skill"] < row["high"]
    assert row["size"] == 2


def test_p_values_tell_what_agrees_from_what_does_not():
    right, none, wrong = (Nested((scale("2", 40, told, 1.0, error=error),), cells(0.3)) for told, error in
                          ((0.5, 0.2), (0.5, 40.0), (-0.5, 0.2)))  # fmt: skip
    assert right.p_value() < 1e-4
    assert right.p_value(worse=True) > 0.99
    assert 0.02 < none.p_value() < 0.98
    assert wrong.p_value(worse=True) < 1e-4
    table = right.folds[0].table
    expected = table["own_error"] + table["estimate"] ** 2 + table["noise"]
    agreement = table["estimate"] * table["value"] / expected
    gains = agreement.groupby(table["union"]).sum()
    assert right.p_value() == pytest.approx(stats.wilcoxon(gains, alternative="greater").pvalue, rel=1e-6)


def test_scales_that_go_together_count_less_than_independent_ones():
    both = made(error=3.0)
    single = [Nested((fold,), both.claims).p_value() for fold in both.folds]
    scores, weight = stats.norm.ppf(single), np.sqrt([30, 15])
    expected = stats.norm.cdf(weight @ scores / np.sqrt(weight @ [[1, 0.5], [0.5, 1]] @ weight))
    assert both.p_value() == pytest.approx(expected, rel=1e-9)


def test_one_scale_is_carried_as_a_normal_prior_says():
    fold = scale("2", 5000, 0.5, 1.0, held=0.6)
    told = carry({"2": Sums.of(fold.table)}, cells(0.4).table)
    # a scale without chance: weight of what is seen there by the two variances, slopes apart
    weight = WIDTH.sd**2 / (WIDTH.sd**2 + WIDTH.scale_sd**2)
    seen = np.log(stats.norm.ppf(0.8) / stats.norm.ppf(0.95))
    assert told.coverage[0.9].value == pytest.approx(
        2 * stats.norm.cdf(stats.norm.ppf(0.95) * np.exp(weight * (seen - WIDTH.above))) - 1, abs=0.01
    )
    assert told.coverage[0.9].low < told.coverage[0.9].value < told.coverage[0.9].high
    assert told.claimed == pytest.approx(0.4)


def test_skill_of_cells_is_that_of_claims_corrected_by_what_is_seen():
    # a scale without chance, whose correlation is that of the true differences and their errors
    fold, base = scale("2", 5000, 0.5, 0.6, error=0.5), 0.3
    table = fold.table
    w, v, m, chance = (table[name].to_numpy() for name in ("exposure", "value", "estimate", "noise"))
    real, told, error = w @ (v**2 - chance), w @ m**2, w @ table["own_error"].to_numpy()
    claimed = told / (told + error)
    seen = np.arctanh(w @ (v * m) / np.sqrt(real * told)) - np.arctanh(np.sqrt(claimed))
    share = np.log(told / real / claimed)
    weight = [line.sd**2 / (line.sd**2 + line.scale_sd**2) for line in (AGREEMENT, TOLD)]
    r = np.tanh(np.arctanh(np.sqrt(base)) + weight[0] * (seen - AGREEMENT.above))
    q = base * np.exp(weight[1] * (share - TOLD.above))
    found = carry({"2": Sums.of(table)}, cells(base).table).skill
    assert found.value == pytest.approx(2 * r * np.sqrt(q) - q, rel=0.03)
    assert found.low < found.value < found.high


def test_cells_deviate_in_ways_of_which_scales_say_nothing():
    seen = [(0.7, 0.4, 0.02), (1.4, 0.1, 0.05)]
    (value, sd), (same, wider) = (Line(0.0, 0.2, 0.4, 0.25, own).at(3.6, seen) for own in (0.0, 0.3))
    assert value == same
    assert wider**2 == pytest.approx(sd**2 + 0.09)


def test_what_refits_recover_is_where_skill_begins():
    sums, table = {"2": Sums.of(scale("2", 40, 0.5, 1.0).table)}, cells(0.4).table
    known = {"has_results": True, "coverage": lambda level: level}
    right = [carry(sums, table, SimpleNamespace(skill=skill, **known)).skill for skill in (0.1, 0.4, 0.8, -0.3, np.nan)]
    assert right[0].value < right[1].value < right[2].value
    assert right[1].value == pytest.approx(carry(sums, table).skill.value)
    assert right[4] == carry(sums, table).skill
    assert right[3].value == right[3].high == 0


@pytest.mark.parametrize("claimed", [0.2, 0.6, 0.97])
def test_nobody_explains_more_than_there_is(claimed):
    """Whatever is seen: told differences may be too small, or go with the true ones better than the model claims."""
    for told, error in ((0.05, 1e-3), (0.5, 1e-3), (3.0, 0.1)):
        skill = carry({"4": Sums.of(scale("4", 60, told, 1.0, 4, error=error).table)}, cells(claimed).table).skill
        assert skill.low <= skill.value <= skill.high <= 1


def test_what_a_right_model_would_cover_is_the_prior_of_coverage():
    sums, table = {"2": Sums.of(scale("2", 5000, 0.5, 1.0, held=0.9).table)}, cells(0.4).table
    held = {0.5: 0.4, 0.8: 0.7, 0.9: 0.8, 0.95: 0.9}
    recovery = SimpleNamespace(has_results=True, coverage=held.get, skill=0.4)
    weight = WIDTH.sd**2 / (WIDTH.sd**2 + WIDTH.scale_sd**2)
    right, seen = (np.log(stats.norm.ppf((1 + c) / 2) / stats.norm.ppf(0.95)) for c in (0.8, 0.9))
    expected = 2 * stats.norm.cdf(stats.norm.ppf(0.95) * np.exp(right + weight * (seen - right - WIDTH.above))) - 1
    assert carry(sums, table, recovery).coverage[0.9].value == pytest.approx(expected, abs=0.01)
    without = carry(sums, table).coverage[0.9].value
    assert without == pytest.approx(0.9, abs=0.02)
    assert carry(sums, table, SimpleNamespace(has_results=False)).coverage[0.9].value == without


def test_a_map_that_tells_nothing_explains_nothing():
    table = cells(0.0).table
    assert carry({"2": Sums.of(scale("2", 40, 0.5, 1.0).table)}, table).skill.high == 0


def test_claims_are_believed_less_where_tests_are_failed():
    good, bad = (made(told, 0.4, error=error).cells().skill for told, error in ((0.8, 0.1), (0.8, 3.0)))
    assert good.value > 0.4 > bad.value
    assert bad.low < bad.value < bad.high


@pytest.mark.parametrize(
    ("problem", "word"),
    [
        (made(), "yes"),
        (made(error=40.0), "no"),
        (made(claimed=0.02, error=1.0), "no"),
        (made(bags=FEWEST_BAGS - 4), "no"),
        (made(held=0.2), "no"),
        (made(held=0.7), "with care"),
    ],
)
def test_the_word(problem, word):
    verdict = judge(problem, bags="districts")
    assert verdict.word == word
    assert len(verdict.reasons) == 3
    assert all("{" not in reason and "districts" in " ".join(verdict.reasons) for reason in verdict.reasons)
    assert Verdict.from_document(verdict.document()) == verdict


def test_intervals_that_held_too_little_inside_unions_are_told():
    """Whatever is expected of cells."""
    nested = made(held=0.7)
    inside = [fold.table["inside_90"] for fold in nested.folds]
    held = sum(map(sum, inside)) / sum(map(len, inside))
    assert nested.cells().coverage[0.9].value > 0.8 > held
    reason = judge(nested).because[2]
    assert (reason.name, reason.values["held"]) == ("inside", round(held, 2))
    assert f"those of 90% held {held:.0%} of the totals of bags in larger areas" in str(reason)


def test_areas_that_were_named_are_no_groups_of_neighbours():
    named = Nested((scale("group", 30, 0.6, 1.0, error=0.3),), cells(0.4))
    assert judge(named, bags="districts").reasons[0].startswith("Given only the totals of 30 larger areas, the model")


def test_skill_that_is_not_known_is_not_told():
    known, hidden = (scale(name, n, 0.6, 1.0, error=0.3, seed=n) for name, n in (("4", 15), ("2", 30)))
    hidden.table["noise"] = 100.0  # all of it may be chance
    told = judge(Nested((hidden, known), cells(0.4))).because[0]
    assert (told.name, told.values["unions"]) == ("told", 15)
    alone = Nested((hidden,), cells(0.4))
    assert judge(alone).because[0].name == "unmeasured"
    skill = alone.cells().skill
    assert skill.value == pytest.approx(0.4)
    assert skill.low < 0.3 < 0.5 < skill.high


def test_few_bags_are_said_to_be_too_few():
    assert "16 bags with totals are too few to tell" in judge(made(bags=16)).reasons[0]
    assert judge(None, SimpleNamespace(n_bags=7), "areas").reasons == (
        "7 areas with totals are too few to tell whether differences inside them are told rightly.",
    )


def test_what_was_not_tested_is_not_believed():
    assert judge(None).word == "no"
    assert "was not tested" in judge(None).reasons[0]


def test_results_are_the_same_after_they_were_stored():
    one = made()
    again = Nested.from_document(one.document())
    assert again.cells() == one.cells()
    assert judge(again) == judge(one)
    with pytest.raises(ValueError, match="a word and the reasons"):
        Verdict.from_document(judge(one).document() | {"reasons": ["others"]})


@pytest.mark.parametrize(
    ("language", "reason"),
    [
        ("fr", "16\u00a0districts"),
        ("es", "16 distritos con total conocido son demasiado pocos"),
        ("pt", "16 distritos com total conhecido são poucos demais"),
    ],
)
def test_reasons_are_said_in_other_languages_and_stored_in_english(language, reason):
    few, right = judge(made(bags=16), bags="polygons"), judge(made(), bags="polygons")
    english, stored = few.reasons, right.document()
    with written_in(language):
        assert reason.replace("\u00a0", " ") in few.reasons[0].replace("\u00a0", " ")
        assert not {*few.reasons, *right.reasons} & {*english}
        assert Verdict.from_document(stored) == right
        assert right.document() == stored
    assert few.reasons == english


def test_shares_of_reasons_are_written_as_the_language_does():
    reason = Reason("much", {"bags": "villages", "skill": 0.12, "low": 0.0, "high": 0.5})
    assert str(reason).startswith("Inside villages the map is expected to explain 12% of")
    with written_in("fr"):
        assert "villages" in str(reason)
        assert "12\u00a0% des différences entre les lieux (de 0\u00a0% à 50\u00a0%)" in str(reason)


def test_numbers_of_earlier_versions_were_texts():
    values = {"bags": "polygons", "unions": "1,204", "skill": "12%"}
    before, now = Reason("told", values), Reason("told", {**values, "unions": 1204, "skill": 0.12})
    assert str(before) == str(now)
    assert "1,204 groups" in str(before)
    with written_in("pt"):
        assert str(before) == str(now)
        assert "1\u202f204 grupos de distritos" in str(before)
        assert "12%" in str(before)
    told = {"name": "told", "values": values, "speaks": "yes"}
    document = {"word": "yes", "reasons": [str(now)], "said": [told]}
    with written_in("es"):
        assert "12\u00a0%" in Verdict.from_document(document).reasons[0]
