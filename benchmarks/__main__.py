"""Run every benchmark and print one table."""

from benchmarks import calibration, study, tables, training
from benchmarks.measure import Row


def main() -> None:
    """Measure and print."""
    print(f"{'what':<78} {'measured':>10} {'wanted':>10}")
    for rows in (training.rows, calibration.rows, tables.rows, study.rows):
        for row in rows():
            print(_line(row), flush=True)


def _line(row: Row) -> str:
    return f"{row.what:<78} {row.measured:>10} {row.wanted:>10}"


main()
