"""A go-between for a job that is started by hand: all links between its ranks lead through here.

    rank r  --- control --->  Between  --->  rank 0, at the rendezvous
    rank p  --- data ------>  Between  --->  rank q, for p < q

Rank r is told to meet at Between's address for it; in its descriptor Between puts a port of its own in place of the
rank's, so that lower ranks dial Between. Between reads along and tells what the ranks say they are doing; it can hold
one in a phase, by keeping back what it says at the phase's end, and it can cut one off in mid-message. Sockets of
asyncio in a thread of their own.
"""

import asyncio
import contextlib
import struct
import threading
from typing import NamedTuple

# Control frames (src/cluster/messages.h): a 32-bit length, a tag, fields. Integers are little-endian.
GATHER, GATHERED, HEARTBEAT, PHASE, BYE = 3, 4, 5, 6, 14
# Data links (src/transport/tcp/wire.h): a greeting each way, its rank at 8; frames, type at 4, class at 6, bytes at 24.
HELLO_BYTES, HEADER_BYTES = 92, 56
BYE_FRAME = 3
CLASSES = ("data", "control", "apart")


class Hold(NamedTuple):
    """The rank is not let out of the phase."""
    rank: int
    phase: str


class Cut(NamedTuple):
    """The rank is cut off within one of its messages.

    phase: what it says it does then. within: a "heartbeat", once armed; a "hello" or "bye" of a data link, or a message
    there, by its class; the all-gather of that name. how: "silent", nothing passes any more, as if a cable was pulled;
    "closed", all its links end; "one", this one data link ends; "dumb", what it sends to its peers does not come any
    more, this message included."""
    rank: int
    phase: str
    within: str
    how: str


class Link(NamedTuple):
    """One direction."""
    source: int
    to: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    back: asyncio.StreamWriter  # of the other direction


def text_at(frame, at):
    size = struct.unpack_from("<I", frame, at)[0]
    return frame[at + 4:at + 4 + size].decode(), at + 4 + size


