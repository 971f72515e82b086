# SPDX-License-Identifier: Apache-2.0
"""What is judged by the clock, on one sale and a machine without neighbours: of rollback.py the planned restart, resold.py and backlog.py.

Each can be run by itself too."""
import sys

sys.dont_write_bytecode = True    # the checkout stays clean

import backlog
import resold
import rollback
from sale import Sale, tell

if __name__ == "__main__":
    sys.exit(tell(Sale(), rollback.ALONE + resold.STORIES + backlog.STORIES))
