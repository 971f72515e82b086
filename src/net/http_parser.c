/* SPDX-License-Identifier: Apache-2.0
 * http_parser.c: line by line. A line is looked at once it is whole, so that each byte is touched twice: by memchr, which looks for
 * the end of the line, and by the reader of that line. What is refused, and why, stands beside each check. */
#include "http_parser.h"

#include "check.h"

/* ---- the alphabets of RFC 9110 §5.6.2, RFC 3986 §3.3 and RFC 9110 §5.5 ---- */

#define ALPHA_DIGIT ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1
static const uint8_t is_token[256] = {ALPHA_DIGIT, ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1, ['&'] = 1, ['\''] = 1, ['*'] = 1, ['+'] = 1,
                                      ['-'] = 1, ['.'] = 1, ['^'] = 1, ['_'] = 1, ['`'] = 1, ['|'] = 1, ['~'] = 1};
static const uint8_t is_target[256] = {ALPHA_DIGIT, ['-'] = 1, ['.'] = 1, ['_'] = 1, ['~'] = 1, ['!'] = 1, ['$'] = 1, ['&'] = 1, ['\''] = 1,
                                       ['('] = 1, [')'] = 1, ['*'] = 1, ['+'] = 1, [','] = 1, [';'] = 1, ['='] = 1, [':'] = 1, ['@'] = 1,
                                       ['/'] = 1, ['?'] = 1, ['%'] = 1};
static const uint8_t is_value[256] = {['\t'] = 1, [' ' ... '~'] = 1, [0x80 ... 0xff] = 1};
static const uint8_t is_host[256] = {ALPHA_DIGIT, ['-'] = 1, ['.'] = 1, ['_'] = 1, ['~'] = 1, ['!'] = 1, ['$'] = 1, ['&'] = 1, ['\''] = 1,
                                     ['('] = 1, [')'] = 1, ['*'] = 1, ['+'] = 1, [';'] = 1, ['='] = 1};

static bool all(const uint8_t table[256], struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!table[(uint8_t)s.ptr[i]])
            return false;
    return true;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static struct str after(struct str s, size_t n) { return (struct str){s.ptr + n, s.len - n}; }
static struct str before(struct str s, size_t n) { return (struct str){s.ptr, n}; }
static size_t find(struct str s, char c)    /* s.len: not there */
{
    const char *at = s.len ? memchr(s.ptr, c, s.len) : NULL;
    return at ? (size_t)(at - s.ptr) : s.len;
}
static struct str trim(struct str s)    /* optional white space is blanks and tabs, nothing else */
{
    while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == '\t'))
        s = after(s, 1);
    while (s.len > 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
        s.len--;
    return s;
}

static bool refuse(struct http_parser *p, int status, const char *why)
{
    p->stage = HTTP_FAILED;
    p->status = status;
    p->why = why;
    return false;
}

/* ---- the request line ---- */

static enum http_method method_of(struct str name)
{
    static const struct {
        struct str name;
        enum http_method method;
    } known[] = {{{"GET", 3}, HTTP_GET}, {{"POST", 4}, HTTP_POST}, {{"HEAD", 4}, HTTP_HEAD}, {{"PUT", 3}, HTTP_PUT},
                 {{"DELETE", 6}, HTTP_DELETE}, {{"OPTIONS", 7}, HTTP_OPTIONS}, {{"PATCH", 5}, HTTP_PATCH}};
    for (size_t i = 0; i < countof(known); i++)
        if (str_eq(name, known[i].name))
            return known[i].method;
    return HTTP_OTHER;
}

/* host[:port], the host a name, an IPv4 address or an IPv6 address in brackets; never empty, never with user information. */
static bool host_good(struct str s)
{
    size_t end = find(s, ':');
    if (s.len > 0 && s.ptr[0] == '[') {
        end = find(s, ']');
        if (end < 3 || end == s.len)
            return false;
        for (size_t i = 1; i < end; i++)
            if (hex(s.ptr[i]) < 0 && s.ptr[i] != ':' && s.ptr[i] != '.')
                return false;
        end++;
    } else if (!all(is_host, before(s, end))) {
        return false;
    }
    struct str port = after(s, end);
    if (end == 0 || port.len == 0)
        return end > 0;
    uint64_t number;
    return port.ptr[0] == ':' && (port.len == 1 || (port.len <= 6 && str_to_u64(after(port, 1), &number) && number <= 65535));
}

