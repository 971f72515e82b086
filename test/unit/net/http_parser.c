/* SPDX-License-Identifier: Apache-2.0
 * Requests, good and bad, each with what must be made of it. Good ones are also cut in two at every byte, and fed byte by byte:
 * the reading must be the same. Bad ones must be refused however they are cut, too. */
#include "http_parser.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "buf.h"
#include "check.h"

static const struct http_limits limits = {.line = 256, .head = 1024, .body = 64};

struct good {
    const char *name;
    struct str in;
    const char *seen;    /* "METHOD path?query host minor keep|close [continue] n:headers body" */
};
#define H "Host: h\r\n"
#define P "POST / HTTP/1.1\r\n" H
#define CH P "Transfer-Encoding: chunked\r\n\r\n"
#define IN(text) {"" text, sizeof(text) - 1}

static const struct good goods[] = {
    {"plain get", IN("GET / HTTP/1.1\r\n" H "\r\n"), "GET /? h 1 keep 1 ''"},
    {"path", IN("GET /v1/orders/ord_1 HTTP/1.1\r\n" H "\r\n"), "GET /v1/orders/ord_1? h 1 keep 1 ''"},
    {"query", IN("GET /a?b=c&d HTTP/1.1\r\n" H "\r\n"), "GET /a?b=c&d h 1 keep 1 ''"},
    {"empty query", IN("GET /a? HTTP/1.1\r\n" H "\r\n"), "GET /a? h 1 keep 1 ''"},
    {"question mark in the query", IN("GET /a?b?c HTTP/1.1\r\n" H "\r\n"), "GET /a?b?c h 1 keep 1 ''"},
    {"escapes", IN("GET /%7Ea%2f?x=%e4 HTTP/1.1\r\n" H "\r\n"), "GET /%7Ea%2f?x=%e4 h 1 keep 1 ''"},
    {"every allowed path character", IN("GET /-._~!$&'()*+,;=:@ HTTP/1.1\r\n" H "\r\n"), "GET /-._~!$&'()*+,;=:@? h 1 keep 1 ''"},
    {"double slash", IN("GET //x HTTP/1.1\r\n" H "\r\n"), "GET //x? h 1 keep 1 ''"},
    {"head", IN("HEAD / HTTP/1.1\r\n" H "\r\n"), "HEAD /? h 1 keep 1 ''"},
    {"put", IN("PUT / HTTP/1.1\r\n" H "\r\n"), "PUT /? h 1 keep 1 ''"},
    {"delete", IN("DELETE / HTTP/1.1\r\n" H "\r\n"), "DELETE /? h 1 keep 1 ''"},
    {"patch", IN("PATCH / HTTP/1.1\r\n" H "\r\n"), "PATCH /? h 1 keep 1 ''"},
    {"options", IN("OPTIONS /x HTTP/1.1\r\n" H "\r\n"), "OPTIONS /x? h 1 keep 1 ''"},
    {"options of everything", IN("OPTIONS * HTTP/1.1\r\n" H "\r\n"), "OPTIONS *? h 1 keep 1 ''"},
    {"unknown method", IN("BREW /pot HTTP/1.1\r\n" H "\r\n"), "OTHER /pot? h 1 keep 1 ''"},
    {"methods know their case", IN("get / HTTP/1.1\r\n" H "\r\n"), "OTHER /? h 1 keep 1 ''"},
    {"odd method token", IN("M-SEARCH / HTTP/1.1\r\n" H "\r\n"), "OTHER /? h 1 keep 1 ''"},
    {"absolute form", IN("GET http://a.example/x?y HTTP/1.1\r\n" H "\r\n"), "GET /x?y a.example 1 keep 1 ''"},
    {"absolute form, port", IN("GET http://a.example:80/ HTTP/1.1\r\n" H "\r\n"), "GET /? a.example:80 1 keep 1 ''"},
    {"absolute form, no path", IN("GET http://a.example HTTP/1.1\r\n" H "\r\n"), "GET /? a.example 1 keep 1 ''"},
    {"absolute form, only a query", IN("GET http://a.example?q=1 HTTP/1.1\r\n" H "\r\n"), "GET /?q=1 a.example 1 keep 1 ''"},
    {"absolute form, https, capitals", IN("GET HTTPS://a.example/ HTTP/1.1\r\n" H "\r\n"), "GET /? a.example 1 keep 1 ''"},
    {"absolute form, IPv6", IN("GET http://[::1]:8480/ HTTP/1.1\r\n" H "\r\n"), "GET /? [::1]:8480 1 keep 1 ''"},
    {"slash in the query of an absolute form", IN("GET http://a?b/c HTTP/1.1\r\n" H "\r\n"), "GET /?b/c a 1 keep 1 ''"},
    {"host with port", IN("GET / HTTP/1.1\r\nHost: 127.0.0.1:8480\r\n\r\n"), "GET /? 127.0.0.1:8480 1 keep 1 ''"},
    {"host with empty port", IN("GET / HTTP/1.1\r\nHost: a:\r\n\r\n"), "GET /? a: 1 keep 1 ''"},
    {"host IPv6", IN("GET / HTTP/1.1\r\nHost: [2001:db8::1]\r\n\r\n"), "GET /? [2001:db8::1] 1 keep 1 ''"},
    {"host in capitals", IN("GET / HTTP/1.1\r\nHOST: h\r\n\r\n"), "GET /? h 1 keep 1 ''"},
    {"no blank after the colon", IN("GET / HTTP/1.1\r\nHost:h\r\n\r\n"), "GET /? h 1 keep 1 ''"},
    {"blanks and tabs round the value", IN("GET / HTTP/1.1\r\nHost: \t h \t\r\n\r\n"), "GET /? h 1 keep 1 ''"},
    {"empty value", IN("GET / HTTP/1.1\r\n" H "X:\r\n\r\n"), "GET /? h 1 keep 2 ''"},
    {"value of bytes above 127", IN("GET / HTTP/1.1\r\n" H "X: \xe5\xb7\xb2\r\n\r\n"), "GET /? h 1 keep 2 ''"},
    {"value with a tab inside", IN("GET / HTTP/1.1\r\n" H "X: a\tb\r\n\r\n"), "GET /? h 1 keep 2 ''"},
    {"value with colons", IN("GET / HTTP/1.1\r\n" H "X: a:b: c\r\n\r\n"), "GET /? h 1 keep 2 ''"},
    {"odd header names", IN("GET / HTTP/1.1\r\n" H "!#$%&'*+-.^_`|~9: x\r\n\r\n"), "GET /? h 1 keep 2 ''"},
    {"one empty line before", IN("\r\nGET / HTTP/1.1\r\n" H "\r\n"), "GET /? h 1 keep 1 ''"},
    {"1.0 without host", IN("GET / HTTP/1.0\r\n\r\n"), "GET /?  0 close 0 ''"},
    {"1.0 with host", IN("GET / HTTP/1.0\r\n" H "\r\n"), "GET /? h 0 close 1 ''"},
    {"1.0 keep-alive", IN("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"), "GET /?  0 keep 1 ''"},
    {"1.0 body", IN("POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab"), "POST /?  0 close 1 'ab'"},
    {"1.0 expect is ignored", IN("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab"), "POST /?  0 close 2 'ab'"},
    {"close", IN("GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\n"), "GET /? h 1 close 2 ''"},
    {"close among others", IN("GET / HTTP/1.1\r\n" H "Connection: te, Close ,x\r\n\r\n"), "GET /? h 1 close 2 ''"},
    {"close in a second line", IN("GET / HTTP/1.1\r\n" H "Connection: keep-alive\r\nConnection: close\r\n\r\n"), "GET /? h 1 close 3 ''"},
    {"close beats keep-alive in 1.0", IN("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n"), "GET /?  0 close 1 ''"},
    {"empty elements in connection", IN("GET / HTTP/1.1\r\n" H "Connection: ,, close,\r\n\r\n"), "GET /? h 1 close 2 ''"},
    {"body", IN(P "Content-Length: 5\r\n\r\nhello"), "POST /? h 1 keep 2 'hello'"},
    {"empty body", IN(P "Content-Length: 0\r\n\r\n"), "POST /? h 1 keep 2 ''"},
    {"length in small letters", IN(P "content-length: 1\r\n\r\nx"), "POST /? h 1 keep 2 'x'"},
    {"get with a body", IN("GET / HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\nx"), "GET /? h 1 keep 2 'x'"},
    {"body that looks like a request", IN(P "Content-Length: 18\r\n\r\nGET / HTTP/1.1\r\n\r\n"), "POST /? h 1 keep 2 'GET / HTTP/1.1....'"},
    {"body at the limit", IN(P "Content-Length: 64\r\n\r\n0123456789012345678901234567890123456789012345678901234567890123"),
     "POST /? h 1 keep 2 '0123456789012345678901234567890123456789012345678901234567890123'"},
    {"body of any bytes", IN(P "Content-Length: 3\r\n\r\n\0\n\xff"), "POST /? h 1 keep 2 '...'"},
    {"expect", IN(P "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nab"), "POST /? h 1 keep continue 3 'ab'"},
    {"expect in capitals", IN(P "Expect: 100-Continue\r\nContent-Length: 2\r\n\r\nab"), "POST /? h 1 keep continue 3 'ab'"},
    {"expect without a body", IN(P "Expect: 100-continue\r\n\r\n"), "POST /? h 1 keep 2 ''"},
    {"chunked", IN(CH "5\r\nhello\r\n0\r\n\r\n"), "POST /? h 1 keep 2 'hello'"},
    {"chunked, several", IN(CH "1\r\na\r\n2\r\nbc\r\n3\r\ndef\r\n0\r\n\r\n"), "POST /? h 1 keep 2 'abcdef'"},
    {"chunked, empty", IN(CH "0\r\n\r\n"), "POST /? h 1 keep 2 ''"},
    {"chunked in capitals", IN(P "Transfer-Encoding: CHUNKED\r\n\r\n1\r\na\r\n0\r\n\r\n"), "POST /? h 1 keep 2 'a'"},
    {"chunk size in hexadecimal", IN(CH "a\r\n0123456789\r\nB\r\n0123456789a\r\n0\r\n\r\n"), "POST /? h 1 keep 2 '01234567890123456789a'"},
    {"chunk size with zeros before", IN(CH "0001\r\na\r\n000\r\n\r\n"), "POST /? h 1 keep 2 'a'"},
    {"chunk holding line ends", IN(CH "4\r\n\r\n\r\n\r\n0\r\n\r\n"), "POST /? h 1 keep 2 '....'"},
    {"chunk extension", IN(CH "1;a=b\r\nx\r\n0;c\r\n\r\n"), "POST /? h 1 keep 2 'x'"},
    {"chunk extension, quoted", IN(CH "1;a=\"b c\"\r\nx\r\n0\r\n\r\n"), "POST /? h 1 keep 2 'x'"},
    {"two chunk extensions", IN(CH "1;a=b;c=d\r\nx\r\n0\r\n\r\n"), "POST /? h 1 keep 2 'x'"},
    {"chunk extension at the limit", IN(CH "1;234567890123456\r\nx\r\n0\r\n\r\n"), "POST /? h 1 keep 2 'x'"},
    {"trailers", IN(CH "1\r\na\r\n0\r\nX: y\r\nZ:\r\n\r\n"), "POST /? h 1 keep 2 'a'"},
    {"many small chunks", IN(CH "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n1\r\nd\r\n1\r\ne\r\n1\r\nf\r\n1\r\ng\r\n1\r\nh\r\n0\r\n\r\n"), "POST /? h 1 keep 2 'abcdefgh'"},
    {"chunked body at the limit", IN(CH "20\r\n01234567890123456789012345678901\r\n20\r\n01234567890123456789012345678901\r\n0\r\n\r\n"),
     "POST /? h 1 keep 2 '0123456789012345678901234567890101234567890123456789012345678901'"},
};

