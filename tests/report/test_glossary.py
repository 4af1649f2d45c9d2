import re

import pytest

from vbagg.report import Explained, Figure, Finding, Report, Section, Table
from vbagg.report.glossary import Glossary, words_in
from vbagg.report.page import page_html
from vbagg.workflow.report_page.scores import COMPARED, WRITTEN

TERM = re.compile(r'<a class="term" href="#word-(\w+)" aria-describedby="word-\1">(.*?)</a>')


def terms(markup: str) -> list[tuple[str, str]]:
    return TERM.findall(markup)


def test_every_word_has_a_title_a_meaning_and_forms_of_its_own() -> None:
    words = words_in("en").values()
    assert all(word.title and word.text.endswith(".") for word in words)
    forms = [form.lower() for word in words for form in word.said]
    assert len(forms) == len(set(forms))


def test_words_of_score_tables_are_explained() -> None:
    assert {word for word, _ in WRITTEN.values()} | set(COMPARED) <= set(words_in("en"))


def test_a_word_is_a_link_where_it_first_stands_in_a_section() -> None:
    explain = Glossary.of("en").section()
    text = explain("The CRPS, and the standard deviations of a posterior mean; CRPS again.")
    assert terms(text) == [("crps", "CRPS"), ("sd", "standard deviations"), ("posterior", "posterior")]
    assert re.sub("<.*?>", "", text) == "The CRPS, and the standard deviations of a posterior mean; CRPS again."
    assert terms(explain("Another CRPS and a quantile.")) == [("quantile", "quantile")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("probability of exceedance", [("exceedance", "probability of exceedance")]),
        ("Intervals", [("interval", "Intervals")]),
        ("better in 3 of 4, p = 0.02)", [("p", "p =")]),
        ("a linked hyperlink and subintervals", []),
        ("interval_width", []),
    ],
)
def test_whole_words_are_found_the_longest_first(text: str, found: list[tuple[str, str]]) -> None:
    assert terms(Glossary.of("en").section()(text)) == found


def test_text_around_words_is_escaped() -> None:
    text = Glossary.of("en").section()("<b>median</b> & \"quantile\" <script>alert('x')</script>")
    assert terms(text) == [("median", "median"), ("quantile", "quantile")]
    assert TERM.sub("", text) == "&lt;b&gt;&lt;/b&gt; &amp; &#34;&#34; &lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"


def test_names_that_users_gave_are_no_words() -> None:
    glossary = Glossary.of("en", ["Coverage", "rain"])
    assert terms(glossary.section()("coverage per 1000 people, with its interval")) == [("interval", "interval")]
    assert glossary.link("coverage", "<Inside>") == "&lt;Inside&gt;"
    assert [word.key for word in glossary.shown] == ["interval"]


@pytest.fixture
def page() -> str:
    blocks = [
        "One median. Another median.",
        Table(["", Explained("Constant", "constant")], [[Explained("Average error", "mae"), 3.5]], "With a quantile."),
        Finding("advice", "The likelihood & the median."),
    ]
    sections = [Section("One", "one", blocks), Section("Two", "two", ["A median here too."])]
    return page_html(Report("T", paragraph="An interval.", sections=sections))


def test_words_stand_in_texts_tables_and_findings(page: str) -> None:
    one, two = (page.split(f'<section id="{name}"')[1].split("</section>")[0] for name in ("one", "two"))
    assert [key for key, _ in terms(one)] == ["median", "quantile", "constant", "mae", "likelihood"]
    assert [key for key, _ in terms(two)] == ["median"]
    assert terms(page.split("</header>")[0]) == [("interval", "interval")]
    assert 'aria-label="With a quantile."' in one


def test_the_list_at_the_end_has_the_words_of_the_page(page: str) -> None:
    listed = page.split('<section id="words"')[1].split("</section>")[0]
    found = re.findall(r'<dt>(.*?)</dt><dd id="word-(\w+)" tabindex="-1">', listed)
    used = {"interval", "median", "quantile", "constant", "mae", "likelihood"}
    assert {key for _, key in found} == used
    assert [title for title, _ in found] == sorted((title for title, _ in found), key=str.casefold)
    assert 'href="#words"' in page.split("</nav>")[0]
    assert page.rindex('<section id="words"') > page.rindex('<section id="two"')


def test_a_page_without_words_has_no_list() -> None:
    page = page_html(Report("T", sections=[Section("One", "one", ["Nothing to explain."])]))
    assert 'id="words"' not in page
    assert 'href="#words"' not in page


def test_captions_of_figures_are_explained(tmp_path) -> None:
    from matplotlib.figure import Figure as Plot

    Plot(figsize=(1, 1)).savefig(tmp_path / "plot.png")
    figures = [
        Figure(tmp_path / "plot.png", "A median.", "alt"),
        Figure(tmp_path / "plot.png", "", "small", small=True),
    ]
    page = page_html(Report("T", sections=[Section("One", "one", figures)]))
    assert terms(page.split("<figcaption>")[1].split("</figcaption>")[0]) == [("median", "median")]
    assert page.count('<div class="figures">') == page.count('<div class="figures small">') == 1
