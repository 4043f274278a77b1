"""Whether this is a deep run, `make test-all`, and not the run of every day, `make test`."""

import os

IS_DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
