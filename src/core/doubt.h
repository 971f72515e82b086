/* SPDX-License-Identifier: Apache-2.0
 * doubt.h: the buckets whose undecided answers are not believed without the ledger for a while (docs/protocol.md, section 12). A bucket is doubted when a
 * client was shown a verdict that the bucket does not hold, or when the bucket has lost data. Doubt is kept per bucket, so that trouble in one sale costs the
 * other sales no ledger reads. The table has a fixed size; where it is full, every bucket is doubted until then. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define DOUBT_SLOTS 1024    /* a power of two */

struct doubt_slot {
    uint32_t key;           /* 0: free */
    uint64_t until_us;
};
struct doubt_table {
    struct doubt_slot slots[DOUBT_SLOTS];
    uint64_t all_until_us;  /* every bucket is doubted until then: the table was full */
};

/* `activity`: the activity's number. Times are monotonic microseconds. A later `until_us` extends, an earlier one changes nothing. */
void doubt_add(struct doubt_table *, uint16_t activity, uint8_t bucket, uint64_t now_us, uint64_t until_us);
bool doubt_holds(const struct doubt_table *, uint16_t activity, uint8_t bucket, uint64_t now_us);
