"""Texts of pages: every one that is asked for is there in every language, and every place in it is filled."""

import re
import string
from datetime import date
from pathlib import Path

import pytest

import vbagg
from vbagg.language import ENGLISH, LANGUAGES, written_in
from vbagg.report.glossary import words_in
from vbagg.report.texts import SCRIPTED, scripted
from vbagg.texts import Texts, entries_of, texts_in

SOURCE = Path(vbagg.__file__).parent
OTHERS = [language for language in LANGUAGES if language != ENGLISH]
ASKED = re.compile(
    r"""(?:\bsay|\bself|\btexts_in\(\))\(\s*(?:[^"'()]*\?\s*)?f?["'](\w+)\.([\w{}()". \[\],'-]+?)["']\s*[,)~ ]"""
)
CHOSEN = re.compile(r"""(?:\belse|:) (?:say\()?"(\w+)\.(\w+)\"""")
"""The second of two texts that are chosen among."""
NEVER_ASKED = ("nouns", "dates")
"""Sections whose entries are looked up."""


def sources():
    for kind in ("*.py", "*.html", "*.js"):
        yield from (path for path in SOURCE.rglob(kind) if "vendor" not in path.parts)


def asked():
    """Section and name of every text in the code; parts that are only known at work are wild."""
    for path in sources():
        text = path.read_text(encoding="utf-8")
        for section, name in (*ASKED.findall(text), *CHOSEN.findall(text)):
            if section in texts_in().entries:
                name += "{}" if name.endswith("_") else ""
                yield path.name, section, re.sub(r"\\{[^}]*\\}", r"\\w+", re.escape(name))


def test_every_text_that_is_asked_for_is_there():
    entries, found = texts_in().entries, list(asked())
    assert len(found) > 250
    for place, section, pattern in found:
        assert any(re.fullmatch(pattern, name) for name in entries[section]), (place, section, pattern)


def test_every_text_is_asked_for():
    patterns = [(section, pattern) for _, section, pattern in asked()]
    for section, names in texts_in().entries.items():
        for name in names if section not in NEVER_ASKED else ():
            assert any(section == own and re.fullmatch(pattern, name) for own, pattern in patterns), (section, name)


def places(template):
    """Named places of a template, with how often each stands in it."""
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def forms_of(template):
    return template if isinstance(template, dict) else {"": template}


def keys(entries):
    return {f"{section}.{name}" for section, names in entries.items() for name in names}


@pytest.mark.parametrize("language", OTHERS)
def test_languages_have_the_same_texts(language):
    own, english = keys(entries_of(language)), keys(entries_of(ENGLISH))
    assert sorted(english - own) == [], f"{language}.toml lacks these"
    assert sorted(own - english) == [], f"{language}.toml has these, which en.toml has not"


@pytest.mark.parametrize("language", OTHERS)
def test_texts_have_the_same_places_and_forms_in_all_languages(language):
    for section, names in entries_of(ENGLISH).items():
        for name, template in names.items():
            other = entries_of(language)[section][name]
            if isinstance(template, list):
                assert len(other) == len(template), (section, name)
                continue
            assert forms_of(other).keys() == forms_of(template).keys(), (section, name)
            for form, text in forms_of(template).items():
                # the number one may be a word
                spelt = {"n"} if form == "one" else set()
                assert places(forms_of(other)[form]) - spelt == places(text) - spelt, (section, name, form)


@pytest.mark.parametrize("language", OTHERS)
def test_texts_are_translated(language):
    """Sentences of several words differ from the English ones."""
    own = entries_of(language)
    for section, names in entries_of(ENGLISH).items():
        for name, template in names.items():
            for form, text in forms_of(template).items() if not isinstance(template, list) else ():
                words = re.findall(r"[^\W\d]{2,}", re.sub(r"{.*?}", "", text))
                assert len(words) < 3 or forms_of(own[section][name])[form] != text, (section, name)


