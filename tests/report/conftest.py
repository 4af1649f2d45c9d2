"""A headless browser for the report, which fails the test on a console message or an outside request."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_report import shown, small_report

from vbagg.report import write_report

EXECUTABLES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    executable = next(filter(None, map(shutil.which, EXECUTABLES)), None)
    if executable is None:
        message = f"no browser: none of {', '.join(EXECUTABLES)} is on PATH; install chromium to test the report"
        if os.environ.get("VBAGG_BROWSER_REQUIRED") == "1":
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a file; at the end, there must have been no message, no error and no request but for the file."""
    contexts, faults = [], []

    def opened(path: Path, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        allowed = (path.as_uri(), "data:")
        page.on("request", lambda request: faults.extend(outside(request.url, allowed)))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []


def outside(url: str, allowed: tuple[str, ...]) -> list[str]:
    return [] if url.startswith(allowed) else [url]


@pytest.fixture
def page(visit: Callable[..., Any], report_file: Path) -> Any:
    return shown(visit(report_file))


@pytest.fixture(scope="session")
def report_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return write_report(folder / "report.html", small_report(folder))
