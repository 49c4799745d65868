"""A go-between for one rank that is started by hand: all of its links lead through here.

    rank r      --- control --->  Between  --->  rank 0, at the rendezvous
    its peers   --- data ------>  Between  --->  rank r

The rank is told to meet at Between's address; in its own descriptor Between puts its port in place of the rank's, so
that lower ranks dial Between. (It must be the highest rank for all its data links to be dialled by others.) Between
reads along and tells what the rank says it is doing; it can hold the rank in a phase, by keeping back what it says at
the phase's end, and it can cut it off in mid-message. Sockets of asyncio in a thread of their own.
"""

import asyncio
import contextlib
import struct
import threading

# Control frames (src/cluster/messages.h): a 32-bit length, a tag, fields. Integers are little-endian.
GATHER, HEARTBEAT, PHASE, BYE = 3, 5, 6, 14
# Data links (src/transport/tcp/wire.h): a greeting each way, then frames: type at 4, class at 6, bytes at 24.
HELLO_BYTES, HEADER_BYTES = 92, 56
WRITE_FRAME, BYE_FRAME = 1, 3
DATA, APART = 0, 2


def text_at(frame, at):
    size = struct.unpack_from("<I", frame, at)[0]
    return frame[at + 4:at + 4 + size].decode(), at + 4 + size


class Between:
    def __init__(self, rendezvous, hold=None, cut=None, how=None):
        """hold: the phase whose end the rank is not let out of. cut: the phase within one of whose messages the rank is
        cut off. how: "silent", nothing passes any more, as if a cable was pulled; "closed", all links end; "one", this
        one data link ends; "dumb", the bytes from the rank to its peers do not come any more, this message's included."""
        self.rendezvous = rendezvous.split(":")
        self.hold = hold
        self.cut = cut
        self.how = how
        self.said = []         # phases of the rank, once the hub has been told
        self.hub_said = []     # phases of rank 0, as the hub tells the rank
        self.answered = False  # by the hub: the rank is taken in
        self.was_cut = threading.Event()
        self._cutting = False
        self._off = False
        self._dumb = False
        self._own = None       # the rank's own address for data
        self._control = []     # writers of the control link, the hub's side first
        self._data = []
        started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait()

    def _run(self, started):
        asyncio.set_event_loop(self._loop)
        serve = self._loop.run_until_complete
        control = serve(asyncio.start_server(self._serve_control, "127.0.0.1", 0))
        data = serve(asyncio.start_server(self._serve_data, "127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % control.sockets[0].getsockname()[1]
        self._data_port = data.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        control.close()
        data.close()
        for writer in self._control + self._data:
            writer.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    # --- links -------------------------------------------------------------------------------------------------

    async def _serve_control(self, reader, writer):
        while True:  # rank 0 may start later
            try:
                hub_reader, hub_writer = await asyncio.open_connection(*self.rendezvous)
                break
            except OSError:
                await asyncio.sleep(0.02)
        self._control += [hub_writer, writer]
        await asyncio.gather(self._pass(self._control_up(reader, hub_writer), hub_writer),
                             self._pass(self._control_down(hub_reader, writer), writer))

    async def _serve_data(self, reader, writer):
        try:
            own_reader, own_writer = await asyncio.open_connection(*self._own)
        except OSError:
            writer.close()
            return
        self._data += [writer, own_writer]
        await asyncio.gather(self._pass(self._data_up(own_reader, writer, own_writer), writer),
                             self._pass(self._data_down(reader, own_writer), own_writer))

    async def _pass(self, pump, to):
        """The end of one side is that of the other, unless the rank is cut off."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await pump
        if not self._off and not (self._dumb and to in self._data):
            to.close()

    async def _send(self, writer, message):
        if self._off:
            return
        writer.write(message)
        await writer.drain()

    # --- what passes -------------------------------------------------------------------------------------------

    async def _control_up(self, reader, hub):
        while True:
            length = await reader.readexactly(4)
            frame = bytearray(await reader.readexactly(struct.unpack("<I", length)[0]))
            tag = frame[0]
            if tag in (GATHER, BYE) and self.hold in self.said[-1:]:
                continue
            if tag == GATHER:
                what, at = text_at(frame, 9)
                if what == "descriptors":
                    self._readdress(frame, at + 4)
                # The evaluation before it has moved all that is to be saved: this is what a snapshot sends.
                if what == "a snapshot" and self.cut == "snapshot":
                    await self._cut_within(length + frame, len(frame) // 2, hub)
            if tag == HEARTBEAT and self.cut == "rendezvous":
                await self._cut_within(length + frame, 3, hub)
            await self._send(hub, length + frame)
            if tag == PHASE and not self._off:
                self.said.append(text_at(frame, 1)[0])

    async def _control_down(self, hub, writer):
        while True:
            length = await hub.readexactly(4)
            frame = await hub.readexactly(struct.unpack("<I", length)[0])
            self.answered = True
            if frame[0] == PHASE:
                self.hub_said.append(text_at(frame, 1)[0])
            await self._send(writer, length + frame)

    def _readdress(self, frame, at):
        """In the descriptor at `at`: magic, version, text of the address, port."""
        size = struct.unpack_from("<H", frame, at + 5)[0]
        port_at = at + 7 + size
        self._own = (frame[at + 7:port_at].decode(), struct.unpack_from("<H", frame, port_at)[0])
        struct.pack_into("<H", frame, port_at, self._data_port)

    async def _data_up(self, reader, writer, own_writer):
        hello = await reader.readexactly(HELLO_BYTES)
        if self.cut == "connect":
            await self._cut_within(hello, HELLO_BYTES // 2, writer, own_writer)
        await self._send(writer, hello)
        while True:
            header = await reader.readexactly(HEADER_BYTES)
            size = struct.unpack_from("<Q", header, 24)[0]
            message = header + await reader.readexactly(size)
            if self._is_due(header[4], header[6]):
                within = HEADER_BYTES + size // 2 if size else HEADER_BYTES // 2
                await self._cut_within(message, within, writer, own_writer)
            if not self._dumb:
                await self._send(writer, message)

    def _is_due(self, frame_type, traffic):
        if self.cut == "train":
            return frame_type == WRITE_FRAME and traffic == DATA
        if self.cut == "evaluate":
            return traffic == APART
        return self.cut == "end" and frame_type == BYE_FRAME

    async def _data_down(self, reader, own_writer):
        while True:
            some = await reader.read(65536)
            if not some:
                return
            await self._send(own_writer, some)

    async def _cut_within(self, message, at, writer, own_writer=None):
        if self._cutting:  # in another message
            return
        self._cutting = True
        if self.how == "dumb":
            self._dumb = True
            self.was_cut.set()
            return
        await self._send(writer, message[:at])
        # So that the hub knows what the rank was doing: it is told, and has time to read it.
        while self.cut != "rendezvous" and self.cut not in self.said:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        if self.how == "one":
            writer.close()
            own_writer.close()
        else:
            self._off = True
            if self.how == "closed":
                for each in self._control + self._data:
                    each.close()
        self.was_cut.set()
        if self.how == "one":
            raise asyncio.CancelledError