@pytest.mark.parametrize("language", OTHERS)
def test_words_of_the_glossary_are_explained_in_all_languages(language):
    own, english = words_in(language), words_in(ENGLISH)
    assert own.keys() == english.keys()
    for key, word in own.items():
        assert bool(word.said) == bool(english[key].said), key
        assert word.text != english[key].text
        assert word.text.endswith(".")
    forms = [form.lower() for word in own.values() for form in word.said]
    assert len(forms) == len(set(forms))


@pytest.mark.parametrize("language", OTHERS)
def test_what_is_printed_goes_with_the_type_of_the_language(language):
    """No straight quotation marks, and no-break spaces where lines shall not end."""
    french = language == "fr"
    for section, names in entries_of(language).items():
        for name, template in names.items():
            for text in forms_of(template).values() if not isinstance(template, list) else ():
                assert '"' not in text, (section, name)
                if french:
                    assert not re.search(r" [:;?!»%]|« ", text), (section, name, text)


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
    assert set(scripted(texts_in())) == {*SCRIPTED, "marks"}


def test_what_a_language_lacks_is_said_in_english(monkeypatch):
    monkeypatch.setattr(
        "vbagg.texts.entries_of",
        lambda language: {"a": {"b": "x", "c": language}} if language == "en" else {"a": {"c": "y"}},
    )
    monkeypatch.setattr("vbagg.texts._texts_in", vbagg.texts._texts_in.__wrapped__)
    say = texts_in("fr")
    assert (say("a.b"), say("a.c")) == ("x", "y")


@pytest.mark.parametrize(
    ("language", "n", "text"),
    [("en", 0, "0 a"), ("en", 1, "1 b"), ("fr", 0, "0 b"), ("fr", 1, "1 b"), ("fr", 2, "2 a"), ("es", 0, "0 a"),
     ("pt", 0, "0 a"), ("pt", 1, "1 b"), ("es", 12_345, "12\u202f345 a")],
)  # fmt: skip
def test_forms_are_those_of_the_language(language, n, text):
    assert Texts(language, {"x": {"y": {"one": "{n} b", "other": "{n} a"}}})("x.y", n=n) == text


@pytest.mark.parametrize(
    ("language", "parts", "text"),
    [("en", ["A", "B", "C"], "A, B and C"), ("fr", ["A", "B", "C"], "A, B et C"), ("pt", ["A", "B"], "A e B"),
     ("es", ["A", "B"], "A y B"), ("es", ["A", "Ibarra"], "A e Ibarra"), ("es", ["A", "Hierro"], "A y Hierro"),
     ("es", ["A", "Hinche"], "A e Hinche"), ("fr", ["A"], "A")],
)  # fmt: skip
def test_lists_end_as_the_language_has_it(language, parts, text):
    assert texts_in(language).listed(parts) == text


@pytest.mark.parametrize(
    ("language", "text"),
    [("en", "1 November 2026"), ("fr", "1er novembre 2026"), ("es", "1 de noviembre de 2026"),
     ("pt", "1 de novembro de 2026")],
)  # fmt: skip
def test_dates_are_those_of_the_language(language, text):
    assert texts_in(language).date(date(2026, 11, 1)) == text
    assert texts_in(language).date(date(2026, 11, 23)).startswith("23 ")


def test_the_language_that_is_written_ends_with_the_block():
    found = []
    with written_in("fr"):
        found.append(texts_in().language)
        with pytest.raises(KeyError), written_in("es"):
            texts_in()("numbers.nothing")
        found.append(texts_in().language)
    assert [*found, texts_in().language] == ["fr", "fr", "en"]


@pytest.mark.parametrize("ask", [texts_in, lambda language: written_in(language).__enter__()])
def test_an_unknown_language_is_refused(ask):
    with pytest.raises(ValueError, match="`language` must be one of 'en', 'fr', 'es', 'pt'; got 'de'"):
        ask("de")
