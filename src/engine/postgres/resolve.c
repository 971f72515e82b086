/* SPDX-License-Identifier: Apache-2.0 */
#include "resolve.h"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "check.h"

#define NAME_MAX_BYTES 256
#define ADDRESSES_MAX 8

struct resolve {
    uv_getaddrinfo_t request;
    resolved *done;    /* NULL: nobody waits any more */
    void *arg;
    char host[NAME_MAX_BYTES];
};

static bool is_name(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    return host[0] != '\0' && host[0] != '/' && host[0] != '@' && strchr(host, ',') == NULL && strchr(host, '%') == NULL &&
           inet_pton(AF_INET, host, &v4) != 1 && inet_pton(AF_INET6, host, &v6) != 1 && strlen(host) < NAME_MAX_BYTES;
}

/* The one host name in it, if there is one that has to be looked up. */
static bool name_in(const char *url, char *name)
{
    PQconninfoOption *all = PQconninfoParse(url, NULL);
    bool addressed = false;
    name[0] = '\0';
    for (const PQconninfoOption *o = all; o && o->keyword; o++) {
        bool given = o->val && o->val[0] != '\0';
        addressed |= given && strcmp(o->keyword, "hostaddr") == 0;
        if (given && strcmp(o->keyword, "host") == 0 && is_name(o->val))
            memcpy(name, o->val, strlen(o->val) + 1);
    }
    PQconninfoFree(all);
    return name[0] != '\0' && !addressed;
}

static void add(struct buf *list, const char *word)
{
    if (list->len > 0)
        buf_add_char(list, ',');
    buf_add_str(list, str_of(word));
}

static void tell(struct resolve *r, int status, const struct addrinfo *found)
{
    char hosts[ADDRESSES_MAX * NAME_MAX_BYTES], addresses[ADDRESSES_MAX * NI_MAXHOST], one[NI_MAXHOST];
    struct buf host_list = buf_fixed(hosts, sizeof hosts - 1), address_list = buf_fixed(addresses, sizeof addresses - 1);
    size_t count = 0;
    for (const struct addrinfo *at = found; at && count < ADDRESSES_MAX; at = at->ai_next) {
        if (getnameinfo(at->ai_addr, at->ai_addrlen, one, sizeof one, NULL, 0, NI_NUMERICHOST) != 0)
            continue;
        add(&host_list, r->host);
        add(&address_list, one);
        count++;
    }
    check(buf_ok(&host_list) && buf_ok(&address_list));
    hosts[host_list.len] = addresses[address_list.len] = '\0';
    if (count > 0)
        r->done(r->arg, hosts, addresses, NULL);
    else
        r->done(r->arg, NULL, NULL, status != 0 ? uv_strerror(status) : "the name has no address");
}

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct resolve *r = request->data;
    if (r->done)
        tell(r, status, found);
    uv_freeaddrinfo(found);
    free(r);
}

struct resolve *resolve_start(uv_loop_t *loop, const char *url, resolved *done, void *arg)
{
    char name[NAME_MAX_BYTES];
    if (!name_in(url, name))
        return NULL;
    struct resolve *r = calloc(1, sizeof *r);
    check(r != NULL);
    *r = (struct resolve){.request.data = r, .done = done, .arg = arg};
    memcpy(r->host, name, sizeof r->host);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    if (uv_getaddrinfo(loop, &r->request, on_found, r->host, NULL, &hints) != 0) {
        free(r);
        return NULL;
    }
    return r;
}

void resolve_forget(struct resolve *r)
{
    if (!r)
        return;
    r->done = NULL;
    uv_cancel((uv_req_t *)&r->request);    /* too late for one that is being looked up now */
}
