import os
import stat

import pytest
from small_areas import area_report

from vbagg.errors import BrowserError
from vbagg.report import write_report
from vbagg.workflow.browser import NAMED_BY, find_browser, write_pdf


def program(path, lines):
    path.write_text("#!/bin/sh\n" + lines, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return path


def test_the_named_browser_comes_first(tmp_path, monkeypatch):
    program(tmp_path / "chrome", "exit 0\n")
    named = program(tmp_path / "mine", "exit 0\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(NAMED_BY, raising=False)
    assert find_browser() == str(tmp_path / "chrome")
    monkeypatch.setenv(NAMED_BY, str(named))
    assert find_browser() == str(named)
    monkeypatch.setenv(NAMED_BY, "mine")
    assert find_browser() == str(named)


def test_no_browser_is_an_error_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("vbagg.workflow.browser._usual_places", lambda: iter(()))
    monkeypatch.delenv(NAMED_BY, raising=False)
    with pytest.raises(BrowserError, match=r"needs Chromium, Chrome or Edge.*VBAGG_BROWSER.*leave out `--pdf`"):
        find_browser()
    monkeypatch.setenv(NAMED_BY, "no-such-browser")
    with pytest.raises(BrowserError, match="VBAGG_BROWSER must name a browser; got 'no-such-browser'"):
        find_browser()


def test_a_browser_whose_sandbox_does_not_start_is_asked_without(tmp_path):
    writes = 'for o in "$@"; do case $o in --print-to-pdf=*) echo pdf > "${o#*=}";; esac; done'
    lines = f'case "$*" in *--no-sandbox*) {writes};; *) echo no sandbox >&2; exit 1;; esac\n'
    browser = program(tmp_path / "browser", lines)
    assert write_pdf(str(browser), tmp_path / "page.html", tmp_path / "page.pdf").read_text() == "pdf\n"


def test_a_browser_that_writes_nothing_is_told(tmp_path):
    browser = program(tmp_path / "browser", "echo first >&2; echo it hurts >&2; exit 1\n")
    with pytest.raises(BrowserError, match=r"browser wrote no PDF of page.html: it hurts\. Name another"):
        write_pdf(str(browser), tmp_path / "page.html", tmp_path / "page.pdf")
    with pytest.raises(BrowserError, match=r"could not print page.html"):
        write_pdf(str(tmp_path / "gone"), tmp_path / "page.html", tmp_path / "page.pdf")


def test_a_page_becomes_paper(tmp_path):
    try:
        browser = find_browser()
    except BrowserError as error:
        if os.environ.get("VBAGG_BROWSER_REQUIRED") == "1":
            raise
        pytest.skip(str(error))
    page = write_report(tmp_path / "a page #1.html", area_report())
    content = write_pdf(browser, page, tmp_path / "a page #1.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert content.count(b"/Type /Page\n") + content.count(b"/Type /Page ") >= 2
    assert len(content) > 20_000
