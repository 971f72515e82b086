-- SPDX-License-Identifier: Apache-2.0
-- For wrk: every request is another user's first try, for FIGURES_SKU of FIGURES_ACTIVITY. Prints one line that bench/figures reads.
local threads = 0
function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

local head, tail
local sent, queued = 0, 0

function init()
  head = string.format('{"activity_id":"%s","sku_id":"%s","user_id":"u%d_', os.getenv("FIGURES_ACTIVITY"), os.getenv("FIGURES_SKU"), number)
  tail = string.format('","request_id":"r%d_', number)
end

function request()
  sent = sent + 1
  local id = string.format("%08d", sent)
  return wrk.format("POST", "/v1/reservations", {["Content-Type"] = "application/json"}, head .. id .. tail .. id .. '"}')
end

function done(summary, latency)
  local e = summary.errors
  print(string.format("requests=%d refused=%d broken=%d us=%d p50_us=%d p99_us=%d", summary.requests, e.status,
    e.connect + e.read + e.write + e.timeout, summary.duration, latency:percentile(50), latency:percentile(99)))
end
