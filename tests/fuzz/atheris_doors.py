"""A campaign with atheris, by hand: bytes of any kind at doors that parse them.

    python tests/fuzz/atheris_doors.py tables -max_total_time=150
    python tests/fuzz/atheris_doors.py toml|values|skops|reports -max_total_time=150

A door answers, or refuses with an InputError of one line; everything else ends the campaign with the bytes that did it.
"""

import io
import json
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["domaincover", "tomllib"]):
    from domaincover.data.encoding import TableEncoder
    from domaincover.data.tables import open_table
    from domaincover.errors import InputError
    from domaincover.paper.collect import is_report
    from domaincover.paper.experiment import parsed
    from domaincover.saving.values import from_json, to_json

warnings.simplefilter("ignore")
FOLDER = Path(tempfile.mkdtemp())


def tables(content):
    """Read a CSV file, encode it, and encode it again in blocks."""
    path = FOLDER / "t.csv"
    path.write_bytes(content)
    table = open_table(path)
    frame = table.read()
    encoder = TableEncoder().fit(frame)
    encoder.transform(frame)
    list(table.blocks(2, text_columns=list(table.columns)))


def toml(content):
    """Parse an experiment."""
    parsed(content.decode("utf-8", "replace"), "name", "place.toml")


def values(content):
    """Read a value of a saved model, and write it again."""
    try:
        plain = json.loads(content)
    except (ValueError, RecursionError):
        return
    try:
        value = from_json(plain)
    except InputError:
        raise
    except Exception:  # `load` tells of all of these in one line, as it does not know what a forger wrote
        return
    to_json(value)


def skops(content):
    """Look for types that are not trusted in an archive with any schema."""
    from domaincover.saving.sklearn_parts import untrusted_types

    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("schema.json", content)
    try:
        untrusted_types(written.getvalue(), [])
    except InputError:
        raise
    except Exception:  # as above
        return


def reports(content):
    """Check what may be a run's report."""
    try:
        plain = dict(json.loads(content))
    except (ValueError, TypeError, RecursionError):
        return
    is_report(plain)


DOORS = {door.__name__: door for door in (tables, toml, values, skops, reports)}


def main():
    door = DOORS[sys.argv.pop(1)]

    def one_case(content):
        try:
            door(content)
        except InputError as refused:
            if "\n" in str(refused):
                raise RuntimeError("more than one line") from refused

    atheris.Setup(sys.argv, one_case)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
