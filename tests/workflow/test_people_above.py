"""People above thresholds in the folder of a run and on its page, against cases solved by hand."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from vbagg.geo.above import COLUMNS
from vbagg.report import Judgement
from vbagg.workflow.folder import RunFolder
from vbagg.workflow.report_page.above import above_curve, start_of
from vbagg.workflow.report_page.subject import Subject
from vbagg.workflow.results import ABOVE, read_people_above, write_people_above
from vbagg.workflow.run import Run
from vbagg.workflow.settings import from_words

YES = Judgement("yes", "?", "Yes", [])


def people(thresholds=(1.0, 2.0, 4.0, 10.0), above=(90.0, 70.0, 20.0, 0.0), **changed):
    above = np.array(above)
    facts = (thresholds, "cases per 1000 people", above, 0.5 * above, 1.1 * above, 100.0, "people", 0.9)
    return pd.DataFrame(dict(zip(COLUMNS, facts, strict=True))).assign(**changed)


def subject_of(tmp_path, exposure="population", states=("observed",), is_shared=False, **words):
    prepared = SimpleNamespace(exposure=exposure, is_shared=is_shared)
    run = Run(from_words({"response": "cases", **words}), RunFolder(tmp_path))
    subject = Subject(run, prepared, "cases", tmp_path)
    observed = [5.0 if state == "observed" else float("nan") for state in states]
    subject.__dict__["table"] = pd.DataFrame({"observed": observed, "observation": states})
    subject.maps.mkdir(parents=True, exist_ok=True)
    return subject


def test_what_was_written_is_read(tmp_path):
    table = people(above=(91.0625, 70.0, 1 / 3, 0.0))
    write_people_above(table, tmp_path)
    pd.testing.assert_frame_equal(read_people_above(tmp_path), table, rtol=1e-9)
    assert (tmp_path / ABOVE).read_text().splitlines()[0] == ",".join(COLUMNS)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (people().drop(columns="above_lower"), "it must have the columns threshold, threshold_units, above"),
        (people().iloc[:0], "and rows"),
        (people(thresholds=(1.0, 4.0, 2.0, 10.0)), "thresholds in ascending order"),
        (people(above=(90.0, 70.0, -2.0, 0.0)), "nothing negative besides"),
        (people(above_upper=[90.0, float("nan"), 3.0, 0.0]), "finite numbers"),
        (people(above_lower=["many", 3, 2, 1]), "could not convert"),
    ],
)
def test_other_files_are_refused(tmp_path, table, told):
    table.to_csv(tmp_path / ABOVE, index=False)
    with pytest.raises(ValueError, match=f"cannot be read as what `vbagg predict` wrote: .*{told}"):
        read_people_above(tmp_path)


def test_the_curve_starts_at_the_threshold_of_the_run_or_at_the_mean_rate():
    """The area under the curve: 1 + 0.8 + 2 * 0.45 + 6 * 0.1 = 3.3, said as 3, from which 2 and 4 are as far."""
    assert start_of(people(), 10.0) == 10.0
    assert start_of(people(), None) == 2.0
    assert start_of(people(thresholds=(1.0, 2.0, 4.0, 12.0)), None) == 4.0


def test_the_page_takes_what_is_there(tmp_path):
    subject = subject_of(tmp_path, threshold=4.0, level=0.9)
    write_people_above(people(), subject.maps)
    curve = above_curve(subject, YES)
    assert curve.thresholds == [1.0, 2.0, 4.0, 10.0]
    assert curve.above == [90.0, 70.0, 20.0, 0.0]
    assert (curve.everybody, curve.start, curve.counted) == (100.0, 4.0, "population")
    assert curve.units == "cases per 1000 people"
    first, second = curve.notes
    assert "the 90% interval" in first
    assert "likely to be above 4:" in second


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"is_shared": True}, "several facilities"),
        ({"likelihood": "binomial", "link": "logistic", "trials": "tested"}, "those who were examined (tested)"),
        ({"match_totals": True}, "plays no part"),
        ({"states": ("observed", "missing")}, "Districts whose total is not known are included"),
    ],
)
def test_what_is_counted_is_told(tmp_path, options, told):
    subject = subject_of(tmp_path, **options)
    write_people_above(people(), subject.maps)
    _, note = above_curve(subject, YES).notes
    assert told in note


@pytest.mark.parametrize(
    ("word", "told"),
    [("no", "cannot be relied on"), ("with care", "read them with care"), ("unchecked", "nobody has checked")],
)
def test_numbers_are_as_good_as_the_map(tmp_path, word, told):
    subject = subject_of(tmp_path)
    write_people_above(people(), subject.maps)
    note, _ = above_curve(subject, Judgement(word, "?", word, [])).notes
    assert told in note


def test_relative_risks_have_no_units(tmp_path):
    subject = subject_of(tmp_path, exposure="expected")
    write_people_above(people(), subject.maps)
    assert above_curve(subject, YES).units == ""


def test_a_run_of_an_earlier_version_has_a_page_without_it(tmp_path):
    subject = subject_of(tmp_path)
    assert above_curve(subject, YES) is None
    log = (tmp_path / "run.log").read_text()
    assert "does not say how many people live above a threshold" in log
    assert "`vbagg predict --force` makes it" in log
    with pytest.raises(ValueError, match=r"people_above.csv is not there: .* Map again: `vbagg predict --force"):
        subject.run.people_above("cases")
