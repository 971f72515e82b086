/* SPDX-License-Identifier: Apache-2.0
 * session.h: what every connection to PostgreSQL sets, and verifies afterwards. Nothing is left to the defaults of the role, the database or the
 * server, and nothing travels as startup options, which poolers drop (docs/protocol.md, sessions). */
#pragma once
#include "buf.h"

/* The statement that sets all of it and answers with one row: the server process. `more`: settings of one connection, as name=value words. It must be
 * a transaction of its own: what a transaction is like is decided when it begins. */
void session_write_set(struct buf *sql, const char *more);
/* The statement of a later transaction that answers with one row: the server process, and what is not as it must be (NULL: all is), as text. */
void session_write_verify(struct buf *sql, const char *more);
