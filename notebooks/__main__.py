"""Run notebooks and write them with what they print: all, or those named, `python -m notebooks hospitals`."""

import sys

from notebooks.running import FOLDER, read, run, write

for path in [FOLDER / f"{name}.ipynb" for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")):
    write(run(read(path)), path)
