/* SPDX-License-Identifier: Apache-2.0
 * admin_page.h: the plain status page at / of the admin listener: no script, nothing fetched from anywhere. */
#pragma once
#include "config.h"
#include "health.h"
#include "ledger.h"

/* `reason`: how the ledger answered; `activities`: NULL where it did not. */
void admin_page_write(struct buf *out, const struct config *config, const struct health *health, enum reason reason, const struct activities_answer *activities);
