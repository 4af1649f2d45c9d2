"""Claims judged by rows whose answer is known, and the page over all experiments."""

import math

import numpy as np
import pandas as pd
import pytest

from vbagg.cli import main
from vbagg.experiments import EXPERIMENTS, get_experiment
from vbagg.experiments.claims import CLAIMS, HOLDS, NOT, UNKNOWN, Better, NoDifference, Within, p_value
from vbagg.experiments.overview import write_overview
from vbagg.significance import wilcoxon_table

PAIRS = ("bags", "repetition")


def rows(shifts: dict[str, float], n: int = 12) -> pd.DataFrame:
    """Scores of methods on the same data sets, each shifted from a common course, with some noise of its own."""
    rng = np.random.default_rng(3)
    common = rng.uniform(2, 5, n)
    frames = [
        pd.DataFrame(
            {
                "bags": np.repeat([100, 150], n // 2),
                "repetition": np.tile(np.arange(n // 2), 2),
                "method": name,
                "individual_nll": common + shift + 0.1 * rng.uniform(-1, 1, n),
                "individual_mse": common**2 + 3 * shift + 0.1 * rng.uniform(-1, 1, n),
                "coverage_error": 0.05 + abs(shift) / 10,
            }
        )
        for name, shift in shifts.items()
    ]
    return pd.concat(frames, ignore_index=True)


def test_better_in_all_in_part_and_not_at_all():
    table = rows({"ours": 0.0, "near": 0.005, "far": 0.6, "ahead": -0.5})
    judged = {
        others: Better("x", "", ("ours",), others).judge(table, PAIRS)
        for others in [("far",), ("far", "near"), ("ahead",), ("absent",)]
    }
    assert judged["far",].verdict == HOLDS
    assert judged["far", "near"].verdict == "holds with ours over far (NLL), ours over far (MSE)"
    assert judged["ahead",].verdict == NOT
    assert judged["absent",].verdict == UNKNOWN
    [p] = wilcoxon_table(table, "individual_nll", "ours", PAIRS, ["far"])["p_value"]
    assert f"ours over far (NLL) p = {p:.2g}" in judged["far",].evidence
    three = Better("x", "", ("ours",), ("far", "near"), ("individual_nll",))
    assert three.judge(rows({"ours": 0.0, "near": 0.4, "far": 0.6}), PAIRS).verdict == HOLDS


def test_most_parts_that_hold_leave_the_others_named():
    table = rows({"ours": 0.0, "near": 0.005, "far": 0.6, "further": 0.9})
    claim = Better("x", "", ("ours",), ("far", "near", "further"), ("individual_nll",))
    assert claim.judge(table, PAIRS).verdict == "holds but for ours over near (NLL)"


def test_no_difference_is_refuted_from_either_side():
    table = rows({"ours": 0.0, "near": 0.005, "far": 0.6})
    assert NoDifference("x", "", (("ours", "near"),)).judge(table, PAIRS).verdict == HOLDS
    for pair in (("ours", "far"), ("far", "ours")):
        judged = NoDifference("x", "", (pair,)).judge(table, PAIRS)
        assert judged.verdict == NOT
        assert judged.evidence.startswith("ours over far (NLL) p = ")


def test_ranges_are_of_means():
    table = rows({"ours": 0.0, "far": 1.5})
    claim = Within("x", "", ("ours", "far"), "coverage_error", most=0.1)
    assert claim.judge(table, PAIRS).verdict == "holds with ours"
    assert claim.judge(table, PAIRS).evidence == "coverage error: ours 0.05, far 0.2"
    assert Within("x", "", ("far",), "coverage_error", least=0.2).judge(table, PAIRS).verdict == HOLDS
    assert math.isnan(p_value(table.iloc[:3], "individual_nll", "ours", "far", PAIRS))


def test_claims_name_methods_and_scores_of_their_experiments():
    for claim in CLAIMS:
        experiment = get_experiment(claim.experiment)
        named = [getattr(claim, name, ()) for name in ("references", "others", "methods")]
        named += list(getattr(claim, "pairs", ()))
        assert {method for group in named for method in group} <= set(experiment.methods)
        assert set(getattr(claim, "scores", ())) <= {*experiment.overview_scores}
    assert {claim.experiment for claim in CLAIMS} == set(EXPERIMENTS)


def test_the_page_has_progress_claims_and_numbers_of_what_was_run(tmp_path, capsys):
    names = ("VBAgg-Sq", "VBAgg-Exp", "VBAgg-Sq-Obj", "VBAgg-Exp-Obj", "Nystrom-Exp", "NN-Exp", "Bag-pixel", "Constant")
    table = rows({name: 0.2 * at for at, name in enumerate(names)}).assign(cpu_seconds=30.0)
    (tmp_path / "swiss-bags").mkdir()
    table.to_csv(tmp_path / "swiss-bags" / "repetitions.csv", index=False)
    (tmp_path / "NOTES.md").write_text("## Remarks\n\nNothing to remark.")
    assert main(["experiment", "--overview", str(tmp_path)]) == 0
    page = (tmp_path / "README.md").read_text()
    assert f"wrote {tmp_path / 'README.md'}" in capsys.readouterr().out
    # 8 methods x 2 numbers of bags x 5 of 6 repetitions are part of the paper's design
    assert "80 of 300" in page
    assert page.count("| swiss-bags ") == 6
    assert "elevators" not in page
    assert "Nothing to remark." in page
    quoted = get_experiment("swiss-bags").paper_p_values["VBAgg-Sq", "NN-Exp"]["individual_nll"]
    assert f"{quoted:.2g}" in page


def test_a_folder_without_rows_is_refused(tmp_path, capsys):
    with pytest.raises(FileNotFoundError, match="must hold folders of experiments"):
        write_overview(tmp_path)
    assert main(["experiment", "--overview", str(tmp_path)]) == 2
    assert "must hold folders of experiments" in capsys.readouterr().err
