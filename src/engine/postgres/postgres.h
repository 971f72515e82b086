/* SPDX-License-Identifier: Apache-2.0
 * postgres.h: the ledger as PostgreSQL keeps it (port/ledger.h, protocol §3 and §4).
 *
 * Seven lanes (lane.def), each one connection in pipeline mode on the caller's loop, each with a bounded queue. Every
 * call is one function of *.sql, one transaction, one sync; it is done when its own sync has come with no error before it, for results
 * of a function arrive before its commit. A connection that breaks is made again with back-off; nothing is ever cancelled on the wire. */
#pragma once
#include <uv.h>

#include "ledger.h"

struct postgres_options {
    uv_loop_t *loop;
    const char *url;            /* libpq: postgresql://… or key=value; read while open, must outlive the ledger */
    const char *application;    /* application_name; NULL: seckill */
    /* A server that reports damaged data (XX001, XX002, 58030): called with the SQLSTATE. NULL: the process stops. */
    void (*damaged)(void *arg, const char *sqlstate);
    void *arg;
};

/* Begins to connect and returns at once; calls made meanwhile wait. Never NULL. */
struct ledger *postgres_open(const struct postgres_options *options);
/* Calls in flight end as if the connection had broken; calls made while they are woken are refused. Its handles close during the next turns of
 * the loop, which must be run until then (uv_loop_alive). Not to be called from within a wake of this ledger. */
void postgres_close(struct ledger *ledger);

/* Whether every lane is connected now (readiness). */
bool postgres_ready(const struct ledger *ledger);

/* A key that this process works with: what it is for, and its fingerprint (32 hexadecimal digits). */
struct postgres_key {
    const char *purpose;
    char fingerprint[33];
};
/* Whether a process with these keys may work on this database: blocking, two seconds to connect at most. OK (and keys not known yet are recorded) · CONFLICT (of some
 * purpose other keys are in use, or a session cannot be had as it must be; `why` says it) · DEPENDENCY_DOWN (cannot connect, or not migrated: nothing was judged). */
enum reason postgres_admit(const char *url, const struct postgres_key *keys, size_t count, char why[512]);

/* Brings the database to this program's schema, one migration a transaction, under an advisory lock: blocking. Locks that others hold are waited
 * for, `wait_ms` in all. `report` hears one line for each thing done, for whom it waits, or the reason of a refusal. OK · CONFLICT (a migration that was applied has another checksum now, or the database has one
 * that this program does not know) · DEPENDENCY_DOWN (cannot connect) · ENGINE_REFUSED (a statement failed) · ENGINE_BUSY (somebody held a lock too long;
 * what was applied before stays, and migrating again goes on from there). */
enum reason postgres_migrate(const char *url, uint32_t wait_ms, void (*report)(void *arg, const char *line), void *arg);
