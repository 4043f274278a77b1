"""Whether this is a campaign by hand, HYPOTHESIS_PROFILE=deep, and not the run of every day."""

import os

IS_DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
