/* SPDX-License-Identifier: Apache-2.0
 * codec.h: the bytes of RocketMQ's remoting protocol, and nothing else: no sockets, no memory of its own, no clock.
 *
 *   frame     length 4 | kind 1, header length 3 | header | body          all integers big endian
 *   header    binary (kind 1), which we write, or JSON (kind 0), which brokers answer with; both are read
 *   batch     items, one behind the other, each with its own properties   body of SEND_BATCH
 *   stored    messages as the broker keeps them                           body of PULL
 *
 * Every length is checked against what is there. What is read points into the bytes given, which JSON texts are unescaped in. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "buf.h"
#include "str.h"

enum request_code {
    CODE_PULL = 11, CODE_UPDATE_OFFSET = 15, CODE_CREATE_TOPIC = 17, CODE_MAX_OFFSET = 30, CODE_MIN_OFFSET = 31, CODE_HEART_BEAT = 34,
    CODE_UNREGISTER = 35, CODE_ROUTE = 105, CODE_CLUSTER = 106, CODE_CREATE_GROUP = 200, CODE_SEND = 310, CODE_SEND_BATCH = 320,
    CODE_TOPIC_CONFIG = 351, CODE_GROUP_CONFIG = 352
};
enum response_code {
    ANSWER_SUCCESS = 0, ANSWER_SYSTEM_ERROR = 1, ANSWER_SYSTEM_BUSY = 2, ANSWER_NOT_SUPPORTED = 3, ANSWER_FLUSH_DISK_TIMEOUT = 10,
    ANSWER_SLAVE_NOT_AVAILABLE = 11, ANSWER_FLUSH_SLAVE_TIMEOUT = 12, ANSWER_MESSAGE_ILLEGAL = 13, ANSWER_SERVICE_NOT_AVAILABLE = 14,
    ANSWER_NO_PERMISSION = 16, ANSWER_TOPIC_NOT_EXIST = 17, ANSWER_PULL_NOT_FOUND = 19, ANSWER_PULL_RETRY = 20, ANSWER_PULL_OFFSET_MOVED = 21,
    ANSWER_GROUP_NOT_EXIST = 26, ANSWER_INVALID_PARAMETER = 29, ANSWER_FLOW_CONTROL = 215, ANSWER_NOT_LEADER = 501, ANSWER_GO_AWAY = 1500
};

/* ---- frames ------------------------------------------------------------------------------------------------------------ */

#define FRAME_MAX 16777216u       /* the servers' own limit, length field included */
#define FRAME_FIELDS_MAX 32       /* a header with more is refused */
#define FRAME_FLAG_ANSWER 1       /* in frame.flag */
#define FRAME_FLAG_ONEWAY 2

struct field {
    struct str key, value;
};
struct frame {
    int32_t code, version, opaque, flag;
    struct str remark;
    struct field fields[FRAME_FIELDS_MAX];
    size_t field_count;
    struct str body;
};

/* Looks at the first bytes: true and the frame's whole size, or 0 where fewer than 4 bytes are there to tell; false: no frame at all. */
bool frame_size(struct str bytes, size_t *size);
/* Reads one whole frame. False when it is malformed anywhere. Writes into the bytes. */
bool frame_decode(char *bytes, size_t size, struct frame *out);
/* The value of a field; the empty text where there is none. */
struct str frame_field(const struct frame *f, const char *key);
bool frame_field_i64(const struct frame *f, const char *key, int64_t *out);    /* false: not there, or not a number */

/* Writing: begin, fields, body (added to the same buf by whoever likes), end. Header binary; the opaque is patched in later. */
struct frame_writer {
    struct buf *out;
    size_t start, fields, body;
};
struct frame_writer frame_begin(struct buf *out, int code, int32_t flag);
void frame_add(struct frame_writer *w, const char *key, struct str value);    /* nothing where the value is empty: brokers read that as null */
void frame_add_i64(struct frame_writer *w, const char *key, int64_t value);
void frame_body(struct frame_writer *w);                                      /* the header is complete; the body follows */
void frame_end(struct frame_writer *w);                                       /* fills the lengths in */
/* Writes the opaque into the finished frame at `frame`. */
void frame_set_opaque(char *frame, int32_t opaque);

/* ---- properties: name 0x01 value 0x02 ... ------------------------------------------------------------------------------- */

#define PROPERTIES_MAX 32000      /* 32767, and the broker adds some of its own */

bool property_fits(struct str value);                                          /* holds neither 0x01 nor 0x02 */
void property_add(struct buf *out, const char *name, struct str value);        /* nothing where the value is empty */
struct str property_find(struct str properties, const char *name);             /* the last one; empty where there is none */

/* ---- batch items -------------------------------------------------------------------------------------------------------- */

#define BATCH_ITEM_OVERHEAD 22
void batch_item(struct buf *out, struct str body, struct str properties);
/* The parts of an item written by batch_item. */
void batch_item_parts(struct str item, struct str *body, struct str *properties);

/* ---- stored messages ---------------------------------------------------------------------------------------------------- */

struct stored {
    int32_t queue, flag, system_flag, reconsumed;
    int64_t offset, physical, born_ms, stored_ms;
    struct str topic, body, properties;
    bool intact;    /* the body's checksum holds */
};
enum stored_step { STORED_ONE, STORED_END, STORED_BAD };
/* The next message of a body of several; moves `rest` on. */
enum stored_step stored_next(struct str *rest, struct stored *out);

uint32_t crc32_of(struct str bytes);    /* CRC-32 as zlib has it */
