"""CPU time of the first fit of a process, compilation included: the default on the swiss roll of 150 bags.

    python benchmarks/first_fit.py [--out benchmarks/results/first_fit.json]

Each fit runs in a process of its own; importing the package and making the data are not counted, a second fit is
given beside the first.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from common import machine, timed, write_json


def fit_twice(link: str) -> dict[str, float | str]:
    import vbagg

    data = vbagg.datasets.swiss_roll()
    model = vbagg.VBAgg("poisson", link, kernel=vbagg.kernels.RBF())
    seconds = []
    for _ in range(2):
        with timed() as clock:
            model.fit(data.bags, data.y)
        seconds.append(clock.cpu)
    return {"link": link, "first_cpu_seconds": seconds[0], "second_cpu_seconds": seconds[1], "elbo": model.elbo_}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=None, help="fit with this link in this process and print the row")
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(fit_twice(options.only)))
        return
    rows = []
    for link in ("square", "exp"):
        command = [sys.executable, __file__, "--only", link]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows.append(json.loads(output.splitlines()[-1]))
        print(rows[-1], flush=True)
    if options.out:
        write_json(options.out, {"rows": rows, "machine": machine()})


if __name__ == "__main__":
    main()
