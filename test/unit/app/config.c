/* SPDX-License-Identifier: Apache-2.0
 * Settings: which layer wins, what is refused and in which words, what is hidden. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "check.h"
#include "config.h"
#include "config_file.h"

static char env_text[8][96], *env[9];
static size_t env_count;

static void env_set(const char *name, const char *value)
{
    assert_true(env_count < countof(env_text));
    snprintf(env_text[env_count], sizeof env_text[0], "%s=%s", name, value);
    env[env_count] = env_text[env_count];
    env[++env_count] = NULL;
}

static char file_path[] = "/tmp/seckill-config-XXXXXX";
static const char *file_of(const char *text)
{
    strcpy(file_path + sizeof file_path - 7, "XXXXXX");
    int fd = mkstemp(file_path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return file_path;
}

static int setup(void **state)
{
    (void)state;
    env[env_count = 0] = NULL;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(file_path);
    return 0;
}

static char complaints_text[8192];
static enum config_result load(struct config *c, const char *file, const struct config_flag *flags, size_t count)
{
    struct buf complaints = buf_fixed(complaints_text, sizeof complaints_text - 1);
    enum config_result r = config_load(c, &(struct config_source){.file = file, .flags = flags, .flag_count = count, .env = env}, &complaints);
    complaints_text[complaints.len] = 0;
    return r;
}

static void the_stronger_layer_wins(void **state)
{
    (void)state;
    struct config c;
    assert_int_equal(load(&c, NULL, NULL, 0), CONFIG_GOOD);
    assert_string_equal(c.redis_url, "redis://127.0.0.1:6379");
    assert_string_equal(c.from[SETTING_redis_url].where, "default");
    config_free(&c);
    const char *file = file_of("redis:\n  url: redis://file:1\n  in_flight: 250\nroles: [access, relay]\naccess.threads: 3\n");
    assert_int_equal(load(&c, file, NULL, 0), CONFIG_GOOD);
    assert_string_equal(c.redis_url, "redis://file:1");
    assert_int_equal(c.redis_in_flight, 250);
    assert_int_equal(c.access_threads, 3);
    assert_true(config_has_role(&c, "relay") && !config_has_role(&c, "order"));
    assert_non_null(strstr(c.from[SETTING_redis_url].where, ":2"));
    config_free(&c);
    env_set("SECKILL_REDIS_URL", "redis://env:1");
    assert_int_equal(load(&c, file, NULL, 0), CONFIG_GOOD);
    assert_string_equal(c.redis_url, "redis://env:1");
    assert_int_equal(c.redis_in_flight, 250);    /* the file still counts where nothing stronger speaks */
    config_free(&c);
    struct config_flag flag = {SETTING_redis_url, "redis://flag:1"};
    assert_int_equal(load(&c, file, &flag, 1), CONFIG_GOOD);
    assert_string_equal(c.redis_url, "redis://flag:1");
    assert_string_equal(c.from[SETTING_redis_url].where, "flag --redis-url");
    config_free(&c);
}

static void a_misspelt_variable_is_refused(void **state)
{
    (void)state;
    struct config c;
    env_set("SECKILL_SERVICE_HOST", "10.0.0.1");    /* what Kubernetes and our own tools set is theirs */
    env_set("SECKILL_PORT_8480_TCP_ADDR", "10.0.0.1");
    env_set("SECKILL_RUN", "/tmp");
    env_set("SECKILL_IDS_KEYS_FILE", file_of("a-secret-of-our-own-0123456789\n"));
    assert_int_equal(load(&c, NULL, NULL, 0), CONFIG_GOOD);
    config_free(&c);
    static const struct { const char *name, *meant; } cases[] = {
        {"SECKILL_REDIS_ULR", "did you mean SECKILL_REDIS_URL?"},
        {"SECKILL_ROLE", "did you mean SECKILL_ROLES?"},
        {"SECKILL_AUTH_JWT_KEY", "did you mean SECKILL_AUTH_JWT_KEYS?"},
        {"SECKILL_AUTH_JWT_KEY_FILE", "did you mean SECKILL_AUTH_JWT_KEYS_FILE?"},
        {"SECKILL_REDIS_URL_FILE_", "did you mean"}};
    for (size_t i = 0; i < countof(cases); i++) {
        env_count = 0;
        env_set(cases[i].name, "x");
        assert_int_equal(load(&c, NULL, NULL, 0), CONFIG_BAD);
        assert_non_null(strstr(complaints_text, cases[i].name));
        assert_non_null(strstr(complaints_text, cases[i].meant));
        config_free(&c);
    }
}

