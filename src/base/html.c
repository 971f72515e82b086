/* SPDX-License-Identifier: Apache-2.0 */
#include "html.h"

void html_text(struct buf *b, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '<' || c == '>' || c == '&' || c == '"')
            buf_add_fmt(b, "&#%d;", c);
        else
            buf_add_char(b, c);
    }
}
