/* SPDX-License-Identifier: Apache-2.0 */
#include "admin_guard.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <stdio.h>

#include "check.h"

/* "name:port" or "[v6]:port" without its port; the brackets stay away. */
static struct str host_name(struct str host)
{
    if (host.len > 0 && host.ptr[0] == '[') {
        const char *shut = memchr(host.ptr, ']', host.len);
        return shut ? str_range(host.ptr + 1, shut) : (struct str){0};
    }
    const char *colon = host.len > 0 ? memchr(host.ptr, ':', host.len) : NULL;
    return colon ? str_range(host.ptr, colon) : host;
}

static bool is_ip_address(struct str name)
{
    char text[64];
    unsigned char address[16];
    if (name.len == 0 || name.len >= sizeof text)
        return false;
    snprintf(text, sizeof text, STR_FMT, STR_ARG(name));
    return inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1;
}

static bool same_name(struct str a, struct str b) { return a.len == b.len && str_eq_nocase(a, b); }

/* A browser names the host that the page named: an address cannot be taken over by a DNS answer, a name can. */
static bool host_allowed(const struct config *config, struct str host)
{
    struct str name = host_name(host), known;
    if (host.len == 0)    /* HTTP/1.0 without Host: no browser */
        return true;
    if (is_ip_address(name) || same_name(name, str_lit("localhost")))
        return true;
    for (size_t i = 0; (known = config_item(config->admin_hosts, i)).ptr; i++)
        if (same_name(name, known))
            return true;
    return false;
}

static bool origin_is_own(struct str origin, struct str host)
{
    static const struct str schemes[] = {{"http://", 7}, {"https://", 8}};    /* https: a proxy in front may end TLS */
    for (size_t i = 0; i < countof(schemes); i++)
        if (str_starts(origin, schemes[i]) && host.len > 0 && same_name((struct str){origin.ptr + schemes[i].len, origin.len - schemes[i].len}, host))
            return true;
    return false;
}

static bool from_other_origin(const struct http_request *r)
{
    for (size_t i = 0; i < r->header_count; i++) {
        const struct http_header *h = &r->headers[i];
        if (same_name(h->name, str_lit("origin")) && !origin_is_own(h->value, r->host))
            return true;
        if (same_name(h->name, str_lit("sec-fetch-site")) && !same_name(h->value, str_lit("same-origin")) && !same_name(h->value, str_lit("none")))
            return true;
    }
    return false;
}

/* "application/json", with parameters or without; said once. */
static bool says_json(const struct http_request *r)
{
    size_t met = 0, json = 0;
    for (size_t i = 0; i < r->header_count; i++) {
        struct str value = r->headers[i].value;
        if (!same_name(r->headers[i].name, str_lit("content-type")))
            continue;
        const char *semicolon = value.len > 0 ? memchr(value.ptr, ';', value.len) : NULL;
        met++;
        json += same_name(str_trim(semicolon ? str_range(value.ptr, semicolon) : value), str_lit("application/json"));
    }
    return met == 1 && json == 1;
}

/* Every token is compared in full, so that the time taken tells nothing of them but their lengths. */
static bool bears_token(const struct config *config, const struct http_request *r)
{
    struct str said = http_header(r, str_lit("authorization")), token, known;
    bool good = false;
    if (said.len < 8 || !str_eq_nocase((struct str){said.ptr, 7}, str_lit("bearer ")))
        return false;
    token = str_trim((struct str){said.ptr + 7, said.len - 7});
    for (size_t i = 0; (known = config_item(config->admin_tokens, i)).ptr; i++)
        good |= known.len == token.len && CRYPTO_memcmp(known.ptr, token.ptr, token.len) == 0;
    return good;
}

enum reason admin_guard_check(const struct config *config, const struct http_request *request, bool open, const char **detail)
{
    *detail = "the Host is neither an IP address nor localhost nor a name of admin.hosts";
    if (!host_allowed(config, request->host))
        return REASON_MISDIRECTED_REQUEST;
    *detail = "the request comes from a page of another origin";
    if (from_other_origin(request))
        return REASON_FORBIDDEN;
    *detail = "send Authorization: Bearer and one of admin.tokens";
    if (!open && config->admin_tokens[0] != 0 && !bears_token(config, request))
        return REASON_UNAUTHENTICATED;
    *detail = "a POST needs Content-Type: application/json, also without a body";
    if (request->method == HTTP_POST && !says_json(request))
        return REASON_UNSUPPORTED_MEDIA_TYPE;
    return REASON_OK;
}

bool admin_guard_token_good(struct str token)
{
    for (size_t i = 0; i < token.len; i++) {
        char c = token.ptr[i];
        bool good = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c != 0 && strchr("-._~+/=", c));
        if (!good)
            return false;
    }
    return token.len >= 16;
}