struct bad {
    const char *name;
    struct str in;
    int status;
};
static const struct bad bads[] = {
    {"bare line feed", IN("GET / HTTP/1.1\nHost: h\n\n"), 400},
    {"bare line feed after a header", IN("GET / HTTP/1.1\r\n" H "A: b\n\r\n"), 400},
    {"bare line feed at the end of the head", IN("GET / HTTP/1.1\r\n" H "\n"), 400},
    {"bare carriage return in a header", IN("GET / HTTP/1.1\r\n" H "A: b\rc\r\n\r\n"), 400},
    {"bare carriage return in the request line", IN("GET /\r HTTP/1.1\r\n" H "\r\n"), 400},
    {"two carriage returns", IN("GET / HTTP/1.1\r\r\n" H "\r\n"), 400},
    {"carriage return before the colon", IN("GET / HTTP/1.1\r\nHost\r: h\r\n\r\n"), 400},
    {"two empty lines before", IN("\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n"), 400},
    {"blank before the method", IN(" GET / HTTP/1.1\r\n" H "\r\n"), 400},
    {"TLS hello", IN("\x16\x03\x01\x02"), 400},
    {"no method", IN("/ HTTP/1.1\r\n" H "\r\n"), 400},
    {"method with a bad character", IN("G@T / HTTP/1.1\r\n" H "\r\n"), 400},
    {"method with a zero", IN("G\0T / HTTP/1.1\r\n" H "\r\n"), 400},
    {"one word", IN("GET\r\n" H "\r\n"), 400},
    {"HTTP/0.9", IN("GET /\r\n"), 400},
    {"two blanks after the method", IN("GET  / HTTP/1.1\r\n" H "\r\n"), 400},
    {"two blanks before the version", IN("GET /  HTTP/1.1\r\n" H "\r\n"), 400},
    {"tab after the method", IN("GET\t/ HTTP/1.1\r\n" H "\r\n"), 400},
    {"blank after the version", IN("GET / HTTP/1.1 \r\n" H "\r\n"), 400},
    {"blank in the path", IN("GET /a b HTTP/1.1\r\n" H "\r\n"), 400},
    {"HTTP/2.0", IN("GET / HTTP/2.0\r\n" H "\r\n"), 505},
    {"HTTP/1.2", IN("GET / HTTP/1.2\r\n" H "\r\n"), 505},
    {"HTTP/0.9 in words", IN("GET / HTTP/0.9\r\n" H "\r\n"), 505},
    {"HTTP/2 preface", IN("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505},
    {"http in small letters", IN("GET / http/1.1\r\n" H "\r\n"), 400},
    {"version without a minor", IN("GET / HTTP/1\r\n" H "\r\n"), 400},
    {"version with three parts", IN("GET / HTTP/1.1.1\r\n" H "\r\n"), 400},
    {"version with two digits", IN("GET / HTTP/1.10\r\n" H "\r\n"), 400},
    {"version with a letter", IN("GET / HTTP/1.x\r\n" H "\r\n"), 400},
    {"version with a hexadecimal digit", IN("GET / HTTP/1.a\r\n" H "\r\n"), 400},
    {"other protocol", IN("GET / ICAP/1.0\r\n" H "\r\n"), 400},
    {"relative target", IN("GET a HTTP/1.1\r\n" H "\r\n"), 400},
    {"fragment", IN("GET /a#b HTTP/1.1\r\n" H "\r\n"), 400},
    {"quote in the path", IN("GET /\" HTTP/1.1\r\n" H "\r\n"), 400},
    {"backslash in the path", IN("GET /a\\b HTTP/1.1\r\n" H "\r\n"), 400},
    {"brackets in the path", IN("GET /[a] HTTP/1.1\r\n" H "\r\n"), 400},
    {"less-than in the query", IN("GET /?<x> HTTP/1.1\r\n" H "\r\n"), 400},
    {"zero in the path", IN("GET /\0 HTTP/1.1\r\n" H "\r\n"), 400},
    {"delete in the path", IN("GET /\x7f HTTP/1.1\r\n" H "\r\n"), 400},
    {"byte above 127 in the path", IN("GET /\xe5 HTTP/1.1\r\n" H "\r\n"), 400},
    {"broken escape", IN("GET /%4 HTTP/1.1\r\n" H "\r\n"), 400},
    {"escape of no number", IN("GET /%zz HTTP/1.1\r\n" H "\r\n"), 400},
    {"escape at the end of the query", IN("GET /?a=% HTTP/1.1\r\n" H "\r\n"), 400},
    {"get of everything", IN("GET * HTTP/1.1\r\n" H "\r\n"), 400},
    {"star and more", IN("OPTIONS */ HTTP/1.1\r\n" H "\r\n"), 400},
    {"connect", IN("CONNECT a:443 HTTP/1.1\r\n" H "\r\n"), 501},
    {"authority form with get", IN("GET a.example:80 HTTP/1.1\r\n" H "\r\n"), 400},
    {"absolute form without a host", IN("GET http:///x HTTP/1.1\r\n" H "\r\n"), 400},
    {"absolute form, nothing", IN("GET http:// HTTP/1.1\r\n" H "\r\n"), 400},
    {"absolute form, user", IN("GET http://u@a/ HTTP/1.1\r\n" H "\r\n"), 400},
    {"absolute form, user and password", IN("GET http://u:p@a/ HTTP/1.1\r\n" H "\r\n"), 400},
    {"absolute form, bad port", IN("GET http://a:99999/ HTTP/1.1\r\n" H "\r\n"), 400},
    {"absolute form, other scheme", IN("GET ftp://a/ HTTP/1.1\r\n" H "\r\n"), 400},
    {"absolute form, fragment", IN("GET http://a/#b HTTP/1.1\r\n" H "\r\n"), 400},
    {"absolute form, no Host", IN("GET http://a/ HTTP/1.1\r\n\r\n"), 400},
    {"no host", IN("GET / HTTP/1.1\r\n\r\n"), 400},
    {"two hosts", IN("GET / HTTP/1.1\r\n" H H "\r\n"), 400},
    {"two hosts in 1.0", IN("GET / HTTP/1.0\r\n" H "hOST: x\r\n\r\n"), 400},
    {"empty host", IN("GET / HTTP/1.1\r\nHost:\r\n\r\n"), 400},
    {"host with a path", IN("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), 400},
    {"host with a user", IN("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"), 400},
    {"host list", IN("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"), 400},
    {"host with a blank", IN("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), 400},
    {"host with a bad port", IN("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n"), 400},
    {"host with port 65536", IN("GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n"), 400},
    {"host, only a port", IN("GET / HTTP/1.1\r\nHost: :80\r\n\r\n"), 400},
    {"host, broken IPv6", IN("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"), 400},
    {"host, no IPv6", IN("GET / HTTP/1.1\r\nHost: [zz]\r\n\r\n"), 400},
    {"host, text after IPv6", IN("GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n"), 400},
    {"blank before the colon", IN("GET / HTTP/1.1\r\nHost : h\r\n\r\n"), 400},
    {"tab before the colon", IN("GET / HTTP/1.1\r\n" H "A\t: h\r\n\r\n"), 400},
    {"no colon", IN("GET / HTTP/1.1\r\n" H "A\r\n\r\n"), 400},
    {"empty name", IN("GET / HTTP/1.1\r\n" H ": a\r\n\r\n"), 400},
    {"name with a blank", IN("GET / HTTP/1.1\r\n" H "A B: c\r\n\r\n"), 400},
    {"name in parentheses", IN("GET / HTTP/1.1\r\n" H "(A): c\r\n\r\n"), 400},
    {"name above 127", IN("GET / HTTP/1.1\r\n" H "\xe5: c\r\n\r\n"), 400},
    {"name with a zero", IN("GET / HTTP/1.1\r\n" H "A\0: c\r\n\r\n"), 400},
    {"folded header", IN("GET / HTTP/1.1\r\n" H "A: b\r\n c\r\n\r\n"), 400},
    {"folded with a tab", IN("GET / HTTP/1.1\r\n" H "A: b\r\n\tc\r\n\r\n"), 400},
    {"indented first header", IN("GET / HTTP/1.1\r\n Host: h\r\n\r\n"), 400},
    {"a line of blanks", IN("GET / HTTP/1.1\r\n" H " \r\n\r\n"), 400},
    {"zero in a value", IN("GET / HTTP/1.1\r\n" H "A: b\0c\r\n\r\n"), 400},
    {"bell in a value", IN("GET / HTTP/1.1\r\n" H "A: \a\r\n\r\n"), 400},
    {"delete in a value", IN("GET / HTTP/1.1\r\n" H "A: \x7f\r\n\r\n"), 400},
    {"vertical tab in a value", IN("GET / HTTP/1.1\r\n" H "A: \v\r\n\r\n"), 400},
    {"form feed before a value", IN("GET / HTTP/1.1\r\n" H "Content-Length: \f1\r\n\r\nx"), 400},
    {"length and chunked", IN(P "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
    {"chunked and length", IN(P "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"), 400},
    {"the same length twice", IN(P "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx"), 400},
    {"two lengths", IN(P "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), 400},
    {"length list", IN(P "Content-Length: 1, 1\r\n\r\nx"), 400},
    {"empty length", IN(P "Content-Length:\r\n\r\n"), 400},
    {"length with plus", IN(P "Content-Length: +1\r\n\r\nx"), 400},
    {"length with minus", IN(P "Content-Length: -1\r\n\r\nx"), 400},
    {"length in hexadecimal", IN(P "Content-Length: 0x1\r\n\r\nx"), 400},
    {"length with a zero before", IN(P "Content-Length: 01\r\n\r\nx"), 400},
    {"length with a fraction", IN(P "Content-Length: 1.0\r\n\r\nx"), 400},
    {"length with a blank inside", IN(P "Content-Length: 1 1\r\n\r\nxxxxxxxxxxx"), 400},
    {"length beyond 64 bits", IN(P "Content-Length: 18446744073709551617\r\n\r\nx"), 400},
    {"length above the limit", IN(P "Content-Length: 65\r\n\r\n"), 413},
    {"length far above the limit", IN(P "Content-Length: 18446744073709551615\r\n\r\n"), 413},
    {"chunked in 1.0", IN("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
    {"gzip", IN(P "Transfer-Encoding: gzip\r\n\r\n"), 400},
    {"gzip, chunked", IN(P "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), 501},
    {"chunked, gzip", IN(P "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"), 400},
    {"chunked twice", IN(P "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"), 400},
    {"chunked in two lines", IN(P "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
    {"chunked, then identity", IN(P "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"), 400},
    {"identity", IN(P "Transfer-Encoding: identity\r\n\r\n"), 400},
    {"empty coding", IN(P "Transfer-Encoding:\r\n\r\n"), 400},
    {"coding with a comma", IN(P "Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n"), 400},
    {"coding with a parameter", IN(P "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"), 400},
    {"coding, nearly", IN(P "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"), 400},
    {"coding with a vertical tab", IN(P "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n"), 400},
    {"coding with a blank before the colon", IN(P "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"), 400},
    {"chunk size missing", IN(CH "\r\n\r\n"), 400},
    {"chunk size no number", IN(CH "x\r\n"), 400},
    {"chunk size signed", IN(CH "+1\r\na\r\n0\r\n\r\n"), 400},
    {"chunk size negative", IN(CH "-1\r\na\r\n0\r\n\r\n"), 400},
    {"chunk size with 0x", IN(CH "0x1\r\na\r\n0\r\n\r\n"), 400},
    {"chunk size with a blank behind", IN(CH "1 \r\na\r\n0\r\n\r\n"), 400},
    {"chunk size with a blank before", IN(CH " 1\r\na\r\n0\r\n\r\n"), 400},
    {"chunk size of 17 digits", IN(CH "00000000000000001\r\na\r\n0\r\n\r\n"), 400},
    {"chunk size beyond 64 bits", IN(CH "10000000000000001\r\na\r\n"), 400},
    {"chunk size that wraps", IN(CH "fffffffffffffffff\r\na\r\n"), 400},
    {"chunk size above the limit", IN(CH "41\r\n"), 413},
    {"chunks that add up above the limit", IN(CH "1\r\na\r\n40\r\n"), 413},
    {"chunk size, all ones", IN(CH "ffffffffffffffff\r\n"), 413},
    {"chunk size ended by a line feed", IN(CH "1\na\r\n0\r\n\r\n"), 400},
    {"chunk longer than said", IN(CH "1\r\nab\r\n0\r\n\r\n"), 400},
    {"chunk shorter than said", IN(CH "3\r\nab\r\n0\r\n\r\n"), 400},
    {"chunk ended by a line feed", IN(CH "1\r\na\n0\r\n\r\n"), 400},
    {"chunk ended by two carriage returns", IN(CH "1\r\na\r\r\n0\r\n\r\n"), 400},
    {"chunk extension too long", IN(CH "1;2345678901234567\r\nx\r\n0\r\n\r\n"), 400},
    {"chunk extension very long", IN(CH "1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), 400},
    {"chunk extension without a name", IN(CH "1;\r\nx\r\n0\r\n\r\n"), 400},
    {"chunk extension with a zero", IN(CH "1;a\0\r\nx\r\n0\r\n\r\n"), 400},
    {"chunk extension with a carriage return", IN(CH "1;a\rb\r\nx\r\n0\r\n\r\n"), 400},
    {"chunk extension, open quote", IN(CH "1;a=\"b\r\nx\r\n0\r\n\r\n"), 400},
    {"chunk extension, no value", IN(CH "1;a=\r\nx\r\n0\r\n\r\n"), 400},
    {"trailer with a blank before the colon", IN(CH "0\r\nX : y\r\n\r\n"), 400},
    {"trailer without a colon", IN(CH "0\r\nGET / HTTP/1.1\r\n\r\n"), 400},
    {"trailer that changes the length", IN(CH "0\r\nContent-Length: 4\r\n\r\n"), 400},
    {"trailer that changes the coding", IN(CH "0\r\ntransfer-encoding: chunked\r\n\r\n"), 400},
    {"trailer that changes the host", IN(CH "0\r\nHost: other\r\n\r\n"), 400},
    {"folded trailer", IN(CH "0\r\nX: y\r\n z\r\n\r\n"), 400},
    {"trailers ended by a line feed", IN(CH "0\r\n\n"), 400},
    {"connection of no token", IN("GET / HTTP/1.1\r\n" H "Connection: a b\r\n\r\n"), 400},
    {"expects more than we can", IN(P "Expect: 200-ok\r\nContent-Length: 1\r\n\r\n"), 417},
};

static void see(const struct http_request *r, struct buf *out)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "OTHER"};
    buf_add_fmt(out, "%s " STR_FMT "?" STR_FMT " " STR_FMT " %d %s%s %zu '", methods[r->method], STR_ARG(r->path), STR_ARG(r->query),
                STR_ARG(r->host), r->minor, r->keep_alive ? "keep" : "close", r->expects_continue ? " continue" : "", r->header_count);
    for (size_t i = 0; i < r->body.len; i++)
        buf_add_char(out, r->body.ptr[i] >= ' ' ? r->body.ptr[i] : '.');
    buf_add_str(out, str_lit("'"));
}

/* Feeds `in` piece by piece, the first `first` bytes at once, the others `step` at a time; memory ends exactly where data ends, for ASan's sake. */
static enum http_progress feed(struct http_parser *p, struct str in, size_t first, size_t step, char **data, size_t *len)
{
    enum http_progress progress = HTTP_MORE;
    *data = malloc(in.len + 1);
    *len = 0;
    http_parser_start(p, limits);
    for (size_t fed = 0; progress == HTTP_MORE && fed < in.len;) {
        size_t n = fed == 0 && first > 0 ? first : step;
        if (n > in.len - fed)
            n = in.len - fed;
        memcpy(*data + *len, in.ptr + fed, n);
        fed += n;
        *len += n;
        progress = http_parse(p, *data, len);
    }
    return progress;
}

static void expect_good(const struct good *g, size_t first, size_t step)
{
    struct http_parser p;
    char *data, text[512];
    size_t len;
    struct buf out = buf_fixed(text, sizeof text);
    enum http_progress progress = feed(&p, g->in, first, step, &data, &len);
    if (progress != HTTP_COMPLETE)
        fail_msg("%s, cut at %zu: %s", g->name, first, p.why ? p.why : "more wanted");
    see(&p.request, &out);
    if (!str_eq(buf_str(&out), str_of(g->seen)) || p.at != len)
        fail_msg("%s, cut at %zu: [" STR_FMT "], %zu of %zu read", g->name, first, STR_ARG(buf_str(&out)), p.at, len);
    free(data);
}

static void good_requests(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(goods); i++) {
        expect_good(&goods[i], 0, 1);
        for (size_t cut = 1; cut <= goods[i].in.len; cut++)
            expect_good(&goods[i], cut, goods[i].in.len);
    }
}

static void bad_requests(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(bads); i++)
        for (size_t cut = 0; cut <= bads[i].in.len; cut++) {
            struct http_parser p;
            char *data;
            size_t len;
            enum http_progress progress = feed(&p, bads[i].in, cut, cut ? bads[i].in.len : 1, &data, &len);
            if (progress != HTTP_REFUSED || p.status != bads[i].status || !p.why)
                fail_msg("%s, cut at %zu: %d, status %d (%s)", bads[i].name, cut, progress, p.status, p.why ? p.why : "");
            free(data);
        }
}

/* A good request that is not whole yet is never complete and never refused. */
static void beginnings(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(goods); i++)
        for (size_t end = 1; end < goods[i].in.len; end++) {
            struct http_parser p;
            char *data;
            size_t len;
            if (feed(&p, (struct str){goods[i].in.ptr, end}, 0, end, &data, &len) != HTTP_MORE)
                fail_msg("%s: the first %zu bytes were enough", goods[i].name, end);
            free(data);
        }
}

/* Every good request, each straight after another, ends where the next begins. */
static void pipelines(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(goods); i++) {
        const struct good *pair[] = {&goods[i], &goods[(i + 7) % countof(goods)]};
        char data[2048], text[512];
        size_t len = pair[0]->in.len + pair[1]->in.len, at = 0;
        memcpy(data, pair[0]->in.ptr, pair[0]->in.len);
        memcpy(data + pair[0]->in.len, pair[1]->in.ptr, pair[1]->in.len);
        for (int k = 0; k < 2; k++) {
            struct http_parser p;
            struct buf out = buf_fixed(text, sizeof text);
            size_t left = len - at;
            http_parser_start(&p, limits);
            assert_int_equal(http_parse(&p, data + at, &left), HTTP_COMPLETE);
            see(&p.request, &out);
            assert_true(str_eq(buf_str(&out), str_of(pair[k]->seen)));
            at += p.at;
        }
        assert_int_equal(at, len);
    }
}

static enum http_progress parse_all(struct http_parser *p, struct buf *b)
{
    size_t len = b->len;
    http_parser_start(p, limits);
    return http_parse(p, b->ptr, &len);
}

/* Each limit, met exactly and passed by one. */
static void bounds(void **state)
{
    (void)state;
    for (int over = 0; over <= 1; over++) {
        struct http_parser p;
        struct buf line = buf_growing(4096), head = buf_growing(4096), many = buf_growing(4096), trailers = buf_growing(4096);
        buf_add_fmt(&line, "GET /%0*d HTTP/1.1\r\n" H "\r\n", 256 - 14 + over, 0);
        assert_int_equal(parse_all(&p, &line), over ? HTTP_REFUSED : HTTP_COMPLETE);
        assert_int_equal(p.status, over ? 414 : 0);
        buf_add_fmt(&head, "GET / HTTP/1.1\r\n" H "A: %0*d\r\n\r\n", 1024 - 16 - 9 - 7 + over, 0);
        assert_int_equal(head.len, 1024 + over);
        assert_int_equal(parse_all(&p, &head), over ? HTTP_REFUSED : HTTP_COMPLETE);
        assert_int_equal(p.status, over ? 431 : 0);
        buf_add_fmt(&many, "GET / HTTP/1.1\r\n" H);
        for (int i = 1; i < HTTP_HEADERS_MAX + over; i++)
            buf_add_fmt(&many, "a:%d\r\n", i);
        buf_add_fmt(&many, "\r\n");
        assert_int_equal(parse_all(&p, &many), over ? HTTP_REFUSED : HTTP_COMPLETE);
        assert_int_equal(p.status, over ? 431 : 0);
        buf_add_fmt(&trailers, CH "0\r\nA: %0*d\r\n\r\n", 1024 - 7 + over, 0);
        assert_int_equal(parse_all(&p, &trailers), over ? HTTP_REFUSED : HTTP_COMPLETE);
        assert_int_equal(p.status, over ? 431 : 0);
        buf_free(&line), buf_free(&head), buf_free(&many), buf_free(&trailers);
    }
}

/* What can never become good is refused before its end has come. */
static void endless(void **state)
{
    (void)state;
    struct http_parser p;
    struct buf b = buf_growing(4096);
    buf_add_fmt(&b, "GET /%0*d", 300, 0);
    assert_int_equal(parse_all(&p, &b), HTTP_REFUSED);
    assert_int_equal(p.status, 414);
    buf_reset(&b);
    buf_add_fmt(&b, "GET / HTTP/1.1\r\nA: %0*d", 1100, 0);
    assert_int_equal(parse_all(&p, &b), HTTP_REFUSED);
    assert_int_equal(p.status, 431);
    buf_reset(&b);
    buf_add_fmt(&b, CH "0\r\nA: %0*d", 1100, 0);
    assert_int_equal(parse_all(&p, &b), HTTP_REFUSED);
    assert_int_equal(p.status, 431);
    buf_free(&b);
}

static void lookups(void **state)
{
    (void)state;
    struct http_parser p;
    struct buf b = buf_growing(4096);
    bool twice = false;
    buf_add_fmt(&b, "GET /x?a=1&b=&c&a=2&abc=3 HTTP/1.1\r\n" H "X-Y: 1\r\nx-y: 2\r\nEmpty:\r\n\r\n");
    assert_int_equal(parse_all(&p, &b), HTTP_COMPLETE);
    assert_true(str_eq(http_header(&p.request, str_lit("X-y")), str_lit("1")));
    assert_non_null(http_header(&p.request, str_lit("empty")).ptr);
    assert_null(http_header(&p.request, str_lit("none")).ptr);
    assert_true(str_eq(http_query(&p.request, str_lit("abc"), &twice), str_lit("3")) && !twice);
    assert_true(str_eq(http_query(&p.request, str_lit("a"), &twice), str_lit("1")) && twice);
    assert_non_null(http_query(&p.request, str_lit("b"), NULL).ptr);
    assert_non_null(http_query(&p.request, str_lit("c"), NULL).ptr);
    assert_null(http_query(&p.request, str_lit("ab"), NULL).ptr);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_requests), cmocka_unit_test(bad_requests), cmocka_unit_test(beginnings), cmocka_unit_test(pipelines),
        cmocka_unit_test(bounds), cmocka_unit_test(endless), cmocka_unit_test(lookups),
    };
    return cmocka_run_group_tests_name("http_parser", tests, NULL, NULL);
}
