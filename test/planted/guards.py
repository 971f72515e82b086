# SPDX-License-Identifier: Apache-2.0
"""Guards that may not be missed: take one away, and a test must fail. Each row: what the guard is for, the file, the text that is there once, what stands there
without the guard, and the tests of which one at least must find it, the quickest first. tools/planted does it, in a copy.

A row whose text is not found any more is a fault too: the guard has moved, and the row must follow it."""

GUARDS = [
    # ---- (a) reserve.lua and its neighbours: the bucket
    ("one unit of an item for one user", "src/engine/redis/reserve.lua",
     "elseif standing then\n", "elseif false then\n", ["contract_store_redis"]),
    ("the same request is the same reservation", "src/engine/redis/reserve.lua",
     "elseif undecided then\n", "elseif false then\n", ["contract_store_redis"]),
    ("a closed bucket sells nothing", "src/engine/redis/reserve.lua",
     "elseif meta[2] then\n", "elseif false then\n", ["contract_store_redis"]),
    ("a qualification token is used once", "src/engine/redis/reserve.lua",
     "elseif nonce_used or flags % 2 == 1 then\n", "elseif flags % 2 == 1 then\n", ["contract_store_redis"]),
    ("the window ends", "src/engine/redis/reserve.lua",
     "elseif now >= ends then\n", "elseif false then\n", ["contract_store_redis"]),
    ("a return is taken once", "src/engine/redis/restock.lua",
     "if generation <= highest_seen(sku, unit, place) then\n", "if generation < highest_seen(sku, unit, place) then\n", ["contract_store_redis"]),
    ("what came back rests", "src/engine/redis/restock.lua",
     "local ready = format('%d', now_ms() + REST_MS)\n", "local ready = format('%d', now_ms())\n", ["contract_store_redis"]),
    ("a status never goes back", "src/engine/redis/settle.lua",
     "  return sub(RESERVATION_MOVES, place, place) == '1'\n", "  return true\n", ["contract_store_redis"]),
    ("an ordered unit is withdrawn from sale", "src/engine/redis/settle.lua",
     "  if highest <= generation then\n", "  if false then\n", ["contract_store_redis"]),
    # ---- (b) place_orders and its neighbours: the ledger
    ("an order is of the unit's present generation", "src/engine/postgres/place.sql",
     "SELECT i.*, i.available AND i.generation = i.held AS matches,", "SELECT i.*, i.available AS matches,", ["contract_ledger_postgres"]),
    ("a request that was refused is never ordered", "src/engine/postgres/place.sql",
     "AND x.outcome = 'RELEASED' LIMIT 1) IS NULL\n      ORDER BY", "AND false LIMIT 1) IS NULL\n      ORDER BY", ["contract_ledger_postgres"]),
    ("one transaction decides a request at a time", "src/engine/postgres/place.sql",
     "    PERFORM pg_advisory_xact_lock(k.key) FROM (", "    PERFORM k.key FROM (", ["ledger_postgres"]),
    ("a unit of another item is not touched", "src/engine/postgres/place.sql",
     "JOIN inventory_token t ON t.unit = i.unit AND t.activity_id = i.activity AND t.sku_id = i.sku\n      WHERE i.fresh ORDER BY",
     "JOIN inventory_token t ON t.unit = i.unit\n      WHERE i.fresh ORDER BY", ["contract_ledger_postgres"]),
    ("the offset moves only from where it was read", "src/engine/postgres/place.sql",
     "WHERE held.next = held.come_from;", "WHERE true;", ["contract_ledger_postgres"]),
    ("a row that was renewed stays", "src/engine/postgres/outbox.sql",
     "ON b.outbox_id = f.id AND b.version = f.version\n", "ON b.outbox_id = f.id\n", ["contract_ledger_postgres", "contract_ledger_twin"]),
    # ---- (c) the relay
    ("a row is finished only when its effect is known", "src/core/relay.c",
     "        if (last && whole)\n", "        if (last)\n", ["core_workers", "core_bounds", "road_memory"]),
    ("an answer without a verdict is no effect", "src/core/relay.c",
     "    return reason_fate(reason) == FATE_DONE || (kind", "    return reason_fate(reason) != FATE_REFUSED || (kind", ["core_workers", "road_memory"]),
    ("a unit that has moved on is not returned", "src/core/relay.c",
     "    if (o->stale) {\n", "    if (false) {\n", ["core_workers", "road_memory"]),
    # ---- others that decide
    ("sold out needs two rounds without a return between", "src/core/soldout.c",
     "sold &= w->now[b].restocks == w->then[b].restocks ? w->now[b].empty & w->then[b].empty : 0;", "sold &= w->now[b].empty & w->then[b].empty;",
     ["core_desk"]),
    ("a made-up id is refused", "src/core/ident.c",
     "        ours |= check_of(keys->check[i], &id) == check_in(&id);\n", "        ours |= true || check_of(keys->check[i], &id) == check_in(&id);\n", ["core_names"]),
]
