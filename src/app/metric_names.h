/* SPDX-License-Identifier: Apache-2.0
 * metric_names.h: the words that stand in metric labels. */
#pragma once
#include "metric.h"

extern const metric_label_name metric_names[METRIC_LABEL_TABLES];
