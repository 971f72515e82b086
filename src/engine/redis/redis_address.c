/* SPDX-License-Identifier: Apache-2.0 */
#include "redis_address.h"

static struct str before(struct str *s, char mark, bool last)
{
    const char *at = s->len == 0 ? NULL : last ? memrchr(s->ptr, mark, s->len) : memchr(s->ptr, mark, s->len);
    if (!at)
        return (struct str){0};
    struct str head = str_range(s->ptr, at);
    *s = str_range(at + 1, s->ptr + s->len);
    return head.len > 0 ? head : (struct str){"", 0};
}

static bool copied(struct str s, char *out, size_t cap)
{
    if (s.len >= cap || (s.len > 0 && memchr(s.ptr, 0, s.len)))
        return false;
    if (s.len > 0)
        memcpy(out, s.ptr, s.len);
    out[s.len] = 0;
    return true;
}

static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1; }

static bool unescaped(struct str s, char *out, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            int high = i + 2 < s.len ? hex(s.ptr[i + 1]) : -1, low = i + 2 < s.len ? hex(s.ptr[i + 2]) : -1;
            if (high < 0 || low < 0 || high + low == 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (n + 1 >= cap || c == 0)
            return false;
        out[n++] = c;
    }
    out[n] = 0;
    return true;
}

static bool number(struct str s, uint64_t most, uint64_t *out) { return str_to_u64(s, out) && *out <= most; }

static bool host_and_port(struct str s, struct redis_address *out)
{
    struct str host = s, port = str_lit("6379");
    if (s.len > 0 && s.ptr[0] == '[') {
        struct str rest = {s.ptr + 1, s.len - 1};
        host = before(&rest, ']', false);
        if (!host.ptr || (rest.len > 0 && rest.ptr[0] != ':'))
            return false;
        if (rest.len > 0)
            port = (struct str){rest.ptr + 1, rest.len - 1};
    } else {
        struct str rest = s, head = before(&rest, ':', true);
        if (head.ptr)
            host = head, port = rest;
    }
    uint64_t n;
    static const char never[] = ",;/?#@ []";    /* of a host: a list of servers is none */
    for (size_t i = 0; i < host.len; i++)
        if (memchr(never, host.ptr[i], sizeof never - 1))
            return false;
    return host.len > 0 && number(port, 65535, &n) && n > 0 && copied(host, out->host, sizeof out->host) &&
           copied(port, out->port, sizeof out->port);
}

bool redis_address_parse(struct str url, struct redis_address *out)
{
    *out = (struct redis_address){0};
    if (str_starts(url, str_lit("unix:"))) {
        out->local = true;
        struct str path = {url.ptr + 5, url.len - 5};
        return path.len > 0 && path.ptr[0] == '/' && copied(path, out->host, 104);    /* what sockaddr_un holds anywhere */
    }
    if (!str_starts(url, str_lit("redis://")))
        return false;
    struct str rest = {url.ptr + 8, url.len - 8};
    struct str who = before(&rest, '@', true);
    if (who.ptr) {
        struct str user = before(&who, ':', false);
        if (!user.ptr || !unescaped(user, out->user, sizeof out->user) || !unescaped(who, out->password, sizeof out->password))
            return false;
    }
    struct str place = before(&rest, '/', false), db = rest;
    if (!place.ptr)
        place = rest, db = (struct str){0};
    uint64_t n = 0;
    if (db.len > 0 && !number(db, 65535, &n))
        return false;
    out->db = (uint32_t)n;
    return host_and_port(place, out);
}
