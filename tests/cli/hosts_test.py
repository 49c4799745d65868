"""Several hosts: network namespaces of this one, joined by a cable whose rate is limited.

Two ranks run in each of two namespaces with a pair of veth devices between them, so that nothing but the cable leads
from one to the other. Needs the rights to make all that; exits with 77, which ctest takes for a skipped test, where
they are lacking, and says which.
"""

import contextlib
import csv
import os
import re
import signal
import subprocess
import sys
import time
import unittest

from program import PATIENCE, ProgramTest, wait_until

RATE = "200mbit"
STEPS = 20
TIMEOUT = 2.0  # of a peer, in seconds
SLACK = 6.0    # of this machine, beside all that the program may take
TOKEN = {"DLOBD_JOB_TOKEN": "a secret"}
NAMES = tuple(f"dlobd{os.getpid()}{side}" for side in "ab")
ADDRESSES = ("10.77.0.1", "10.77.0.2")


def call(*words):
    result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
                            check=False)
    if result.returncode != 0:
        raise OSError(f"{' '.join(words)}: {result.stderr.strip() or result.returncode}")
    return result.stdout


def make_hosts():
    for name in NAMES:
        call("ip", "netns", "add", name)
    call("ip", "link", "add", "cable", "netns", NAMES[0], "type", "veth", "peer", "name", "cable", "netns", NAMES[1])
    for name, address in zip(NAMES, ADDRESSES):
        call("ip", "-n", name, "address", "add", f"{address}/24", "dev", "cable")
        call("ip", "-n", name, "link", "set", "lo", "up")
        call("ip", "-n", name, "link", "set", "cable", "up")
        call("tc", "-n", name, "qdisc", "add", "dev", "cable", "root", "tbf", "rate", RATE, "burst", "64kb",
             "latency", "50ms")
        call("ip", "netns", "exec", name, "true")


def remove_hosts(names=NAMES):
    for name in names:
        with contextlib.suppress(OSError):
            subprocess.run(["ip", "netns", "delete", name], stdin=subprocess.DEVNULL, capture_output=True, check=False)


def remove_those_of_killed_tests():
    with contextlib.suppress(OSError):
        for name in call("ip", "netns", "list").split():
            owner = re.fullmatch(r"dlobd(\d+)[ab]", name)
            if owner and not os.path.exists(f"/proc/{owner.group(1)}"):
                remove_hosts([name])


def carried(host):
    """Bytes that have left a host by its cable."""
    columns = call("ip", "netns", "exec", NAMES[host], "cat", "/proc/net/dev")
    line = [line for line in columns.splitlines() if line.strip().startswith("cable:")][0]
    return int(line.split(":")[1].split()[8])


