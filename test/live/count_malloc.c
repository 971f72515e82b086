/* SPDX-License-Identifier: Apache-2.0
 * count_malloc.c: counts what a process asks of malloc. Preloaded, it keeps the count in the first eight bytes of the file named by COUNT_MALLOC, where others
 * can read it while the process runs (bench/allocations). */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t n);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void *malloc(size_t n);
void *calloc(size_t count, size_t n);
void *realloc(void *p, size_t n);
int posix_memalign(void **out, size_t align, size_t n);

static uint64_t nowhere, *count = &nowhere;

__attribute__((constructor)) static void open_count(void)
{
    const char *path = getenv("COUNT_MALLOC");
    int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0 || ftruncate(fd, sizeof *count) != 0)
        return;
    void *shared = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared != MAP_FAILED)
        count = shared;
}

static void one_more(void) { __atomic_fetch_add(count, 1, __ATOMIC_RELAXED); }

void *malloc(size_t n)
{
    one_more();
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    one_more();
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    one_more();
    return __libc_realloc(p, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    one_more();
    *out = __libc_memalign(align, n);
    return *out || n == 0 ? 0 : ENOMEM;
}
