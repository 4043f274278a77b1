"""Run benchmarks and print one table: all of them, or those named.

python -m benchmarks [NAME ...]
"""

import sys
from importlib import import_module

from benchmarks.measure import Row

NAMES = (
    "training",
    "growth",
    "domain_penalties",
    "calibration",
    "peers",
    "scale",
    "tables",
    "forests",
    "commands",
    "study",
    "image_training",
    "image_memory",
)


def main(names: list[str]) -> None:
    """Measure and print."""
    unknown = set(names) - set(NAMES)
    if unknown:
        sys.exit(f"no benchmark is named {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}.")
    print(f"{'what':<110} {'measured':>10} {'wanted':>10}")
    for name in names or NAMES:
        for row in import_module(f"benchmarks.{name}").rows():
            print(_line(row), flush=True)


def _line(row: Row) -> str:
    return f"{row.what:<110} {row.measured:>10} {row.wanted:>10}"


main(sys.argv[1:])