class Between:
    def __init__(self, rendezvous, ranks, hold=None, cut=None):
        """ranks: those beside rank 0."""
        self.rendezvous = rendezvous.split(":")
        self.hold = hold
        self.cut = cut
        self.addresses = {}     # where each rank is to meet
        self.answered = set()   # by the hub: these ranks are taken in
        self.was_cut = threading.Event()
        self._ranks = ranks
        self._said = {rank: [] for rank in ranks}   # their phases, once the hub has been told
        self._heard = {rank: [] for rank in ranks}  # rank 0's phases, once they have been told
        self._gathers = {}      # what is gathered, by sequence
        self._own = {}          # the ranks' own addresses for data
        self._data_ports = {}
        self._data = []         # both directions of each link
        self._control = []
        self._armed = False
        self._cutting = False
        self._off = False
        self._dumb = False
        started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait()

    def _run(self, started):
        asyncio.set_event_loop(self._loop)
        servers = []
        for rank in self._ranks:
            self.addresses[rank] = "127.0.0.1:%d" % self._listen(servers, self._serve_control, rank)
            self._data_ports[rank] = self._listen(servers, self._serve_data, rank)
        started.set()
        self._loop.run_forever()
        for server in servers:
            server.close()
        for link in self._control + self._data:
            link.writer.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    def _listen(self, servers, serve, rank):
        def accept(reader, writer):
            return serve(rank, reader, writer)
        server = self._loop.run_until_complete(asyncio.start_server(accept, "127.0.0.1", 0))
        servers.append(server)
        return server.sockets[0].getsockname()[1]

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def arm(self):
        """The next heartbeat is the one to cut within."""
        self._armed = True

    def is_in(self, rank, phase):
        """Does everybody who has to name the rank know that it is in this phase?"""
        return all(each[-1:] == [phase] for each in self._told_of(rank))

    def _told_of(self, rank):
        """The rank's phases, as told to each who would name it: the hub, or, of rank 0, all others."""
        return self._heard.values() if rank == 0 else [self._said[rank]]

    # --- links -------------------------------------------------------------------------------------------------

    async def _serve_control(self, rank, reader, writer):
        while True:  # rank 0 may start later
            try:
                hub_reader, hub_writer = await asyncio.open_connection(*self.rendezvous)
                break
            except OSError:
                await asyncio.sleep(0.02)
        up = Link(rank, 0, reader, hub_writer, writer)
        down = Link(0, rank, hub_reader, writer, hub_writer)
        self._control += [up, down]
        await asyncio.gather(self._pass(self._control_up, up), self._pass(self._control_down, down))

    async def _serve_data(self, rank, reader, writer):
        try:
            hello = await reader.readexactly(HELLO_BYTES)
            own_reader, own_writer = await asyncio.open_connection(*self._own[rank])
        except (OSError, asyncio.IncompleteReadError):
            writer.close()
            return
        peer = struct.unpack_from("<I", hello, 8)[0]
        to = Link(peer, rank, reader, own_writer, writer)
        back = Link(rank, peer, own_reader, writer, own_writer)
        self._data += [to, back]
        await asyncio.gather(self._pass(self._data_frames, to, hello), self._pass(self._data_frames, back))

    async def _pass(self, pump, link, *arguments):
        """The end of one side is that of the other, unless the rank is cut off."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await pump(link, *arguments)
        if not self._is_off(link) and not (self._dumb and link in self._data):
            link.writer.close()

    def _is_off(self, link):
        return self._off and self.cut.rank in (link.source, link.to)

    async def _send(self, link, message):
        if self._is_off(link):
            return
        link.writer.write(message)
        await link.writer.drain()

    # --- what passes -------------------------------------------------------------------------------------------

    async def _control_frame(self, link):
        length = await link.reader.readexactly(4)
        return length, bytearray(await link.reader.readexactly(struct.unpack("<I", length)[0]))

    async def _control_up(self, link):
        said = self._said[link.source]
        while True:
            length, frame = await self._control_frame(link)
            tag = frame[0]
            if tag in (GATHER, BYE) and said and self.hold == (link.source, said[-1]):
                continue
            if tag == GATHER:
                what, at = text_at(frame, 9)
                self._gathers[struct.unpack_from("<Q", frame, 1)[0]] = what
                if what == "descriptors":
                    self._readdress(link.source, frame, at + 4)
                await self._cut_if_due(link, what, length + frame, len(frame) // 2)
            if tag == HEARTBEAT and self._armed:
                await self._cut_if_due(link, "heartbeat", length + frame, 3)
            await self._send(link, length + frame)
            if tag == PHASE and not self._is_off(link):
                said.append(text_at(frame, 1)[0])

    async def _control_down(self, link):
        heard = self._heard[link.to]
        while True:
            length, frame = await self._control_frame(link)
            tag = frame[0]
            self.answered.add(link.to)
            if tag == GATHERED:
                what = self._gathers[struct.unpack_from("<Q", frame, 1)[0]]
                await self._cut_if_due(link, what, length + frame, len(frame) // 2)
            if tag == HEARTBEAT and self._armed:
                await self._cut_if_due(link, "heartbeat", length + frame, 3)
            if self._cutting and self.cut.rank == 0 and self.cut.phase in heard:
                continue  # said after the cut
            await self._send(link, length + frame)
            if tag == PHASE:
                heard.append(text_at(frame, 1)[0])

    def _readdress(self, rank, frame, at):
        """In the descriptor at `at`: magic, version, text of the address, port."""
        size = struct.unpack_from("<H", frame, at + 5)[0]
        port_at = at + 7 + size
        self._own[rank] = (frame[at + 7:port_at].decode(), struct.unpack_from("<H", frame, port_at)[0])
        struct.pack_into("<H", frame, port_at, self._data_ports[rank])

    async def _data_frames(self, link, hello=None):
        hello = hello or await link.reader.readexactly(HELLO_BYTES)
        await self._cut_if_due(link, "hello", hello, HELLO_BYTES // 2)
        await self._send(link, hello)
        while True:
            header = await link.reader.readexactly(HEADER_BYTES)
            size = struct.unpack_from("<Q", header, 24)[0]
            message = header + await link.reader.readexactly(size)
            what = "bye" if header[4] == BYE_FRAME else CLASSES[header[6]]
            await self._cut_if_due(link, what, message, HEADER_BYTES + size // 2 if size else HEADER_BYTES // 2)
            if not (self._dumb and link.source == self.cut.rank):
                await self._send(link, message)

    # --- the cut -----------------------------------------------------------------------------------------------

    async def _cut_if_due(self, link, what, message, at):
        if self._cutting or not self.cut or (link.source, what) != (self.cut.rank, self.cut.within):
            return
        self._cutting = True
        if self.cut.how == "dumb":
            self._dumb = True
            self.was_cut.set()
            return
        await self._send(link, message[:at])
        # So that those who name the rank know what it was doing: they are told, and have time to read it.
        while not self._has_told():
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        self._end(link)
        self.was_cut.set()
        if self.cut.how == "one":
            raise asyncio.CancelledError

    def _has_told(self):
        return self.cut.phase == "rendezvous" or all(self.cut.phase in each for each in self._told_of(self.cut.rank))

    def _end(self, link):
        if self.cut.how == "one":
            link.writer.close()
            link.back.close()
            return
        self._off = True
        if self.cut.how == "closed":
            for each in self._control + self._data:
                if self._is_off(each):
                    each.writer.close()
