"""``python -m vbagg``: the command line."""

import sys

from vbagg.cli import main

if __name__ == "__main__":
    sys.exit(main())