class Hosts(ProgramTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(remove_hosts)  # after the processes that setUp's own clean-up ends
        make_hosts()

    def start_on(self, host, words, environment):
        return self.start(["ip", "netns", "exec", NAMES[host], *words], environment)

    def job(self, *words, stack="allreduce"):
        """Ranks 0 and 1 on the first host, 2 and 3 on the second, which share no folder for records."""
        ranks = []
        for rank in range(4):
            place = ("--rank", str(rank), "--world-size", "4", "--rendezvous", f"{ADDRESSES[0]}:7000",
                     "--local-batch-size", "10", "--peer-timeout", str(TIMEOUT), "--out", self.path(f"host-{rank // 2}"))
            ranks.append(self.start_on(rank // 2, self.train_words(*place, *words, stack=stack), TOKEN))
        return ranks

    def result_of(self, out, saved):
        record, rows = self.record(out)
        self.assertEqual(record["status"], "finished")
        with open(os.path.join(self.runs(out)[0], "evaluations.csv"), encoding="utf-8", newline="") as file:
            evaluations = [(row["step"], row["loss"], row["accuracy"]) for row in csv.DictReader(file)]
        self.assertTrue(evaluations)
        counts = [{key: rank[key] for key in ("rank", "messages_sent", "bytes_sent", "messages_received",
                                              "bytes_received")} for rank in record["ranks"]]
        losses = {(row["rank"], row["step"]): row["loss"] for row in rows}
        self.assertEqual(len(losses), 4 * STEPS)
        weights = {}
        for name in sorted(os.listdir(saved)):
            with open(os.path.join(saved, name), "rb") as file:
                weights[name] = file.read()
        self.assertTrue(weights)
        return {"evaluations": evaluations, "counts": counts, "losses": losses}, weights, record

    def assert_same_as_on_one_host(self, stack):
        common = ("--steps", str(STEPS), "--checkpoint")
        before = [carried(host) for host in (0, 1)]
        ranks = self.job(*common, self.path("hosts-saved"), stack=stack)
        for process in ranks:
            self.assertEqual(process.wait(PATIENCE), 0, process.said())
        crossed = [carried(host) - before[host] for host in (0, 1)]
        apart, apart_weights, record = self.result_of(self.path("host-0"), self.path("hosts-saved"))
        self.assertEqual(self.runs(self.path("host-1")), [])

        result = self.train("--ranks", "4", "--local-batch-size", "10", "--out", self.path("one"), *common,
                            self.path("one-saved"), stack=stack)
        self.assertEqual(result.returncode, 0, result)
        together, together_weights, _ = self.result_of(self.path("one"), self.path("one-saved"))
        self.assertEqual(apart, together)
        self.assertTrue(apart_weights == together_weights, "checkpoints differ")
        self.assertEqual(record["environment"]["interface"], "cable")
        return record, crossed

    def test_allreduce(self):
        record, crossed = self.assert_same_as_on_one_host("allreduce")
        # Whichever way the ring or the doubling goes, no rank's data reaches the other side but by the cable.
        weights = 4 * (64 * 10 + 10)
        for host in (0, 1):
            self.assertGreater(crossed[host], STEPS * weights)
        self.assertGreater(sum(rank["bytes_sent"] for rank in record["ranks"]), 0)
        # So say the cards themselves, in the record.
        for rank in record["ranks"]:
            self.assertGreater(rank["port_bytes_sent"], STEPS * weights)
            self.assertGreater(rank["port_bytes_received"], STEPS * weights)

    def test_caffeonspark(self):
        self.assert_same_as_on_one_host("caffeonspark")

    def test_the_cable_is_as_slow_as_it_says(self):
        """What the other tests measure against: 4 MB at the limit take their time."""
        receiver = subprocess.Popen(
            ["ip", "netns", "exec", NAMES[1], sys.executable, "-c",
             "import socket\ns = socket.create_server(('', 7001)); print('up', flush=True); c = s.accept()[0]\n"
             "while c.recv(1 << 16): pass"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(receiver.wait, PATIENCE)
        self.addCleanup(receiver.stdout.close)
        self.addCleanup(receiver.kill)
        self.assertEqual(receiver.stdout.readline(), "up\n")
        begun = time.monotonic()
        call("ip", "netns", "exec", NAMES[0], sys.executable, "-c",
             f"import socket\nc = socket.create_connection(('{ADDRESSES[1]}', 7001))\n"
             "c.sendall(bytes(4 << 20)); c.shutdown(socket.SHUT_WR); c.recv(1)")
        self.assertGreater(time.monotonic() - begun, 0.8 * (4 << 20) * 8 / 200e6)

    def test_ranks_meet_by_slurms_words(self):
        """Nodes that are called by their addresses: no name service leads into a namespace."""
        ranks = []
        for rank in range(4):
            host = rank // 2
            task = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank),
                    "SLURM_LOCALID": str(rank % 2), "SLURM_NODEID": str(host), "SLURM_STEP_NUM_TASKS": "4",
                    "SLURM_STEP_NODELIST": "10.77.0.[1-2]", "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
                    "SLURMD_NODENAME": ADDRESSES[host]}
            words = self.train_words("--steps", str(STEPS), "--local-batch-size", "10")
            ranks.append(self.start_on(host, words, task))
        for process in ranks:
            self.assertEqual(process.wait(PATIENCE), 0, process.said())
        record, rows = self.record()
        self.assertEqual(record["status"], "finished")
        self.assertEqual(len(rows), 4 * STEPS)

    def test_a_cut_cable_ends_both_sides(self):
        ranks = self.job("--steps", "100000000", "--evaluate-every", "100000000")
        wait_until(lambda: "step" in ranks[0].said() or ranks[0].poll() is not None, "a first step")
        call("ip", "-n", NAMES[0], "link", "set", "cable", "down")
        begun = time.monotonic()
        for process in ranks:
            self.assertEqual(process.wait(PATIENCE), 1, process.said())
        self.assertLess(time.monotonic() - begun, 3 * TIMEOUT + SLACK)
        # No side can know how the other fares: each names a rank of the other.
        for rank, process in enumerate(ranks):
            lost = [line for line in process.said().splitlines() if line.startswith("dlobd train: peer lost: rank ")]
            self.assertEqual(len(lost), 1, process.said())
            culprit = int(lost[0].split("peer lost: rank ")[1].split()[0].rstrip(":,"))
            self.assertNotEqual(culprit // 2, rank // 2, lost[0])
        self.assertEqual(ranks[0].said().splitlines()[-1], ranks[1].said().splitlines()[-1])
        self.assertEqual(self.record(self.path("host-0"))[0]["status"], "failed")


def missing_rights():
    """Why no hosts can be made here; None: they can."""
    remove_those_of_killed_tests()
    try:
        make_hosts()
    except OSError as error:
        return str(error)
    finally:
        remove_hosts()
    return None


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # with the clean-up on the way
    WHY = missing_rights()
    if WHY:
        print(f"skipped: network namespaces with veth and tbf are not permitted here: {WHY}")
        sys.exit(77)
    unittest.main()
