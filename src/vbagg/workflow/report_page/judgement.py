"""Whether the map can be relied on, as the page tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from vbagg.report import Judgement
from vbagg.report.content import Word
from vbagg.texts import Texts
from vbagg.workflow.report_page.layers import OBSERVED, RATE

if TYPE_CHECKING:
    from vbagg.workflow.report_page.subject import Subject
    from vbagg.workflow.run import Run


def judgement_of(subject: Subject) -> Judgement:
    """That of the response that a page is about."""
    return judged(subject.run, subject.response, subject.say)


def judged(run: Run, response: str, say: Texts) -> Judgement:
    """What the validation found; without one, that nobody has looked."""
    told = run.verdict(response)
    word, reasons = (told.word, told.reasons) if told else ("unchecked", (say("verdict.nobody"),))
    key = word.replace(" ", "_")
    return Judgement(cast(Word, word), say("verdict.question"), say(f"verdict.{key}"), reasons)


def opens_on(judgement: Judgement) -> str:
    """The layer that is shown first: district rates where the fine map is no better."""
    return OBSERVED if judgement.word == "no" else RATE


def why_it_opens(say: Texts, judgement: Judgement) -> str:
    """What to know before looking at the map, if anything."""
    key = judgement.word.replace(" ", "_")
    return "" if key == "yes" else say(f"verdict.map_{key}")
