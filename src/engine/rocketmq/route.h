/* SPDX-License-Identifier: Apache-2.0
 * route.h: where a topic's queues live. Routes come from a name server (several rotate). They are asked for again every 30 s, every
 * 3 s while a broker is missing, and at once (twice a second at most) when a broker's answer or a broken connection casts doubt on
 * one. A route once known is kept when the name servers forget it: a broker that is away loses its route within moments, and its
 * messages are still there. So what was readable stays named; only writing follows the latest word. */
#pragma once
#include "list.h"
#include "peer.h"

#define TOPIC_MAX 127
#define BROKERS_MAX 32      /* of one topic (the first by name), and addresses in all */
#define TOPICS_MAX 64
#define NAME_SERVERS_MAX 8

struct rocketmq;
struct broker {             /* a broker's address; shared by the routes of all topics */
    struct peer *peer;
    struct peer_call beat;        /* heartbeat, and at the end the goodbye */
    struct rocketmq *engine;
    uint32_t batches, singles;    /* sends under way */
    bool wanted;
};
struct route_broker {
    char name[TOPIC_MAX + 1];
    struct broker *at;      /* its master; NULL: it has none now */
    int32_t readable, writable;
};
struct route_wait {
    void (*told)(struct route_wait *);
    struct link link;
};
struct routes;
struct route {
    struct routes *routes;
    char topic[TOPIC_MAX + 1];
    bool known;
    struct route_broker brokers[BROKERS_MAX];    /* in order of name */
    size_t broker_count;
    struct peer_call call;
    unsigned tries;         /* > 0: being asked for */
    uint64_t asked_us;
    struct due due;
    struct link waiting;
};
struct routes {
    struct due_table *times;
    struct peer_watch *watch;
    struct peer *servers[NAME_SERVERS_MAX];
    size_t server_count, server_turn;
    struct broker brokers[BROKERS_MAX];
    size_t broker_count;
    struct route *topics[TOPICS_MAX];
    size_t topic_count;
};

/* name_servers: "host:port", with ; or , between several. False: none of it can be read. */
bool routes_open(struct routes *r, struct due_table *times, struct peer_watch *watch, struct str name_servers);
/* All calls end, all peers and routes are gone. */
void routes_close(struct routes *r);

bool route_topic_valid(struct str topic);
/* The topic's route, being asked for when new. NULL: the topic cannot be one, or there are too many. Lives as long as the routes. */
struct route *route_of(struct routes *r, struct str topic);
/* `told` is called once, when the name servers have had their say, whatever it was; never before this returns. list_remove(&w->link) gives up. */
void route_await(struct route *r, struct route_wait *w);
void route_doubt(struct route *r);          /* ask again soon */
void routes_doubt(struct routes *r, const struct peer *p);    /* every route that leads there */
struct route_broker *route_broker(struct route *r, struct str name);    /* NULL: not of this route */
/* How many queues may be written to, in the order of brokers and numbers. */
uint32_t route_writable(const struct route *r);

/* Reads the body of a route into r, keeping of the old what the head of this file says. False: malformed, nothing changed. For peers
 * it takes brokers from r->routes. Public for the tests. */
bool route_read(struct route *r, char *body, size_t n);
/* The broker at an address, known or new; NULL: too many, or no address. */
struct broker *broker_at(struct routes *r, struct str address);
struct broker *broker_of(struct routes *r, const struct peer *p);    /* NULL: a name server */
