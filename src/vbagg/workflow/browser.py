"""A browser of the machine, which writes pages as PDF."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from vbagg.errors import BrowserError

NAMED_BY = "VBAGG_BROWSER"
"""Environment variable with the browser's path or name."""
NAMES = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    *("microsoft-edge", "microsoft-edge-stable", "msedge"),
)
MAC = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
WINDOWS = (r"Google\Chrome\Application\chrome.exe", r"Microsoft\Edge\Application\msedge.exe")
OPTIONS = (
    *("--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"),
    *("--disable-component-update", "--disable-extensions", "--no-pdf-header-footer"),
    # the page draws its maps before this much of its own time has passed, however long that takes
    "--virtual-time-budget=20000",
)
SANDBOXES = ((), ("--no-sandbox",))
"""The sandbox does not start for root, nor in many containers; pages are our own, and ask for nothing."""
PATIENCE = 600.0
"""Seconds."""


def find_browser() -> str:
    """The browser that is named, or one of the usual names and places.

    Raises
    ------
    BrowserError
        If there is none.
    """
    named = os.environ.get(NAMED_BY)
    if named:
        found = shutil.which(named)
        if found is None:
            raise BrowserError(f"{NAMED_BY} must name a browser; got {named!r}, which is none. Correct it or unset it.")
        return found
    for place in (*NAMES, *_usual_places()):
        if (found := shutil.which(place)) is not None:
            return found
    raise BrowserError(
        "`pdf` needs Chromium, Chrome or Edge, and none was found. Install one, name it by the environment variable "
        f"{NAMED_BY}, or leave out `--pdf` and print the page from any browser."
    )


def write_pdf(browser: str, page: Path, target: Path) -> Path:
    """Print a page as a browser does.

    Raises
    ------
    BrowserError
        If the browser writes nothing.
    """
    said = ""
    for sandbox in SANDBOXES:
        with TemporaryDirectory(prefix="vbagg-", ignore_cleanup_errors=True) as profile:
            command = [browser, *OPTIONS, *sandbox, f"--user-data-dir={profile}", f"--print-to-pdf={target.absolute()}"]
            try:
                done = subprocess.run(
                    [*command, page.absolute().as_uri()],
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=PATIENCE,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise BrowserError(f"{browser} could not print {page.name}: {error}. Leave out `--pdf`.") from error
        if target.is_file() and target.stat().st_size > 0:
            return target
        said = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}"
    raise BrowserError(
        f"{browser} wrote no PDF of {page.name}: {said}. Name another by {NAMED_BY}, or leave out `--pdf`."
    )


def _usual_places() -> Iterator[str]:
    """Where browsers are that no name leads to, on a Mac and on Windows."""
    yield from MAC
    folders = [os.environ.get(name) for name in ("PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA")]
    yield from (str(Path(folder) / part) for folder in folders if folder for part in WINDOWS)