static void a_complaint_names_key_value_and_origin(void **state)
{
    (void)state;
    static const struct { const char *file, *expected; } cases[] = {
        {"access.threads: 65\n", "access.threads: \"65\" from file"},
        {"access.threads: many\n", "a whole number from 1 to 64"},
        {"redis:\n  ulr: x\n", ":2: there is no setting \"redis.ulr\"; did you mean \"redis.url\"?"},
        {"log.level: loud\n", "one of debug|info|warn|error|fatal"},
        {"log.level: info\nlog:\n  level: warn\n", "log.level is set twice"},
        {"roles: access,cashier\n", "access, order, relay, janitor, admin"},
        {"roles: access,order,access\n", "each once"},
        {"http.listen: here\n", "an address and a port"},
        {"http.listen: ::1:80\n", "an address and a port"},
        {"ids.keys: short\n", "ids.keys: the value from file"},
        {"ids.keys: aaaaaaaaaaaaaaaa,bbbbbbbbbbbbbbbb,cccccccccccccccc\n", "one or two secrets"},
        {"- a\n- b\n", "a list is not expected"},
        {"redis: &x {url: y}\nroles: *x\n", "anchors and tags are not read"},
        {"roles: *x\n", "aliases are not read"},
        {"redis: [{url: x}]\n", "only plain values"},
        {"redis: {url: x\n", "file /"},
        {"redis.url: &here redis://a\n", "anchors and tags are not read"},
        {"order.batch: !!int 3\n", "anchors and tags are not read"},
        {"roles: [access, &x order]\n", "anchors and tags are not read"},
        {"auth: &x {mode: none}\n", "anchors and tags are not read"},
        {"order.batch: 1\n---\nrelay.batch: 2\n", "one document is enough"},
        {"admin.listen: 127.0.0.1:8480\n", "another address than http.listen"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct config c;
        assert_int_equal(load(&c, file_of(cases[i].file), NULL, 0), CONFIG_BAD);
        if (!strstr(complaints_text, cases[i].expected))
            fail_msg("for %s: %s", cases[i].file, complaints_text);
        config_free(&c);
        unlink(file_path);
    }
    struct config c;
    assert_int_equal(load(&c, "/nonexistent/seckill.yaml", NULL, 0), CONFIG_BAD);
    assert_non_null(strstr(complaints_text, "/nonexistent/seckill.yaml"));
    config_free(&c);
}

/* Whatever the bytes say: a remark, or a value that does not end. */
static void a_file_has_an_end(void **state)
{
    (void)state;
    static char text[CONFIG_FILE_MAX + 2];
    static const struct { const char *start; enum config_result whole; } rows[] = {{"# ", CONFIG_GOOD}, {"log.level: ", CONFIG_BAD}};
    for (size_t i = 0; i < countof(rows); i++)
        for (int over = 0; over <= 1; over++) {
            struct config c;
            memset(text, 'x', sizeof text);
            memcpy(text, rows[i].start, strlen(rows[i].start));
            text[CONFIG_FILE_MAX + over] = 0;
            assert_int_equal(load(&c, file_of(text), NULL, 0), over ? CONFIG_BAD : rows[i].whole);
            assert_int_equal(strstr(complaints_text, "the file is too long") != NULL, over);
            config_free(&c);
            unlink(file_path);
        }
}

static void an_empty_file_says_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "# only words\n", "---\n", "redis:\n"};
    for (size_t i = 0; i < countof(texts) - 1; i++) {
        struct config c;
        assert_int_equal(load(&c, file_of(texts[i]), NULL, 0), CONFIG_GOOD);
        config_free(&c);
        unlink(file_path);
    }
}

static void secrets_come_from_files_and_are_not_shown(void **state)
{
    (void)state;
    struct config c;
    char shown[256];
    struct buf out = buf_fixed(shown, sizeof shown);
    env_set("SECKILL_IDS_KEYS_FILE", file_of("a-secret-of-our-own-0123456789\n"));
    env_set("SECKILL_POSTGRES_URL", "postgresql://seckill:geheim@db:5432/s?sslmode=disable");
    assert_int_equal(load(&c, NULL, NULL, 0), CONFIG_GOOD);
    assert_string_equal(c.ids_keys, "a-secret-of-our-own-0123456789");
    config_show(&c, SETTING_ids_keys, &out);
    assert_true(str_eq(buf_str(&out), str_lit("(hidden)")));
    buf_reset(&out);
    config_show(&c, SETTING_postgres_url, &out);
    assert_true(str_eq(buf_str(&out), str_lit("postgresql://seckill:***@db:5432/s?sslmode=disable")));
    config_free(&c);
    env_set("SECKILL_IDS_KEYS", "another-secret-0123456789");
    assert_int_equal(load(&c, NULL, NULL, 0), CONFIG_BAD);
    assert_non_null(strstr(complaints_text, "say it once"));
    config_free(&c);
    env_count = 0;
    env_set("SECKILL_IDS_KEYS_FILE", "/nonexistent/key");
    assert_int_equal(load(&c, NULL, NULL, 0), CONFIG_BAD);
    assert_non_null(strstr(complaints_text, "/nonexistent/key"));
    config_free(&c);
}

