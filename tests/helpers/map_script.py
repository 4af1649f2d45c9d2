"""The maps of a prepared and fitted run, by a process that ends itself without warning; run as a process of its own.

    python map_script.py FOLDER PIECE_ROWS PIECES

Kills itself when so many pieces are finished; 0 for never.
"""

import os
import signal
import sys
import warnings
from pathlib import Path

from vbagg.geo import answers, pieces
from vbagg.workflow.folder import SETTINGS
from vbagg.workflow.job import carry_out_stages
from vbagg.workflow.progress import showing
from vbagg.workflow.settings import read_settings


def main(folder: Path, piece_rows: int, limit: int) -> None:
    """Map."""
    warnings.simplefilter("ignore")
    pieces.PIECE_ROWS = piece_rows
    carried_out, done = answers._Task.carry_out, []

    def counted(task: answers._Task, item: answers.Item) -> answers.Done:
        if limit and len(done) == limit:
            os.kill(os.getpid(), signal.SIGKILL)
        done.append(item)
        return carried_out(task, item)

    answers._Task.carry_out = counted
    with showing(False) as shown:
        carry_out_stages(read_settings(folder / SETTINGS), folder, ("maps",), False, shown)
    print(len(done))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
