#!/usr/bin/env python3
"""A TCP proxy on 127.0.0.1 that breaks on command. Started by cut.sh; takes one command per connection on a unix socket.

  cut              reset every connection, go on accepting new ones
  drop             reset every connection and each new one, until `resume`
  stall            keep connections open (and accept new ones) but forward nothing, until `resume`
  resume           forward again
  after N ACTION   once N more bytes went from client to target: cut, drop or stall, at exactly that byte
  count            bytes forwarded so far: "client-to-target target-to-client connections-open"
"""
import argparse
import asyncio
import os
import socket
import struct

CHUNK = 64 * 1024


class Proxy:
    def __init__(self, target):
        self.target = target
        self.open = set()  # writers of both ends of every connection
        self.dropping = False
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.budget = None  # bytes left until the planned action
        self.action = None
        self.up = self.down = 0

    async def serve(self, reader, writer):
        self.open.add(writer)
        other = None
        end = reset
        try:
            await self.flowing.wait()
            if self.dropping:
                return
            other_reader, other = await asyncio.open_connection("127.0.0.1", self.target)
            self.open.add(other)
            await asyncio.gather(self.pump_up(reader, other), self.pump_down(other_reader, writer))
            end = asyncio.StreamWriter.close  # both sides said they are done: what is still buffered goes out
        except (ConnectionError, OSError):
            pass  # either end went away: so does the other
        finally:
            for w in (writer, other):
                if w is not None:
                    self.open.discard(w)
                    end(w)

    async def pump_up(self, reader, writer):
        while data := await reader.read(CHUNK):
            while data:
                await self.flowing.wait()
                part = data if self.budget is None else data[: self.budget]
                data = data[len(part):]
                writer.write(part)
                await writer.drain()
                self.up += len(part)
                self.spend(len(part))
        writer.write_eof()

    async def pump_down(self, reader, writer):
        while data := await reader.read(CHUNK):
            await self.flowing.wait()
            writer.write(data)
            await writer.drain()
            self.down += len(data)
        writer.write_eof()

    def spend(self, n):
        if self.budget is not None:
            self.budget -= n
            if self.budget <= 0:
                self.budget = None
                self.do(self.action)

    def do(self, what):
        if what == "stall":
            self.flowing.clear()
        elif what == "resume":
            self.dropping = False
            self.flowing.set()
        elif what in ("cut", "drop"):
            self.dropping = what == "drop"
            for w in list(self.open):
                reset(w)
            self.flowing.set()  # whoever waits finds its connection gone
        else:
            raise ValueError("cut, drop, stall, resume, after N ACTION or count")

    def command(self, words):
        if words[:1] == ["count"]:
            return f"{self.up} {self.down} {len(self.open) // 2}"
        if words[:1] == ["after"] and len(words) == 3 and words[2] in ("cut", "drop", "stall"):
            self.budget, self.action = int(words[1]), words[2]
            self.spend(0)
        else:
            self.do(" ".join(words))
        return "ok"

    async def control(self, reader, writer):
        words = (await reader.readline()).decode().split()
        try:
            answer = self.command(words)
        except ValueError as error:
            answer = f"error: {error}"
        writer.write(answer.encode() + b"\n")
        writer.close()


def reset(writer):
    """Close so that the peer gets a reset, not an orderly end, even when data is still on its way."""
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("listen", type=int)
    parser.add_argument("target", type=int)
    parser.add_argument("control", help="path of the control socket")
    args = parser.parse_args()
    proxy = Proxy(args.target)
    if os.path.exists(args.control):
        os.unlink(args.control)
    os.umask(0o077)
    await asyncio.start_unix_server(proxy.control, args.control)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", args.listen)
    await server.serve_forever()


asyncio.run(main())
