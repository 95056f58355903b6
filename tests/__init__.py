"""The tests. All processes that they start keep what Python compiled, whatever the machine says."""

import os
import sys

# Where it is not to be kept, as in many containers, each process compiles two thousand modules.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    sys.dont_write_bytecode = False