static bool escapes_good(struct str s)
{
    for (size_t i = find(s, '%'); i < s.len; i += 3 + find(after(s, i + 3), '%'))
        if (s.len - i < 3 || hex(s.ptr[i + 1]) < 0 || hex(s.ptr[i + 2]) < 0)
            return false;
    return true;
}

static bool read_target(struct http_parser *p, struct str target)
{
    struct http_request *r = &p->request;
    if (str_eq(target, str_lit("*"))) {
        r->path = target;
        return r->method == HTTP_OPTIONS || refuse(p, 400, "only OPTIONS may be asked of *");
    }
    size_t scheme = str_eq_nocase(before(target, target.len < 7 ? 0 : 7), str_lit("http://")) ? 7 :
                    str_eq_nocase(before(target, target.len < 8 ? 0 : 8), str_lit("https://")) ? 8 : 0;
    if (scheme > 0) {    /* absolute form (RFC 9112 §3.2.2) */
        struct str rest = after(target, scheme);
        size_t slash = find(rest, '/'), mark = find(rest, '?'), end = slash < mark ? slash : mark;
        r->host = before(rest, end);
        if (!host_good(r->host))
            return refuse(p, 400, "bad authority in the request target");
        target = after(rest, end);
        if (target.len == 0 || target.ptr[0] == '?') {    /* the path is empty, which means "/" */
            r->path = str_lit("/");
            r->query = target.len ? after(target, 1) : (struct str){0};
            return (all(is_target, r->query) && escapes_good(r->query)) || refuse(p, 400, "bad character in the request target");
        }
    }
    if (target.len == 0 || target.ptr[0] != '/')
        return refuse(p, 400, "the request target is neither a path nor a URL");
    if (!all(is_target, target) || !escapes_good(target))
        return refuse(p, 400, "bad character in the request target");
    size_t mark = find(target, '?');
    r->path = before(target, mark);
    r->query = mark < target.len ? after(target, mark + 1) : (struct str){0};
    return true;
}

static bool read_version(struct http_parser *p, struct str version)
{
    if (str_eq(version, str_lit("HTTP/1.1")))
        p->request.minor = 1;
    else if (str_eq(version, str_lit("HTTP/1.0")))
        p->request.minor = 0;
    else if (version.len == 8 && str_starts(version, str_lit("HTTP/")) && version.ptr[6] == '.' && hex(version.ptr[5]) >= 0 &&
             hex(version.ptr[5]) <= 9 && hex(version.ptr[7]) >= 0 && hex(version.ptr[7]) <= 9)
        return refuse(p, 505, "only versions 1.0 and 1.1 are spoken here");
    else
        return refuse(p, 400, "bad HTTP version");
    return true;
}

static bool read_start(struct http_parser *p, struct str line)
{
    if (line.len == 0 && !p->skipped_blank) {
        p->skipped_blank = true;
        return true;
    }
    size_t space = find(line, ' ');
    p->request.method_name = before(line, space);
    if (space == 0 || space == line.len || !all(is_token, p->request.method_name))
        return refuse(p, 400, "bad method");
    p->request.method = method_of(p->request.method_name);
    line = after(line, space + 1);
    space = find(line, ' ');
    if (space == line.len)
        return refuse(p, 400, "no HTTP version");
    if (!read_version(p, after(line, space + 1)))
        return false;
    if (p->request.method == HTTP_OTHER && str_eq(p->request.method_name, str_lit("CONNECT")))
        return refuse(p, 501, "no tunnels here");
    p->stage = HTTP_FIELDS;
    return read_target(p, before(line, space));
}

/* ---- header fields ---- */

static bool take_host(struct http_parser *p, struct str value)
{
    if (p->has_host)
        return refuse(p, 400, "Host is there twice");
    p->has_host = true;
    if (!host_good(value))
        return refuse(p, 400, "bad Host");
    if (p->request.host.ptr && !str_eq_nocase(value, p->request.host))    /* RFC 9112 §3.2 wants them the same; who reads which, none can know */
        return refuse(p, 400, "Host is not that of the request target");
    p->request.host = value;
    return true;
}

