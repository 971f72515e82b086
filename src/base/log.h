/* SPDX-License-Identifier: Apache-2.0
 * log.h: one JSON object a line on standard error, or wherever log_to says; the fields are those of mission §16.1.
 *
 *     struct log_line l = log_event(LEVEL_ERROR, "order_create_failed");
 *     log_str(&l, "reservation_id", rsv);
 *     log_end(&l);
 *
 * With log_writer_start a thread of its own writes, out of a bounded ring: whoever logs never waits for whoever reads, and lines that do not fit are counted
 * (seckill_log_dropped_total) and told later. Without it, as in verbs that talk to a person, a line is written at once.
 *
 * A line below the level set costs a comparison. A line is at most 4 KiB: what does not fit is cut, and says so. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "buf.h"

enum severity { LEVEL_DEBUG, LEVEL_INFO, LEVEL_WARN, LEVEL_ERROR, LEVEL_FATAL };

struct log_line {
    bool on;
    struct buf text;
    char memory[4096];
};

void log_level_set(enum severity least);
bool log_level_parse(struct str name, enum severity *out);
void log_role_set(const char *role);    /* a static text that goes into every line; NULL: none */
void log_to(int fd);

#define LOG_RING_BYTES (1 << 20)
/* From now on a thread writes. Once in a process, before other threads log. */
void log_writer_start(void);
/* Waits for what is still in the ring to be written, `ms` at most; what is logged afterwards is thrown away if it was not, else written at once. Any thread;
 * without a writer it does nothing. */
void log_writer_stop(uint32_t ms);
/* Writes to a descriptor that may be a full pipe: waits `ms` at most for room each time, and then gives up. */
void log_write_bounded(int fd, const char *bytes, size_t n, uint32_t ms);

struct log_line log_event(enum severity level, const char *event);
void log_str(struct log_line *l, const char *key, struct str value);
void log_text(struct log_line *l, const char *key, const char *value);
void log_i64(struct log_line *l, const char *key, int64_t value);
void log_bool(struct log_line *l, const char *key, bool value);
void log_end(struct log_line *l);

/* Of what may come by the thousand only so many lines a second are told; all zero to begin with. */
struct log_ration {
    uint64_t since_us;    /* when the second began */
    uint32_t told;        /* in it */
    uint64_t untold;      /* since the last line that was told: a member of the next one, log_untold */
};
/* Whether this line may be told, at `now_us` of a clock that does not jump. False: it is counted. */
bool log_ration_take(struct log_ration *r, uint64_t now_us, uint32_t a_second);
/* Says how many lines like this one were not told since the last that was, where any were. */
void log_untold(struct log_line *l, struct log_ration *r);
