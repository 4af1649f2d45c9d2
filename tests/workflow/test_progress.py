"""Progress of a run: a time left that does not grow while nothing happens, and lines where there is no terminal."""

import pytest

from vbagg.workflow.progress import showing
from vbagg.workflow.time_left import TimeLeft


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_there_is_no_time_left_until_a_share_is_done(clock):
    left = TimeLeft(clock)
    left.tell(0.0)
    clock.now += 50
    assert left.seconds() is None


def test_the_time_left_falls_between_shares(clock):
    left = TimeLeft(clock)
    left.tell(0.0)
    clock.now += 30
    left.tell(0.25)
    assert left.seconds() == pytest.approx(90)
    clock.now += 29
    left.tell(0.25)
    assert left.seconds() == pytest.approx(61)


def test_there_is_none_when_it_takes_longer_than_expected(clock):
    left = TimeLeft(clock)
    left.tell(0.0)
    clock.now += 10
    left.tell(0.5)
    clock.now += 11
    assert left.seconds() is None
    left.tell(0.75)
    assert left.seconds() == pytest.approx(7)


def test_what_an_earlier_run_has_done_took_no_time(clock):
    left = TimeLeft(clock)
    left.tell(0.6)
    clock.now += 10
    left.tell(0.8)
    assert left.seconds() == pytest.approx(10)


def test_a_second_part_of_a_stage_begins_anew(clock):
    left = TimeLeft(clock)
    left.tell(0.0)
    clock.now += 100
    left.tell(0.8)
    left.tell(0.0)
    assert left.seconds() is None
    clock.now += 6
    left.tell(0.2)
    assert left.seconds() == pytest.approx(24)


def test_parts_that_take_long_are_lines_without_a_terminal(capsys):
    with showing() as shown:
        shown.begin("validation")
        shown.tell("fitting", 0.5)
        shown.step("cases: fold 2, 12.0 s")
        shown.end()
    first, second = capsys.readouterr().err.splitlines()
    assert first == "validation: cases: fold 2, 12.0 s"
    assert second.startswith("validation: 0.")


def test_the_bar_shows_what_is_left(monkeypatch, capsys):
    from rich.console import Console
    from rich.progress import Progress

    from vbagg.workflow.bar import Bar, _Left

    with Progress(_Left(), console=Console(), auto_refresh=False) as progress:
        bar = Bar(progress)
        bar.begin("maps")
        bar.tell("mapping", 0.0)
        (task,) = progress.tasks
        assert str(_Left().render(task)) == ""
        clock = Clock()
        bar.left._clock = clock
        bar.left.tell(0.0)
        clock.now += 200
        bar.left._first = (100.0, 0.0)
        bar.tell("mapping", 0.75)
        assert str(_Left().render(task)) == "0:01:07 left"
        bar.end()
        assert str(_Left().render(task)) == ""