static bool take_length(struct http_parser *p, struct str value)
{
    if (p->has_length)
        return refuse(p, 400, "Content-Length is there twice");
    p->has_length = true;
    if (!str_to_u64(value, &p->expected) || (value.len > 1 && value.ptr[0] == '0'))
        return refuse(p, 400, "bad Content-Length");
    return true;
}

static bool take_coding(struct http_parser *p, struct str value)
{
    if (p->chunked)
        return refuse(p, 400, "Transfer-Encoding is there twice");
    if (p->request.minor == 0)
        return refuse(p, 400, "Transfer-Encoding in HTTP/1.0");
    p->chunked = true;
    if (str_eq_nocase(value, str_lit("chunked")))
        return true;
    size_t comma = find(value, ',');
    bool other_first = comma < value.len && str_eq_nocase(trim(after(value, comma + 1)), str_lit("chunked")) &&
                       !str_eq_nocase(trim(before(value, comma)), str_lit("chunked")) && trim(before(value, comma)).len > 0;
    return other_first ? refuse(p, 501, "no transfer coding but chunked is known here") : refuse(p, 400, "bad Transfer-Encoding");
}

static bool take_connection(struct http_parser *p, struct str value)
{
    while (value.len > 0) {
        size_t comma = find(value, ',');
        struct str option = trim(before(value, comma));
        if (!all(is_token, option))
            return refuse(p, 400, "bad Connection");
        p->says_close |= str_eq_nocase(option, str_lit("close"));
        p->says_keep |= str_eq_nocase(option, str_lit("keep-alive"));
        value = after(value, comma < value.len ? comma + 1 : comma);
    }
    return true;
}

static bool take_expect(struct http_parser *p, struct str value)
{
    if (p->request.minor == 0)
        return true;
    if (p->request.expects_continue)
        return refuse(p, 417, "Expect is there twice");
    p->request.expects_continue = true;
    return str_eq_nocase(value, str_lit("100-continue")) || refuse(p, 417, "only 100-continue can be expected");
}

static const struct {
    struct str name;
    bool (*take)(struct http_parser *, struct str value);
    bool framing;    /* must not come after the body */
} ours[] = {{{"host", 4}, take_host, true}, {{"expect", 6}, take_expect, false}, {{"connection", 10}, take_connection, false},
            {{"content-length", 14}, take_length, true}, {{"transfer-encoding", 17}, take_coding, true}};

/* name ":" value, or refused. */
static bool split_field(struct http_parser *p, struct str line, struct http_header *h)
{
    if (line.ptr[0] == ' ' || line.ptr[0] == '\t')
        return refuse(p, 400, "a folded or indented header");
    size_t colon = find(line, ':');
    h->name = before(line, colon);
    if (colon == 0 || colon == line.len || !all(is_token, h->name))
        return refuse(p, 400, "bad header name");
    h->value = trim(after(line, colon + 1));
    if (!all(is_value, h->value))
        return refuse(p, 400, "a control character in a header");
    return p->field_lines++ < HTTP_HEADERS_MAX || refuse(p, 431, "too many headers");
}

/* The empty line: what the head says about the body, taken together. */
static bool read_head_end(struct http_parser *p, char *data)
{
    struct http_request *r = &p->request;
    if (r->minor == 1 && !p->has_host)
        return refuse(p, 400, "no Host");
    if (p->chunked && p->has_length)
        return refuse(p, 400, "both Content-Length and Transfer-Encoding");
    r->keep_alive = !p->says_close && (r->minor == 1 || p->says_keep);
    r->body = (struct str){data + p->at, 0};
    if (p->limits.wide_body > p->limits.body && str_eq(r->path, p->limits.wide_path))
        p->limits.body = p->limits.wide_body;
    if (!p->chunked && p->expected > p->limits.body)
        return refuse(p, 413, "the body is too large");
    p->stage = p->chunked ? HTTP_CHUNK_SIZE : p->expected > 0 ? HTTP_BODY : HTTP_DONE;
    if (p->stage == HTTP_DONE)
        r->expects_continue = false;
    return true;
}

static bool read_field(struct http_parser *p, struct str line, char *data)
{
    struct http_header h;
    if (line.len == 0)
        return read_head_end(p, data);
    if (!split_field(p, line, &h))
        return false;
    p->request.headers[p->request.header_count++] = h;
    for (size_t i = 0; i < countof(ours); i++)
        if (h.name.len == ours[i].name.len && str_eq_nocase(h.name, ours[i].name)) {
            if (ours[i].framing && find(line, '\t') < line.len)    /* allowed as white space, but others read "chunked<tab>" as no coding they know */
                return refuse(p, 400, "a tab in a header that frames the message");
            return ours[i].take(p, h.value);
        }
    return true;
}

