# SPDX-License-Identifier: Apache-2.0
"""Create-order messages as the access role makes them, computed from the sale's own keys: the id's check and the mark (docs/protocol.md §9).
Written from the protocol and independent of the C code, for messages that carry valid marks though no access role sent them."""
import calendar
import hashlib
import struct
import time

LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
MASK = (1 << 64) - 1


def rotate(x, n):
    return (x << n | x >> (64 - n)) & MASK


def siphash(key, data):
    """SipHash-2-4 of bytes under a key of two words."""
    v = [key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573]

    def rounds(n):
        for _ in range(n):
            v[0], v[2] = (v[0] + v[1]) & MASK, (v[2] + v[3]) & MASK
            v[1], v[3] = rotate(v[1], 13) ^ v[0], rotate(v[3], 16) ^ v[2]
            v[0] = rotate(v[0], 32)
            v[2], v[0] = (v[2] + v[1]) & MASK, (v[0] + v[3]) & MASK
            v[1], v[3] = rotate(v[1], 17) ^ v[2], rotate(v[3], 21) ^ v[0]
            v[2] = rotate(v[2], 32)

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 255])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def derive(secret, purpose):
    root = struct.unpack("<QQ", hashlib.sha256(secret.encode()).digest()[:16])
    return tuple(siphash(root, struct.pack("<QB", purpose, half)) for half in (0, 1))


def checked(secret, letters):
    """The 26 letters of an id, with the last 16 of its 128 bits replaced by their check."""
    number = 0
    for c in letters:
        number = number << 5 | LETTERS.index(c)
    h = siphash(derive(secret, 1), (number >> 16).to_bytes(14, "big"))
    number = number >> 16 << 16 | (h ^ h >> 16 ^ h >> 32 ^ h >> 48) & 0xFFFF
    return "".join(LETTERS[number >> 5 * i & 31] for i in reversed(range(26)))


def milliseconds(text):
    whole, _, rest = text.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) * 1000 + int((rest + "000")[:3])


def mark(secret, body):
    unit, generation = body["inventory_token_id"].removeprefix("token_").split("-")
    content = struct.pack("<5Q", body["schema_version"], int(unit), int(generation), milliseconds(body["created_at"]), body["epoch"])
    for name in ("reservation_id", "request_id", "activity_id", "sku_id", "user_id", "trace_id"):
        text = body.get(name, "").encode()
        content += bytes([len(text)]) + text
    return f"{siphash(derive(secret, 3), content) or 1:016x}"


def genuine(sale, body):
    """The same message with a valid check in its ids and a valid mark."""
    secret = sale.environ["SECKILL_IDS_KEYS"].split(",")[0]
    own = checked(secret, body["reservation_id"][4:])
    body = body | {"reservation_id": "rsv_" + own, "message_id": "msg_" + own}
    return body | {"mark": mark(secret, body)}
