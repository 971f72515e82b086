/* SPDX-License-Identifier: Apache-2.0
 * message.h: the CreateOrderMessage of mission §11.1 with `epoch`, as JSON and back. A reader takes any order of members, ignores the ones
 * it does not know, and refuses a schema_version above ours. Ids are strings and stay as they came, digits and all. */
#pragma once
#include "arena.h"
#include "buf.h"
#include "ident.h"
#include "terms.h"

#define MESSAGE_SCHEMA 1
#define MESSAGE_BODY_MAX 4096
#define MESSAGE_TOPIC "seckill-create-order"
#define MESSAGE_GROUP "seckill-order"

/* The message of a reservation. `entry` must hold a unit. The texts of the ids are written into `ids`, which must live as long as the result. */
struct message_ids {
    char reservation[IDENT_ID_TEXT], message[IDENT_ID_TEXT];
};
struct create_order message_of(struct bucket, struct str user, const struct entry *entry, struct str trace, struct message_ids *ids);

/* Sets the mark: a keyed hash of every member, under the first key. Whoever can write to the broker but has no key can make no message that becomes an order. */
void message_seal(const struct ident_keys *, struct create_order *);
/* Whether the reservation's id and the mark were made with keys that we hold, over exactly this content. The same work whatever it finds. */
bool message_genuine(const struct ident_keys *, const struct create_order *);

/* With its mark, where it has one. */
void message_write(struct buf *, const struct create_order *);
/* OK, MESSAGE_TOO_NEW, MESSAGE_UNREADABLE. The texts of *out live in the arena (a full one: MESSAGE_UNREADABLE, so give 1 KiB). Beside the
 * shape it asks that the reservation's and the message's names are well-formed, and of one id. */
enum reason message_read(struct str body, struct arena *, struct create_order *out);
