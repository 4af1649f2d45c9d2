"""The verdict at the end of a command: the same words in a file and in a terminal, where they have a colour, too."""

import io
import json
import re

import pytest

from vbagg.cli.verdicts import COLOURS, show_verdicts
from vbagg.validate.verdict import Reason, Verdict
from vbagg.workflow.folder import RunFolder
from vbagg.workflow.run import Run
from vbagg.workflow.settings import from_words

REASONS = (Reason("few", {"n": "7", "bags": "areas [red]"}), Reason("untested", {"bags": "areas", "why": ""}))
CODES = {"green": "32", "yellow": "33", "red": "31", "magenta": "35"}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def run(tmp_path):
    return Run(from_words({"response": ["cases", "deaths"]}), RunFolder(tmp_path))


def judged(run, response, word):
    folder = run.folder["validation"] / response
    folder.mkdir(parents=True)
    (folder / "verdict.json").write_text(json.dumps(Verdict(word, REASONS).document()), encoding="utf-8")


def test_each_response_has_its_own(run, capsys):
    judged(run, "cases", "with care")
    show_verdicts(run)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "cases: Can the fine map be relied on? With care.",
        f"  - {REASONS[0]}",
        f"  - {REASONS[1]}",
    ]
    assert lines[3] == "deaths: Can the fine map be relied on? Nobody has checked."
    assert lines[4].startswith("  - Validation was left out")


@pytest.mark.parametrize(("word", "answer"), [("yes", "Yes"), ("with care", "With care"), ("no", "No")])
def test_a_terminal_has_the_words_in_colour(run, monkeypatch, word, answer):
    judged(run, "cases", word)
    judged(run, "deaths", "yes")
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    for name, value in (("TERM", "xterm"), ("COLUMNS", "60")):
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    show_verdicts(run)
    shown = terminal.getvalue()
    assert f"\x1b[1;{CODES[COLOURS[word]]}m{answer}.\x1b[0m" in shown
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert f"cases: Can the fine map be relied on? {answer}." in plain
    assert "areas [red] with totals" in " ".join(plain.split())
    assert max(map(len, plain.splitlines())) <= 60


def test_verdicts_of_a_run(run):
    judged(run, "cases", "no")
    assert run.verdict("cases").word == run.verdict().word == "no"
    assert run.verdict("deaths") is None
