"""Texts of a page: every one that is asked for is there, and every place in it is filled."""

import re
import string
from pathlib import Path

import pytest

import vbagg
from vbagg.report.texts import LANGUAGES, SCRIPTED, Texts, texts_in

SOURCE = Path(vbagg.__file__).parent
ASKED = re.compile(r"""\bsay\(\s*f?["'](\w+)\.([\w{}()". \[\],-]+?)["']""")

CHOSEN = re.compile(r"""\belse (?:say\()?"(\w+)\.(\w+)\"""")
"""The second of two texts that are chosen among."""


def asked():
    """Section and name of every text in the code; parts that are only known at work are wild."""
    places = [*SOURCE.glob("workflow/report_page/*.py"), *(SOURCE / "report").rglob("*.html")]
    places += [path for path in (SOURCE / "report").rglob("*.js") if "vendor" not in path.parts]
    for path in places:
        for section, name in ASKED.findall(path.read_text(encoding="utf-8")):
            yield path.name, section, re.sub(r"\\\{[^}]*\}", r"\\w+", re.escape(name))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_that_is_asked_for_is_there(language):
    entries, found = texts_in(language).entries, list(asked())
    assert len(found) > 60
    for place, section, pattern in found:
        assert any(re.fullmatch(pattern, name) for name in entries[section]), (place, section, pattern)


def test_every_text_is_asked_for():
    patterns = [(section, pattern) for _, section, pattern in asked()]
    patterns += CHOSEN.findall("".join(path.read_text() for path in SOURCE.glob("workflow/report_page/*.py")))
    for section, names in texts_in().entries.items():
        for name in names:
            assert any(section == own and re.fullmatch(pattern, name) for own, pattern in patterns), (section, name)


def places(template):
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


@pytest.mark.parametrize("language", LANGUAGES)
def test_languages_have_the_same_texts_with_the_same_places(language):
    own, english = texts_in(language).entries, texts_in().entries
    assert {section: set(names) for section, names in own.items()} == {s: set(names) for s, names in english.items()}
    for section, names in english.items():
        for name, template in names.items():
            other = own[section][name]
            forms = template if isinstance(template, dict) else {"": template}
            others = other if isinstance(other, dict) else {"": other}
            assert set(forms) == set(others)
            for form in forms:
                assert places(others[form]) == places(forms[form]), (section, name)


def test_forms_follow_the_number():
    texts = Texts("en", {"a": {"b": {"one": "{n} day of {all}", "other": "{n} days of {all}"}, "c": "{x}"}})
    assert texts("a.b", n=1, all="3") == "1 day of 3"
    assert texts("a.b", n=1200, all="3") == "1,200 days of 3"
    assert texts("a.c", x="{y}") == "{y}"


def test_words_are_others_wherever_they_stand():
    texts = Texts("en", {"a": {"b": {"one": "{n} day", "other": "{n} days"}, "c": "Days of {x}"}, "d": {"e": "A day"}})
    other = texts.with_words({"day": "night", "Day": "Night"})
    assert [other("a.b", n=1), other("a.b", n=3), other("a.c", x="day"), other("d.e")] == [
        "1 night", "3 nights", "Nights of day", "A night",
    ]  # fmt: skip
    assert texts("d.e") == "A day"


def test_scripts_have_the_texts_that_they_ask_for():
    scripts = [section for place, section, _ in asked() if place.endswith(".js")]
    assert set(scripts) == set(SCRIPTED)
    assert set(texts_in().scripted) == set(SCRIPTED)


def test_an_unknown_language_is_refused():
    with pytest.raises(ValueError, match="`language` must be one of 'en'; got 'de'"):
        texts_in("de")
