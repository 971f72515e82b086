# SPDX-License-Identifier: Apache-2.0
"""A second, independent RocketMQ client, small enough to be believed: it sends a body, reads a queue, asks where a queue ends, and does with a topic
what an operator may do.

A frame: u32 length of the rest, u32 length of the header (JSON where the top byte is 0), header, body. One question at a time.
"""
import json
import os
import socket
import struct

CREATE, EVENT, DEAD = "seckill-create-order", "seckill-order-event", "seckill-dead-letter"
SEND, PULL, TOPIC, MAX_OFFSET, CLUSTER, DELETE_TOPIC = 10, 11, 17, 30, 106, 215
GROUP = "seckill-order"


class Message:
    def __init__(self, queue, offset, body, properties):
        self.queue, self.offset, self.body, self.properties = queue, offset, body, properties
        self.key, self.unique = properties.get("KEYS"), properties.get("UNIQ_KEY")

    @property
    def json(self):
        return json.loads(self.body)


class Broker:
    def __init__(self, port, queues=8, deployment=None):
        """`deployment`: the identity that each message sent names; None: it names none."""
        self.port, self.queues, self.deployment, self.socket, self.opaque = port, queues, deployment, None, 0

    def ask(self, code, fields, body=b""):
        if self.socket is None:
            self.socket = socket.create_connection(("127.0.0.1", self.port), 10)
            self.file = self.socket.makefile("rb")
        self.opaque += 1
        header = json.dumps({"code": code, "flag": 0, "language": "PYTHON", "opaque": self.opaque, "version": 477,
                             "extFields": {k: str(v) for k, v in fields.items()}}).encode()
        try:
            self.socket.sendall(struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body)
            length, head = struct.unpack(">II", self.file.read(8))
            data = self.file.read(length - 4)
        except (OSError, struct.error):
            self.socket = None
            raise
        head &= 0xFFFFFF
        answer = json.loads(data[:head])
        assert answer["opaque"] == self.opaque, answer
        return answer["code"], answer.get("extFields") or {}, data[head:], answer.get("remark")

    def send(self, topic, body, key="", queue=0):
        """Gives the offset it got."""
        properties = f"KEYS\x01{key}\x02UNIQ_KEY\x01{os.urandom(16).hex().upper()}\x02WAIT\x01true\x02"
        if self.deployment:
            properties += f"deployment\x01{self.deployment}\x02"
        code, fields, _, remark = self.ask(SEND, {
            "producerGroup": "second-client", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": queue, "sysFlag": 0,
            "bornTimestamp": 1700000000000, "flag": 0, "properties": properties, "reconsumeTimes": 0, "unitMode": "false", "batch": "false"}, body)
        assert code == 0, (code, remark)
        return int(fields["queueOffset"])

    def widen(self, topic, queues):
        """Gives it so many queues; this client reads that many from now on."""
        code, _, _, remark = self.ask(TOPIC, {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
                                              "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"})
        assert code == 0, (code, remark)
        self.queues = queues

    def delete(self, topic):
        code, _, _, remark = self.ask(DELETE_TOPIC, {"topic": topic})
        assert code == 0, (code, remark)

    def cluster(self):
        """Of a name server: what it knows of its brokers."""
        code, _, body, remark = self.ask(CLUSTER, {})
        assert code == 0, (code, remark)
        return body.decode()

    def end(self, topic, queue):
        code, fields, _, remark = self.ask(MAX_OFFSET, {"topic": topic, "queueId": queue, "committed": "true"})
        assert code == 0, (code, remark)
        return int(fields["offset"])

    def read(self, topic):
        """Everything the topic holds."""
        for queue in range(self.queues):
            at, end = 0, self.end(topic, queue)
            while at < end:
                code, fields, body, remark = self.ask(PULL, {
                    "consumerGroup": GROUP, "topic": topic, "queueId": queue, "queueOffset": at, "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0,
                    "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0, "expressionType": "TAG"})
                assert code in (0, 20), (code, remark)    # found; or not now
                yield from messages(body)
                at = int(fields["nextBeginOffset"])

    def of(self, topic, key):
        return [m for m in self.read(topic) if m.key == key]


def messages(data):
    """As the broker stores them: u32 size, magic, crc, queue, flag, u64 offset, u64 place, u32 sysflag, u64 born, host 8, u64 stored, host 8,
    u32 reconsumed, u64 transaction, u32 + body, u8 + topic, u16 + properties."""
    at = 0
    while at < len(data):
        size, _, _, queue, _, offset = struct.unpack_from(">IIIIIQ", data, at)
        p = at + 84
        (n,) = struct.unpack_from(">I", data, p)
        body = data[p + 4:p + 4 + n]
        p += 4 + n
        p += 1 + data[p]
        (n,) = struct.unpack_from(">H", data, p)
        text = data[p + 2:p + 2 + n].decode()
        yield Message(queue, offset, body, dict(pair.split("\x01", 1) for pair in text.split("\x02") if pair))
        at += size
