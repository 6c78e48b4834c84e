"""Prints what happens in a fanin service, from the first record on: docs/protocol.md, spoken without Rust.

Run it beside `fanin serve` with python3 and its package msgpack (python3-msgpack):
    python3 examples/subscriber.py "$(cat ~/.local/state/fanin/store/socket)"
"""

import socket, struct, sys
import msgpack

def send(stream, message):
    body = msgpack.packb(message)
    stream.sendall(struct.pack(">I", len(body)) + body)

def frames(stream):
    with stream.makefile("rb") as come:
        while head := come.read(4):
            yield msgpack.unpackb(come.read(struct.unpack(">I", head)[0]))

with socket.socket(socket.AF_UNIX) as stream:
    stream.connect(sys.argv[1])
    send(stream, {"versions": {"oldest": 1, "newest": 1}, "program": "subscriber.py"})
    told = frames(stream)
    print(next(told), flush=True)
    send(stream, {"request": {"id": 1, "call": {"subscribe": {"since": "start"}}}})
    for message in told:
        event = message.get("item", {}).get("item", {}).get("event")
        if event:
            print(event["seq"], event["kind"], msgpack.unpackb(event["body"]), flush=True)
