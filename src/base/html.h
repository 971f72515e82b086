/* SPDX-License-Identifier: Apache-2.0
 * html.h: text put into a page. */
#pragma once
#include "buf.h"

/* Text as text, between tags or in an attribute's "…", whatever it holds. */
void html_text(struct buf *b, struct str text);
