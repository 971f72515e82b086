# SPDX-License-Identifier: Apache-2.0
"""The road on real servers: one sale, many stories (road_*.py). Which of them: their words on the command line, else all."""
import sys

sys.dont_write_bytecode = True    # the checkout stays clean

import road_archive
import road_buy
import road_http
import road_pay
import road_plant
import road_stall
from sale import Sale, tell

STORIES = road_buy.STORIES + road_pay.STORIES + road_http.STORIES + road_stall.STORIES + road_archive.STORIES + road_plant.STORIES + road_stall.LAST

if __name__ == "__main__":
    wanted = [s for s in STORIES if s.__name__ in sys.argv[1:]] if len(sys.argv) > 1 else STORIES
    sys.exit(tell(Sale(), wanted))