static void a_password_in_a_libpq_string_is_hidden(void **state)
{
    (void)state;
    struct config c;
    char shown[256];
    struct buf out = buf_fixed(shown, sizeof shown);
    static const struct { const char *url, *shown; } cases[] = {
        {"host=/tmp password=geheim dbname=s", "host=/tmp password=*** dbname=s"},
        {"host=/tmp password='sehr \\' geheim' dbname=s", "host=/tmp password=*** dbname=s"},
        {"password = geheim&so dbname=s", "password = *** dbname=s"},
        {"sslpassword=geheim password=geheim", "sslpassword=*** password=***"},
        {"postgresql://u:geheim@h/d?sslpassword=geheim&password=geheim", "postgresql://u:***@h/d?sslpassword=***&password=***"},
        {"postgresql://u@h/d?user=password", "postgresql://u@h/d?user=password"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct config_flag flag = {SETTING_postgres_url, cases[i].url};
        assert_int_equal(load(&c, NULL, &flag, 1), CONFIG_GOOD);
        buf_reset(&out);
        config_show(&c, SETTING_postgres_url, &out);
        shown[out.len] = 0;
        assert_string_equal(shown, cases[i].shown);
        config_free(&c);
    }
}

static void what_no_engine_could_use_is_refused(void **state)
{
    (void)state;
    static const struct config_flag bad[] = {
        {SETTING_redis_url, "http://127.0.0.1"}, {SETTING_redis_url, "redis://h:port"}, {SETTING_redis_url, "redis://a:6379,b:6379"}, {SETTING_redis_url, "redis://a,b"}, {SETTING_redis_url, "redis://a b:1"}, {SETTING_redis_url, "redis://h:6379/db"},
        {SETTING_redis_url, "unix:relative"}, {SETTING_postgres_url, "rubbish"}, {SETTING_postgres_url, "postgresql://h/db?nosuch=1"},
        {SETTING_payment_webhook_keys, "YS1rZXktb2YtdGhpcy10ZXN0LWFsb25lLTEyMzQ1Njc4OTA="}, {SETTING_payment_webhook_keys, "whsec_YS1rZXktb2YtdGhpcy10ZXN0LWFsb25lLTEyMzQ=,whsec_short"},
        {SETTING_payment_webhook_keys, "whsec_YS1rZXktb2YtdGhpcy10ZXN0LWFsb25lL_-yMzQ="}, {SETTING_payment_webhook_keys, "whsec_YS1rZXktb2YtdGhpcy10ZXN0LWFsb25lLTEyMzR="},
        {SETTING_auth_jwt_keys, "prod.2026:0123456789abcdef"}, {SETTING_auth_jwt_keys, "k:short"}, {SETTING_auth_jwt_keys, ":0123456789abcdef"},
        {SETTING_auth_jwt_keys, "a:0123456789abcdef,b:0123456789abcdef,c:0123456789abcdef,d:0123456789abcdef,e:0123456789abcdef,f:0123456789abcdef,g:0123456789abcdef,"
                                "h:0123456789abcdef,i:0123456789abcdef"},
        {SETTING_rocketmq_namesrv, ";;;"}, {SETTING_rocketmq_namesrv, "host"}, {SETTING_rocketmq_namesrv, "a:1;b"}, {SETTING_rocketmq_namesrv, "a:1,b:0"}};
    static const struct config_flag good[] = {
        {SETTING_redis_url, "redis://u:p@[::1]:6379/3"}, {SETTING_postgres_url, "host=/tmp dbname=s"}, {SETTING_rocketmq_namesrv, "a:1; [::1]:2,c:3;"}};
    struct config c;
    for (size_t i = 0; i < countof(bad); i++) {
        assert_int_equal(load(&c, NULL, &bad[i], 1), CONFIG_BAD);
        assert_non_null(strstr(complaints_text, setting_row(bad[i].setting)->key));
        config_free(&c);
    }
    for (size_t i = 0; i < countof(good); i++) {
        assert_int_equal(load(&c, NULL, &good[i], 1), CONFIG_GOOD);
        config_free(&c);
    }
}

static void what_strangers_could_use_is_refused(void **state)
{
    (void)state;
    static const struct { struct config_flag flags[8]; size_t count; enum config_result result; } cases[] = {
        {{{SETTING_http_listen, "0.0.0.0:8480"}}, 1, CONFIG_UNSAFE},
        {{{SETTING_admin_listen, "10.0.0.1:8481"}}, 1, CONFIG_UNSAFE},
        {{{SETTING_http_listen, "[::1]:8480"}}, 1, CONFIG_GOOD},
        {{{SETTING_auth_mode, "jwt"}, {SETTING_auth_jwt_keys, "k:0123456789abcdef"}}, 2, CONFIG_UNSAFE},
        {{{SETTING_auth_mode, "jwt"}, {SETTING_auth_jwt_keys, "k:0123456789abcdef"}, {SETTING_ids_keys, "0123456789abcdefg"}}, 3, CONFIG_UNSAFE},
        {{{SETTING_auth_mode, "jwt"}, {SETTING_auth_jwt_keys, "k:0123456789abcdef"}, {SETTING_ids_keys, "0123456789abcdefg"},
          {SETTING_qualification_keys, "q:0123456789abcdefg"}, {SETTING_ids_user_key, "0123456789abcdefg"}}, 5, CONFIG_UNSAFE},
        {{{SETTING_auth_mode, "jwt"}, {SETTING_auth_jwt_keys, "k:0123456789abcdef"}, {SETTING_ids_keys, "0123456789abcdefg"},
          {SETTING_qualification_keys, "q:0123456789abcdefg"}, {SETTING_ids_user_key, "0123456789abcdefg"},
          {SETTING_payment_webhook_keys, "whsec_YS1rZXktb2YtdGhpcy10ZXN0LWFsb25lLTEyMzQ="}, {SETTING_admin_tokens, "0123456789abcdef"}}, 7, CONFIG_GOOD},
        {{{SETTING_auth_mode, "jwt"}, {SETTING_auth_jwt_keys, "k:0123456789abcdef"}, {SETTING_ids_keys, "0123456789abcdefg"},
          {SETTING_qualification_keys, "q:0123456789abcdefg"}, {SETTING_ids_user_key, "0123456789abcdefg"},
          {SETTING_payment_webhook_keys, "whsec_YS1rZXktb2YtdGhpcy10ZXN0LWFsb25lLTEyMzQ="}}, 6, CONFIG_UNSAFE},    /* an admin API without a token */
        {{{SETTING_auth_mode, "jwt"}, {SETTING_auth_jwt_keys, "k:0123456789abcdef"}, {SETTING_ids_keys, "0123456789abcdefg"},
          {SETTING_qualification_keys, "q:0123456789abcdefg"}, {SETTING_ids_user_key, "0123456789abcdefg"},
          {SETTING_payment_webhook_keys, "whsec_YS1rZXktb2YtdGhpcy10ZXN0LWFsb25lLTEyMzQ="}, {SETTING_roles, "access,order"}}, 7, CONFIG_GOOD},
        {{{SETTING_admin_tokens, "0123456789abcde"}}, 1, CONFIG_BAD},
        {{{SETTING_admin_tokens, "0123456789abcdef, with blanks inside"}}, 1, CONFIG_BAD},
        {{{SETTING_admin_tokens, "0123456789abcdef,fedcba9876543210"}, {SETTING_admin_hosts, "ops.example.org, metrics"}}, 2, CONFIG_GOOD},
        {{{SETTING_admin_hosts, "http://ops.example.org"}}, 1, CONFIG_BAD},
        {{{SETTING_admin_hosts, "ops.example.org:8481"}}, 1, CONFIG_BAD},
        {{{SETTING_admin_hosts, "*.example.org"}}, 1, CONFIG_BAD},
        {{{SETTING_auth_mode, "jwt"}, {SETTING_ids_keys, "0123456789abcdefg"}, {SETTING_qualification_keys, "q:0123456789abcdefg"}}, 3, CONFIG_UNSAFE},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct config c;
        if (load(&c, NULL, cases[i].flags, cases[i].count) != cases[i].result)
            fail_msg("case %zu: %s", i, complaints_text);
        config_free(&c);
    }
    /* A key that everybody knows is one wherever it stands in a list. */
    static const struct config_flag mixed[] = {
        {SETTING_ids_keys, "0123456789abcdefg,development-only-ids-key"}, {SETTING_ids_keys, " development-only-ids-key"},
        {SETTING_qualification_keys, "q:0123456789abcdefg,q2:development-only-qualification-key"},
        {SETTING_payment_webhook_keys, "whsec_YS1rZXktb2YtdGhpcy10ZXN0LWFsb25lLTEyMzQ=,whsec_ZGV2ZWxvcG1lbnQtb25seS13ZWJob29rLWtleQ=="}};
    for (size_t i = 0; i < countof(mixed); i++) {
        struct config_flag flags[8] = {{SETTING_admin_tokens, "0123456789abcdef"}, {SETTING_auth_mode, "jwt"}, {SETTING_auth_jwt_keys, "k:0123456789abcdef"}, {SETTING_ids_keys, "0123456789abcdefg"},
                                       {SETTING_qualification_keys, "q:0123456789abcdefg"}, {SETTING_ids_user_key, "0123456789abcdefg"},
                                       {SETTING_payment_webhook_keys, "whsec_YS1rZXktb2YtdGhpcy10ZXN0LWFsb25lLTEyMzQ="}};
        for (size_t f = 0; f < 7; f++)
            if (flags[f].setting == mixed[i].setting)
                flags[f] = mixed[i];
        struct config c;
        assert_int_equal(load(&c, NULL, flags, 7), CONFIG_UNSAFE);
        config_free(&c);
    }
}

static void every_row_has_a_flag_an_environment_name_and_words(void **state)
{
    (void)state;
    char flags[SETTING_COUNT][SETTING_NAME_MAX], variable[SETTING_NAME_MAX];
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        const struct setting_row *row = setting_row((enum setting)i);
        enum setting found;
        assert_true(setting_find(str_of(row->key), &found) && (unsigned)found == i);
        setting_flag((enum setting)i, flags[i]);
        setting_env((enum setting)i, variable);
        assert_true(strncmp(flags[i], "--", 2) == 0 && strncmp(variable, "SECKILL_", 8) == 0);
        assert_true(strlen(row->text) > 10);
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(flags[i], flags[j]);
    }
    setting_env(SETTING_redis_url, variable);
    assert_string_equal(variable, "SECKILL_REDIS_URL");
    assert_string_equal(flags[SETTING_redis_url], "--redis-url");
}

