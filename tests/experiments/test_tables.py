import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import wilcoxon

from vbagg.experiments.tables import markdown_table, summary, with_paper, write_text
from vbagg.significance import wilcoxon_table


@pytest.fixture
def repetitions() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "method": ["VBAgg-Sq", "Constant", "VBAgg-Sq", "Constant", "VBAgg-Sq", "Constant"],
            "repetition": [0, 0, 1, 1, 2, 2],
            "nll": [2.140, 2.24, 2.143, 2.20, 2.149, 2.22],
            "bag_mse": [412.0, 9000.0, 380.0, 9100.0, 431.0, 9900.0],
            "coverage": [0.7, np.nan, 0.75, np.nan, np.nan, np.nan],
        }
    )


# Markdown


def test_markdown_table_by_hand():
    frame = pd.DataFrame(
        {
            "method": ["VBAgg-Sq", "a|b"],
            "nll": [2.14391, np.nan],
            "bags": [150, 50],
            "p": [1e-7, 0.25],
            "paper": [1.0, None],
        }
    )
    text = markdown_table(frame, {"nll": ".3f", "p": lambda p: "<0.001" if p < 0.001 else f"{p:.2f}"})
    assert text == (
        "| method   |   nll | bags | p      | paper |\n"
        "|----------|------:|-----:|--------|------:|\n"
        "| VBAgg-Sq | 2.144 |  150 | <0.001 |     1 |\n"
        "| a\\|b     |     - |   50 | 0.25   |     - |\n"
    )


def test_markdown_floats_have_four_digits():
    assert "| 0.001235 |" in markdown_table(pd.DataFrame({"mse": [0.00123456]}))


def test_markdown_table_without_rows():
    assert markdown_table(pd.DataFrame({"method": [], "nll": []})).count("\n") == 2


# Summary


def test_summary_means_and_deviations(repetitions):
    result = summary(repetitions, ["method"], ["nll", "bag_mse", "coverage"])
    assert result["method"].tolist() == ["VBAgg-Sq", "Constant"]
    # deviations 0.00458 and 0.02, then 25.7 and 493: the larger one shows two digits
    assert result["nll"].tolist() == ["2.144 (0.005)", "2.220 (0.020)"]
    assert result["bag_mse"].tolist() == ["408 (26)", "9333 (493)"]
    assert result["coverage"].tolist() == ["0.725 (0.035)", "-"]
    assert result["repetitions"].tolist() == [3, 3]
    assert markdown_table(result).startswith("Mean (standard deviation) over repetitions.\n\n| method ")


def test_summary_with_standard_errors(repetitions):
    result = summary(repetitions, ["method"], ["nll"], spread="se", formats={"nll": ".4f"})
    assert result["nll"].tolist() == ["2.1440 (0.0026)", "2.2200 (0.0115)"]
    assert "standard error" in result.attrs["caption"]
    with pytest.raises(ValueError, match="'std', 'se'; got 'range'"):
        summary(repetitions, ["method"], ["nll"], spread="range")


def test_summary_of_one_repetition_has_no_spread(repetitions):
    result = summary(repetitions[repetitions["repetition"] == 1], ["method", "repetition"], ["nll"])
    assert result["nll"].tolist() == ["2.143", "2.200"]
    assert result.columns.tolist() == ["method", "repetition", "nll", "repetitions"]


def test_summary_keeps_infinite_scores(repetitions):
    repetitions.loc[0, "nll"] = np.inf
    assert summary(repetitions, ["method"], ["nll"])["nll"].tolist() == ["inf", "2.220 (0.020)"]


def test_paper_stands_beside_ours(repetitions):
    paper = {"Constant": {"nll": 2.2256, "bag_mse": "-"}, "NN-Exp": {"nll": 2.185}}
    result = with_paper(summary(repetitions, ["method"], ["nll", "bag_mse"]), paper)
    assert result.columns.tolist() == ["method", "nll", "nll (paper)", "bag_mse", "bag_mse (paper)", "repetitions"]
    text = markdown_table(result)
    assert text.startswith("Mean (standard deviation)")
    assert "| Constant | 2.220 (0.020) |       2.226 | 9333 (493) |               - |" in text
    assert "| VBAgg-Sq | 2.144 (0.005) |           - |   408 (26) |               - |" in text


def test_paper_by_several_columns(repetitions):
    frame = summary(repetitions, ["method", "repetition"], ["nll"])
    result = with_paper(frame, {("Constant", 1): {"nll": 2.5}}, by=["method", "repetition"], heading="{}, 2018")
    assert result["nll, 2018"].dropna().to_dict() == {3: 2.5}
    with pytest.raises(ValueError, match="column 'mse'"):
        with_paper(frame, {("Constant", 1): {"mse": 2.5}}, by=["method", "repetition"])


