# SPDX-License-Identifier: Apache-2.0
"""What is judged by the clock, on one sale and a machine without neighbours: resold.py and backlog.py, which can be run by themselves too."""
import sys

sys.dont_write_bytecode = True    # the checkout stays clean

import backlog
import resold
from sale import Sale, tell

if __name__ == "__main__":
    sys.exit(tell(Sale(), resold.STORIES + backlog.STORIES))