static void every_layer_may_be_full_to_the_brim(void **state)
{
    (void)state;
    static char most[16385];
    memset(most, 'x', sizeof most - 1);
    struct config_flag flags[64];
    for (size_t i = 0; i < countof(flags); i++)
        flags[i] = (struct config_flag){SETTING_redis_url, most};
    struct config c;
    assert_int_equal(load(&c, NULL, flags, countof(flags)), CONFIG_BAD);
    config_free(&c);
}

static void addresses_and_lists_are_taken_apart(void **state)
{
    (void)state;
    char host[64];
    uint16_t port;
    assert_true(config_address("[fe80::1]:1", host, &port) && strcmp(host, "fe80::1") == 0 && port == 1);
    assert_true(config_address("localhost:65535", host, &port) && port == 65535);
    static const char *const bad[] = {":1", "a", "a:", "a:65536", "a:-1", "a:1x", "[]:1"};
    for (size_t i = 0; i < countof(bad); i++)
        if (config_address(bad[i], host, &port) && strcmp(bad[i], "[]:1") != 0)
            fail_msg("%s", bad[i]);
    assert_true(str_eq(config_item("a, b ,c", 1), str_lit("b")));
    assert_true(str_eq(config_item("a, b ,c", 2), str_lit("c")));
    assert_null(config_item("a, b ,c", 3).ptr);
    assert_null(config_item("", 0).ptr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_stronger_layer_wins, setup, teardown),
        cmocka_unit_test_setup_teardown(a_misspelt_variable_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_complaint_names_key_value_and_origin, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_has_an_end, setup, teardown),
        cmocka_unit_test_setup_teardown(an_empty_file_says_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(secrets_come_from_files_and_are_not_shown, setup, teardown),
        cmocka_unit_test_setup(a_password_in_a_libpq_string_is_hidden, setup),
        cmocka_unit_test_setup(what_no_engine_could_use_is_refused, setup),
        cmocka_unit_test_setup(what_strangers_could_use_is_refused, setup),
        cmocka_unit_test(every_row_has_a_flag_an_environment_name_and_words),
        cmocka_unit_test_setup(every_layer_may_be_full_to_the_brim, setup),
        cmocka_unit_test(addresses_and_lists_are_taken_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
