/* SPDX-License-Identifier: Apache-2.0
 * embed.c: files become bytes of the program, at build.
 *
 *     embed NAME FILE... > out.c
 *
 * writes `const unsigned char NAME[]` (the files one after another, then a zero, so that text may be used as a C string) and
 * `const size_t NAME_size` (without that zero). The users declare both themselves. Ends with 1 when a file cannot be read. */
#include <stdio.h>
#include <stdlib.h>

static size_t embed_file(const char *path, size_t column)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "embed: cannot read %s\n", path);
        exit(1);
    }
    int c;
    while ((c = getc(f)) != EOF)
        printf("%d,%s", c, ++column % 32 == 0 ? "\n" : "");
    if (ferror(f)) {
        fprintf(stderr, "embed: cannot read %s\n", path);
        exit(1);
    }
    fclose(f);
    return column;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: embed NAME FILE... > out.c\n", stderr);
        return 1;
    }
    printf("#include <stddef.h>\n\nextern const unsigned char %s[];\nextern const size_t %s_size;\nconst unsigned char %s[] = {\n",
           argv[1], argv[1], argv[1]);
    size_t size = 0;
    for (int i = 2; i < argc; i++)
        size = embed_file(argv[i], size);
    printf("0};\nconst size_t %s_size = %zu;\n", argv[1], size);
    return fflush(stdout) != 0 || ferror(stdout);
}