/* ---- a chunked body ---- */

#define CHUNK_EXTENSION_MAX 16
#define CHUNK_LINE_MAX (16 + CHUNK_EXTENSION_MAX + 2)

/* *( ";" name [ "=" value ] ): read only to be sure that it hides nothing. */
static bool extension_good(struct str s)
{
    while (s.len > 0) {
        if (s.ptr[0] != ';')
            return false;
        size_t end = 1;
        while (end < s.len && is_token[(uint8_t)s.ptr[end]])
            end++;
        if (end == 1)
            return false;
        if (end < s.len && s.ptr[end] == '=') {
            size_t value = ++end;
            bool quoted = end < s.len && s.ptr[end] == '"';
            if (quoted)
                end = value + 1 + find(after(s, value + 1), '"') + 1;
            else
                while (end < s.len && is_token[(uint8_t)s.ptr[end]])
                    end++;
            if (end > s.len || end == value || !all(is_value, before(s, end)) || (quoted && find(before(s, end), '\\') < end))
                return false;
        }
        s = after(s, end);
    }
    return true;
}

static bool read_chunk_size(struct http_parser *p, struct str line)
{
    size_t digits = 0;
    uint64_t size = 0;
    for (; digits < line.len && hex(line.ptr[digits]) >= 0; digits++) {
        if (size >> 60)
            return refuse(p, 400, "the chunk size is out of this world");
        size = size << 4 | (uint64_t)hex(line.ptr[digits]);
    }
    if (digits == 0 || digits > 16)
        return refuse(p, 400, "bad chunk size");
    struct str extension = after(line, digits);
    if (extension.len > CHUNK_EXTENSION_MAX || !extension_good(extension))
        return refuse(p, 400, "bad chunk extension");
    if (size > p->limits.body - p->request.body.len)
        return refuse(p, 413, "the body is too large");
    p->expected = size;
    p->stage = size > 0 ? HTTP_CHUNK_DATA : HTTP_TRAILERS;
    return true;
}

/* Trailers are checked as headers are, and forgotten. */
static bool read_trailer(struct http_parser *p, struct str line)
{
    struct http_header h;
    p->trailer_bytes += line.len + 2;
    if (p->trailer_bytes > p->limits.head)
        return refuse(p, 431, "the trailers are too large");
    if (line.len == 0) {
        p->stage = HTTP_DONE;
        return true;
    }
    if (!split_field(p, line, &h))
        return false;
    for (size_t i = 0; i < countof(ours); i++)
        if (ours[i].framing && str_eq_nocase(h.name, ours[i].name))
            return refuse(p, 400, "a trailer that changes the message");
    return true;
}

/* ---- the way through ---- */

/* A line that has not ended yet must not be longer than the longest that could be taken. */
static bool unfinished_good(struct http_parser *p, const char *data, size_t len)
{
    size_t have = len - p->at;
    if (p->stage == HTTP_START && have > 0 && data[p->at] != '\r' && !is_token[(uint8_t)data[p->at]])
        return refuse(p, 400, "bad method");    /* somebody speaks TLS, or worse: no need to wait for the end of the line */
    if (p->stage == HTTP_START && have > p->limits.line)
        return refuse(p, 414, "the request line is too long");
    if (p->stage == HTTP_FIELDS && len > p->limits.head)
        return refuse(p, 431, "the headers are too large");
    if (p->stage == HTTP_CHUNK_SIZE && have > CHUNK_LINE_MAX)
        return refuse(p, 400, "bad chunk extension");
    if (p->stage == HTTP_TRAILERS && p->trailer_bytes + have > p->limits.head)
        return refuse(p, 431, "the trailers are too large");
    return true;
}

