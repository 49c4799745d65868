"""What the tests of the command line share: a small data set, runs of the program, and a look at what they leave.

The path of the program is the environment variable DLOBD; ctest sets it. Standard library alone.
"""

import contextlib
import csv
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["DLOBD"]
SIDE = 8
PATIENCE = 60  # seconds that no run of these tests needs
TIMEOUT = 1.0  # of a peer, in seconds
SLACK = 4.0    # of this machine, beside all that the program may take
PORTS = itertools.count(random.randrange(65536))
ENDLESS = ("--steps", "100000000", "--evaluate-every", "100000000")


def images_file(pixels, count, side=SIDE, magic=0x803):
    return struct.pack(">IIII", magic, count, side, side) + pixels


def labels_file(labels, magic=0x801):
    return struct.pack(">II", magic, len(labels)) + bytes(labels)


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)


def write_data_set(folder, train=600, test=60, side=SIDE):
    """Pictures of 8 x 8, if no other, whose every tenth pixel, counted from the label, is bright: a line separates them."""
    os.makedirs(folder)
    dice = random.Random(1)
    for prefix, count in (("train", train), ("t10k", test)):
        labels = [dice.randrange(10) for _ in range(count)]
        pixels = bytearray()
        for label in labels:
            pixels += bytes(dice.randrange(60) + (190 if i % 10 == label else 0) for i in range(side * side))
        write(f"{folder}/{prefix}-images-idx3-ubyte", images_file(pixels, count, side))
        write(f"{folder}/{prefix}-labels-idx1-ubyte", labels_file(labels))


def children(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    return []


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode().split("\0")[:-1]
    except OSError:
        return []


def wait_until(condition, what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def free_port():
    """None of those that are handed out to whoever asks for any, nor one of an earlier call, so that it stays free."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        handed_out = int(file.read().split()[0])
    while True:
        port = 1024 + next(PORTS) % (handed_out - 1024) if handed_out > 2048 else 0
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return probe.getsockname()[1]


def listening():
    """The sockets that listen on this machine: port and inode, so that a port taken again is another."""
    sockets = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                if fields[3] == "0A":
                    sockets.add((fields[1].split(":")[1], fields[9]))
    return sockets


def listening_of(pids):
    inodes = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # it may have ended
            for number in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{number}"))
                    if found:
                        inodes.add(found.group(1))
    return {(port, inode) for port, inode in listening() if inode in inodes}


def shared_memory(pids):
    """What lies in /dev/shm, but for files that bear the process id of somebody else."""
    names = set()
    for name in os.listdir("/dev/shm"):
        owner = re.match(r"\d+", name)
        if not owner or int(owner.group()) in pids:
            names.add(name)
    return names


class ProgramTest(unittest.TestCase):
    """Each test has a folder of its own, with a data set in `data`; no process that names it may be left."""

    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="dlobd-cli-")
        self.addCleanup(self.clean)
        self.data = self.path("data")
        self.out = self.path("runs")
        write_data_set(self.data)

    def clean(self):
        for pid in self.left_processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def left_processes(self):
        mine = os.getpid()
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != mine and any(self.folder in w for w in command_of(int(name))):
                found.append(int(name))
        return found

    def train_words(self, *words, stack="allreduce"):
        usual = {"--stack": stack, "--model": "softmax", "--processor": "reference", "--data": self.data,
                 "--out": self.out}
        unsaid = [word for option, value in usual.items() if option not in words for word in (option, value)]
        return [PROGRAM, "train", *unsaid, *words]

    def run_words(self, words, environment=None, **options):
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
                              env={**os.environ, **(environment or {})}, check=False, **options)

    def train(self, *words, stack="allreduce", environment=None, **options):
        return self.run_words(self.train_words(*words, stack=stack), environment, **options)

    def start(self, words, environment=None, **options):
        # Files, not pipes: nobody has to read them for the program to go on.
        out = open(self.path(f"stdout-{len(os.listdir(self.folder))}"), "w+", encoding="utf-8")
        err = open(self.path(f"stderr-{len(os.listdir(self.folder))}"), "w+", encoding="utf-8")
        self.addCleanup(out.close)
        self.addCleanup(err.close)
        process = subprocess.Popen(words, env={**os.environ, **(environment or {})},
                                   **{"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err, **options})
        process.shown = lambda: self.text_of(out)
        process.said = lambda: self.text_of(err)
        self.addCleanup(process.wait, PATIENCE)
        self.addCleanup(process.kill)
        return process

    @staticmethod
    def text_of(file):
        with open(file.name, encoding="utf-8") as again:
            return again.read()

    def runs(self, out=None):
        out = out or self.out
        if not os.path.isdir(out):
            return []
        return sorted(os.path.join(out, name) for name in os.listdir(out) if name.startswith("2"))

    def record(self, out=None):
        """The one record that is there: run.json and the rows of steps.csv."""
        runs = self.runs(out)
        self.assertEqual(len(runs), 1, runs)
        self.assertEqual(sorted(os.listdir(runs[0])), ["evaluations.csv", "run.json", "steps.csv"])
        with open(os.path.join(runs[0], "run.json"), encoding="utf-8") as file:
            record = json.load(file)
        with open(os.path.join(runs[0], "steps.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return record, rows

    def assert_nothing_runs(self):
        wait_until(lambda: not self.left_processes(), f"no process left, but there are {self.left_processes()}", 5)


class RefusalTest(ProgramTest):
    """Exit status 2, one clear line, nothing left behind."""

    def assert_refused(self, result, *words):
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(result.stdout, "", result)
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("dlobd"), lines[0])
        for word in words:
            self.assertIn(word, lines[0])
        self.assertFalse(os.path.exists(self.out), "the folder of runs was made")
        self.assertEqual([n for n in os.listdir(self.folder) if n.startswith(".")], [])
        self.assertEqual(self.left_processes(), [])

    def refused(self, arguments, *words, stack="allreduce", environment=None):
        with self.subTest(arguments=arguments):
            result = self.train(*arguments.split(), stack=stack, environment=environment)
            self.assert_refused(result, *words)
