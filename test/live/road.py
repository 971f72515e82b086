# SPDX-License-Identifier: Apache-2.0
"""The road on real servers: one sale, many stories (road_*.py). Which of them: their words on the command line, else all."""
import sys

sys.dont_write_bytecode = True    # the checkout stays clean

import road_buy
import road_http
import road_plant
from sale import Sale, tell

CHAPTERS = [road_buy, road_http, road_plant]

if __name__ == "__main__":
    stories = [story for chapter in CHAPTERS for story in chapter.STORIES]
    wanted = [s for s in stories if s.__name__ in sys.argv[1:]] if len(sys.argv) > 1 else stories
    sys.exit(tell(Sale(), wanted))