/* One line more: true when there was one and it was good. */
static bool read_line(struct http_parser *p, char *data, size_t len)
{
    char *feed = p->scanned < len ? memchr(data + p->scanned, '\n', len - p->scanned) : NULL;
    if (!feed) {
        p->scanned = len;
        (void)unfinished_good(p, data, len);
        return false;
    }
    struct str line = str_range(data + p->at, feed);
    if (line.len == 0 || line.ptr[--line.len] != '\r')
        return refuse(p, 400, "a line that does not end in CR LF");
    p->at = p->scanned = (size_t)(feed + 1 - data);
    switch (p->stage) {
    case HTTP_START:
        return line.len > p->limits.line ? refuse(p, 414, "the request line is too long") : read_start(p, line);
    case HTTP_FIELDS:
        return p->at > p->limits.head ? refuse(p, 431, "the headers are too large") : read_field(p, line, data);
    case HTTP_CHUNK_SIZE:
        return read_chunk_size(p, line);
    default:
        return read_trailer(p, line);
    }
}

static bool read_body(struct http_parser *p, char *data, size_t len)
{
    struct str *body = &p->request.body;
    size_t have = len - p->at, n = have < p->expected ? have : (size_t)p->expected;
    if (p->stage == HTTP_BODY) {
        if (have < p->expected)
            return false;
        body->len = n;
    } else {
        memmove(data + (body->ptr - data) + body->len, data + p->at, n);
        body->len += n;
        p->expected -= n;
        if (p->expected > 0) {
            p->at += n;
            return false;
        }
    }
    p->at += n;
    p->scanned = p->at;
    p->stage = p->stage == HTTP_BODY ? HTTP_DONE : HTTP_CHUNK_END;
    return true;
}

static bool read_chunk_end(struct http_parser *p, const char *data, size_t len)
{
    size_t have = len - p->at;
    if ((have > 0 && data[p->at] != '\r') || (have > 1 && data[p->at + 1] != '\n'))
        return refuse(p, 400, "the chunk is longer than it said");
    if (have < 2)
        return false;
    p->at += 2;
    p->scanned = p->at;
    p->stage = HTTP_CHUNK_SIZE;
    return true;
}

/* Drops what framed the chunks read so far, so that a body of many small ones needs no more room than a plain one. */
static void close_ranks(struct http_parser *p, char *data, size_t *len)
{
    size_t end = (size_t)(p->request.body.ptr - data) + p->request.body.len, gap = p->at - end;
    if (gap == 0)
        return;
    memmove(data + end, data + p->at, *len - p->at);
    *len -= gap;
    p->at = end;
    p->scanned = p->scanned > gap + end ? p->scanned - gap : end;
}

void http_parser_start(struct http_parser *p, struct http_limits limits)
{
    size_t untouched = offsetof(struct http_request, headers);    /* 2 KiB of headers need no clearing: header_count says what is there */
    memset(p, 0, offsetof(struct http_parser, request));
    memset(&p->request, 0, untouched);
    p->request.body = (struct str){0};
    p->limits = limits;
}

enum http_progress http_parse(struct http_parser *p, char *data, size_t *len)
{
    bool on = true;
    check(p->at <= *len);
    while (on && p->stage < HTTP_DONE)
        switch (p->stage) {
        case HTTP_BODY:
        case HTTP_CHUNK_DATA:
            on = read_body(p, data, *len);
            break;
        case HTTP_CHUNK_END:
            on = read_chunk_end(p, data, *len);
            break;
        default:
            on = read_line(p, data, *len);
        }
    if (p->stage == HTTP_DONE)
        return HTTP_COMPLETE;
    if (p->stage == HTTP_FAILED)
        return HTTP_REFUSED;
    if (p->chunked && p->stage > HTTP_FIELDS)
        close_ranks(p, data, len);
    return HTTP_MORE;
}

struct str http_header(const struct http_request *r, struct str name)
{
    for (size_t i = 0; i < r->header_count; i++)
        if (r->headers[i].name.len == name.len && str_eq_nocase(r->headers[i].name, name))
            return r->headers[i].value;
    return (struct str){0};
}

struct str http_query(const struct http_request *r, struct str key, bool *twice)
{
    struct str found = {0};
    for (struct str rest = r->query; rest.len > 0;) {
        size_t end = find(rest, '&'), equals = find(before(rest, end), '=');
        if (str_eq(before(rest, equals), key)) {
            if (found.ptr && twice)
                *twice = true;
            if (!found.ptr)
                found = str_range(rest.ptr + (equals < end ? equals + 1 : end), rest.ptr + end);
        }
        rest = after(rest, end < rest.len ? end + 1 : end);
    }
    return found;
}
