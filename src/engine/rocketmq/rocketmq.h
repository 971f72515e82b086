/* SPDX-License-Identifier: Apache-2.0
 * rocketmq.h: port/bus.h as Apache RocketMQ 5 carries it, spoken natively over its remoting protocol.
 *
 * One bus belongs to one loop and is used from that loop's thread alone; open as many as there are loops. What the port says, and:
 *   send    what is given within one turn of the loop goes out together, as few batches to few queues. Under load batches grow by
 *           themselves: a broker has at most `batches` of ours under way, and what comes meanwhile waits for the next. A send
 *           whose waiter has gone (TIMED_OUT) stays under way; its answer is dropped. What is still waiting at its deadline was
 *           never sent (fate RETRY). While its brokers are away a send fails at once: who tries again should rest a little.
 *   pull    a wait may last up to 5 s longer than wait_ms (brokers look at the clock that seldom); leave budget_ms 0 for a deadline
 *           that fits. A message whose checksum fails is handed over with an empty body, and logged: skipping it is not ours to
 *           decide. With OFFSET_MOVED comes an answer too: min, max and, as next, where the broker would go on.
 *   create  leaves what exists as it is, whatever its number of queues. Asks every broker that is there now. */
#pragma once
#include <uv.h>

#include "bus.h"

struct rocketmq_options {         /* texts are copied */
    uv_loop_t *loop;
    struct str name_servers;      /* "host:port", with ; or , between several */
    struct str group;             /* consumer group of pull and mirror; empty: this bus only sends */
    const struct str *topics;     /* shown to the broker's tools as subscribed; their routes are asked for at once */
    size_t topic_count;           /* ≤ 16 */
    struct str producer_group;    /* empty: "seckill" */
    uint32_t send_ms;             /* how long a send may be under way; 0: 7000. Never below the broker's syncFlushTimeout */
    uint32_t ask_ms;              /* the same for every other call; 0: 3000 */
    uint32_t drain_ms;            /* how long close waits for sends; 0: 3000 */
    uint32_t batch_window_us;     /* how long the first message may wait for company; 0: until the end of the turn */
    uint32_t batches;             /* under way at one broker; 0: 2, one that is written to disk and one that waits for it */
    size_t in_flight;             /* messages not yet answered, in all; 0: 32768; beyond: OVERLOADED */
};

/* NULL: no name server can be read from the options, or no memory. Connects by itself, then and later. */
struct bus *rocketmq_open(const struct rocketmq_options *);
/* Refuses new calls (OVERLOADED), ends all that wait but sends, gives sends drain_ms, says goodbye to the brokers, lets go of the loop; then calls
 * `closed` (may be NULL) from the loop. The bus is gone after that. */
void rocketmq_close(struct bus *, void (*closed)(void *), void *arg);
