"""The tests. All processes that they start write bytecode, whatever the environment says."""

import os
import sys

# Without it, as in many containers, each process compiles two thousand modules.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    sys.dont_write_bytecode = False
