"""Run every benchmark and print one table."""

from benchmarks import calibration, domain_penalties, image_memory, image_training, study, tables, training
from benchmarks.measure import Row


def main() -> None:
    """Measure and print."""
    print(f"{'what':<100} {'measured':>10} {'wanted':>10}")
    for module in (training, domain_penalties, calibration, tables, study, image_training, image_memory):
        for row in module.rows():
            print(_line(row), flush=True)


def _line(row: Row) -> str:
    return f"{row.what:<100} {row.measured:>10} {row.wanted:>10}"


main()