def test_text_is_moved_into_place(tmp_path, monkeypatch):
    path = tmp_path / "table.md"
    assert write_text(path, "ä\n") == path
    assert list(tmp_path.iterdir()) == [path]
    monkeypatch.setattr("os.fsync", lambda descriptor: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_text(path, "half")
    assert path.read_bytes() == "ä\n".encode()


# Significance


def scores(reference, other, pairs_shuffled_by=3) -> pd.DataFrame:
    rows = [
        {"bags": 50 * (at % 3), "repetition": at // 3, "method": method, "nll": value}
        for method, values in (("ours", reference), ("theirs", other))
        for at, value in enumerate(values)
        if value is not None
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=pairs_shuffled_by)


def test_p_value_by_enumeration():
    reference, other = [1.0, 2.0, 3.0, 4.0, 7.0], [1.5, 2.4, 3.3, 4.2, 6.9]
    # differences -0.5 -0.4 -0.3 -0.2 +0.1: the sum of positive ranks is 1, and 2 of 32 sign patterns have at most 1
    sums = [np.dot(signs, [1, 2, 3, 4, 5]) for signs in itertools.product([0, 1], repeat=5)]
    assert sum(total <= 1 for total in sums) == 2
    [row] = wilcoxon_table(scores(reference, other), "nll", "ours", ["bags", "repetition"]).to_dict("records")
    assert row["p_value"] == pytest.approx(2 / 32)
    assert row["median_difference"] == pytest.approx(-0.3)
    assert (row["method"], row["pairs"], row["left_out"], row["note"]) == ("theirs", 5, 0, "")


def test_p_value_is_scipys_on_the_paired_scores(rng):
    reference, other = rng.gamma(2.0, size=23), rng.gamma(2.8, size=23)
    better = wilcoxon_table(scores(reference, other), "nll", "ours", ["bags", "repetition"])["p_value"][0]
    worse = wilcoxon_table(scores(reference, other), "nll", "theirs", ["bags", "repetition"])["p_value"][0]
    assert better == wilcoxon(reference - other, alternative="less").pvalue
    assert worse == wilcoxon(reference - other, alternative="greater").pvalue
    assert abs(better - worse) > 0.05


def test_pairs_without_a_partner_are_left_out_and_counted(rng):
    reference, other = list(rng.normal(size=12)), list(rng.normal(1.0, size=12))
    reference[4] = None
    other[7] = np.nan
    other[9] = None
    row = wilcoxon_table(scores(reference, other), "nll", "ours", ["bags", "repetition"]).iloc[0]
    kept = [at for at in range(12) if at not in (4, 7, 9)]
    difference = np.array([reference[at] - other[at] for at in kept])
    assert (row["pairs"], row["left_out"]) == (9, 3)
    assert row["p_value"] == wilcoxon(difference, alternative="less").pvalue


def test_equal_scores_are_dropped():
    reference, other = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, np.inf], [1.5, 2.5, 3.5, 4.25, 5.125, 6.0, np.inf]
    row = wilcoxon_table(scores(reference, other), "nll", "ours", ["bags", "repetition"]).iloc[0]
    assert row["p_value"] == pytest.approx(1 / 32)  # ties among the others do not change an all-negative sample
    assert row["note"] == "2 equal pairs dropped"
    assert row["pairs"] == 7


def test_equal_methods_do_not_differ():
    row = wilcoxon_table(scores([1.0] * 6, [1.0] * 6), "nll", "ours", ["bags", "repetition"]).iloc[0]
    assert (row["p_value"], row["note"]) == (1.0, "all scores are equal")


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ([1.5, 2.5, 3.5, 4.5, None, None], "fewer than 5 pairs"),
        ([1.5, 2.5, 3.5, 4.5, 5.0, 6.0], "fewer than 5 pairs with unequal scores"),
        ([np.nan] * 6, "fewer than 5 pairs"),
    ],
)
def test_few_pairs_are_not_tested(other, reason):
    result = wilcoxon_table(scores([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], other), "nll", "ours", ["bags", "repetition"])
    assert result["note"].tolist() == [reason]
    assert f"|       - | {reason} |" in markdown_table(result)


def test_pairing_must_tell_rows_apart():
    table = scores([1.0, 2.0, 3.0, 4.0, 5.0], [1.5, 2.4, 3.3])
    with pytest.raises(ValueError, match="must tell all rows of 'ours' apart"):
        wilcoxon_table(table, "nll", "ours", ["bags"])
    with pytest.raises(ValueError, match="got 'nobody'"):
        wilcoxon_table(table, "nll", "nobody", ["bags", "repetition"])


def test_chosen_others(rng):
    table = pd.DataFrame(
        {
            "method": np.repeat(["a", "b", "c"], 6),
            "repetition": np.tile(np.arange(6), 3),
            "mse": rng.normal(size=18),
        }
    )
    assert wilcoxon_table(table, "mse", "b", ["repetition"])["method"].tolist() == ["a", "c"]
    assert wilcoxon_table(table, "mse", "b", ["repetition"], others=["c"])["method"].tolist() == ["c"]
