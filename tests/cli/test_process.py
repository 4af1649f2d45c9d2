"""What a command decides for its process, and a call from a host program does not."""

import gc
import subprocess
import sys

import pytest

from vbagg.cli import main

TOLD = """
import gc, sys
from vbagg.cli import main
sys.argv = ["vbagg", "--version"]
main()
print(gc.get_threshold())
"""


def test_a_command_looks_for_garbage_rarely():
    done = subprocess.run([sys.executable, "-c", TOLD], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "(100000, 50, 50)"


LEFT = """
import atexit, gc, sys

class Told:
    def __del__(self):
        print("searched")

told = Told()
told.itself = told
atexit.register(lambda: globals().pop("told") and None)
from vbagg.cli import main
if len(sys.argv) > 1:
    main()
"""


@pytest.mark.parametrize("arguments", [["--version"], []], ids=["a command", "a host program"])
def test_a_command_ends_without_a_last_search_for_garbage(arguments):
    done = subprocess.run([sys.executable, "-c", LEFT, *arguments], check=True, capture_output=True, text=True)
    assert ("searched" in done.stdout) == (not arguments)


def test_a_host_program_keeps_its_settings(capsys):
    before = gc.get_threshold()
    main(["--version"])
    assert gc.get_threshold() == before


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_library_without_heaps_to_limit_is_no_error(monkeypatch, platform):
    from vbagg.cli import process

    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(process.sys, "platform", platform)
    monkeypatch.setattr(process.ctypes, "CDLL", missing)
    monkeypatch.setattr(process.gc, "set_threshold", lambda *numbers: None)
    process.settle()
