"""A rank that is killed, stopped or cut off in mid-message, in each phase of a job: all who are left name the same one.

One job for each design, role of the lost rank, phase and fault. Ranks are started by hand; a go-between (between.py)
keeps them in the phase, or cuts within one of their messages. By default every fault with CaffeOnSpark's fixed design,
and kills with every other. The environment variable FAULTS asks for others: `all`, or words that a job's title must all
contain ("bigdl: driver silent"). Jobs run side by side, for they mostly wait.
"""

import concurrent.futures
import os
import signal
import statistics
import threading
import time
import unittest
from typing import NamedTuple

from between import Between, Cut, Hold
from program import (ENDLESS, PATIENCE, SLACK, TIMEOUT, ProgramTest, free_port, listening, listening_of,
                     shared_memory, wait_until)

PHASES = ("rendezvous", "connect", "train", "evaluate", "snapshot", "end")
SERVING = ("train", "evaluate", "snapshot")  # what the workers do while a server has one phase
SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}
TOKEN = {"DLOBD_JOB_TOKEN": "a secret"}
STARTED = 3  # ranks
AT_ONCE = 4  # jobs; with more a rank may miss its turn for a time-out


class Design(NamedTuple):
    stack: str
    words: tuple = ()
    server: str = ""           # its role, where there is one
    settle: tuple = ()         # the roles that send something when an evaluation begins
    server_step: str = "data"  # the class of what a server sends in a step


TF_PS = Design("tensorflowonspark_ps", server="ps", settle=("rank 0", "worker", "ps"))
IMPROVED = ("--behaviour", "improved")
# An improved tensorflowonspark is allreduce.
DESIGNS = {
    "caffeonspark, fixed": Design("caffeonspark", ("--behaviour", "fixed"), settle=("rank 0", "worker")),
    "caffeonspark, improved": Design("caffeonspark", IMPROVED, settle=("worker",)),
    "allreduce": Design("allreduce"),
    "tensorflowonspark": Design("tensorflowonspark"),
    "tensorflowonspark_ps, asynchronous": TF_PS,
    "tensorflowonspark_ps, synchronous": TF_PS._replace(words=("--updates", "synchronous")),
    "tensorflowonspark_ps, improved": TF_PS._replace(words=IMPROVED),
    "bigdl": Design("bigdl", server="driver", settle=("worker",), server_step="control"),
    "bigdl, improved": Design("bigdl", IMPROVED, settle=("worker",)),
}
IN_FULL = "caffeonspark, fixed"  # it moves bytes in every phase


def cut_within(design, role, phase):
    """The message within which a rank of this role is cut off. Where it sends none in the phase: what it gathers then,
    or, a server, which gathers nothing, a heartbeat."""
    if phase == "train":
        return design.server_step if role == design.server else "data"
    if phase == "evaluate" and role in design.settle:
        return "apart"
    # The evaluation before it has moved all that is to be saved.
    gathered = {"evaluate": "an evaluation", "snapshot": "a snapshot"}
    if phase in gathered and role != design.server:
        return gathered[phase]
    return {"connect": "hello", "end": "bye"}.get(phase, "heartbeat")


class Job:
    """Three ranks, on their way into `phase`; the one to lose has `role`. In the rendezvous they wait in vain for a
    fourth, a worker."""

    def __init__(self, test, design, role, phase, fault):
        servers = 1 if design.server else 0
        absent = 1 if phase == "rendezvous" else 0
        workers = STARTED - servers + absent
        size = workers + servers
        self.ranks = list(range(size))
        self.started = [rank for rank in self.ranks if not absent or rank != workers - 1]
        self.victim = {"rank 0": 0, "worker": self.started[-1 - servers], design.server: size - 1}[role]
        # Of the rank to lose, as it says.
        self.phase = f"serving as {role}" if role == design.server and phase in SERVING else phase
        self.out = test.path("runs")
        self.shared_memory = shared_memory([])  # before
        cut = None
        if fault not in SIGNALS:
            cut = Cut(self.victim, self.phase, cut_within(design, role, phase), fault)
        rendezvous = f"127.0.0.1:{free_port()}"
        self.between = Between(rendezvous, self.started[1:], self.hold(phase, cut), cut)
        test.addCleanup(self.between.close)
        # Who is killed is missed at once: a longer time-out makes no job longer, and forgives a busy machine.
        timeout = 2 * TIMEOUT if fault == "killed" else TIMEOUT
        length = ENDLESS if phase == "train" else ("--steps", "4", "--evaluate-every", "2", "--checkpoint",
                                                   test.path("kept"))
        self.processes = {}
        for rank in self.started:
            out = self.out
            if rank == self.victim and fault in ("silent", "closed"):
                out = test.path("cut-off")  # no folder is shared with a host that is cut off
            words = test.train_words("--rank", str(rank), "--world-size", str(size), "--rendezvous",
                                     self.between.addresses.get(rank, rendezvous), "--local-batch-size", "10",
                                     "--peer-timeout", str(timeout), "--out", out, *length, *design.words,
                                     stack=design.stack)
            self.processes[rank] = test.start(words, TOKEN)
        self.wait_until(lambda: self.between.answered == set(self.started[1:]), "ranks that are taken in")
        self.ports = listening_of([process.pid for process in self.processes.values()])

    def hold(self, phase, cut):
        """Whom to keep in the phase. Training does not end by itself, and a cut comes when its message does. But a rank
        that has left in order cannot be lost any more, and heartbeats come at any time."""
        if phase in ("rendezvous", "train") or (cut and cut.how not in ("silent", "closed")):
            return None
        if cut and phase != "end" and cut.within != "heartbeat":
            return None
        return Hold(1 if self.victim == 0 or self.phase != phase else self.victim, phase)

    def wait_for_phase(self, phase):
        if phase == "rendezvous":
            return
        ranks = {self.victim: self.phase}
        if self.phase != phase:
            ranks[1] = phase
        self.wait_until(lambda: all(self.between.is_in(*each) for each in ranks.items()), f"ranks in phase {phase}")

    def wait_for_cut(self, phase):
        if self.between.cut.within == "heartbeat":
            self.wait_for_phase(phase)
            self.between.arm()
        self.wait_until(self.between.was_cut.is_set, f"a cut in phase {phase}")

    def wait_until(self, condition, what):
        """What comes before the fault: no rank may end."""
        def is_so():
            if condition():
                return True
            ended = {rank: process.said() for rank, process in self.processes.items() if process.poll() is not None}
            if ended:
                raise AssertionError(f"ended before {what}: {ended}")
            return False
        wait_until(is_so, what)

    def left(self):
        return [rank for rank in self.started if rank != self.victim]


class Loss(ProgramTest):
    def __init__(self, design, role, phase, fault):
        super().__init__("lose")
        self.design, self.role, self.phase, self.fault = design, role, phase, fault
        self.took = None  # seconds, until all who were left had ended

    def __str__(self):
        return f"{self.design}: {self.role}, {self.phase}: {self.fault}"

    def lose(self):
        job = Job(self, DESIGNS[self.design], self.role, self.phase, self.fault)
        self.assertTrue(job.ports)
        if self.fault in SIGNALS:
            words = self.lose_by_signal(job)
        else:
            words = self.lose_by_cut(job)
        record = self.assert_kept_and_gone(job, words)
        if self.fault not in ("one", "dumb"):
            who = "it holds what rank 1 has measured"
            self.assertEqual(who in " ".join(record["warnings"]), job.victim == 0, record["warnings"])

    def lose_by_signal(self, job):
        job.wait_for_phase(self.phase)
        victim = job.processes[job.victim]
        os.kill(victim.pid, SIGNALS[self.fault])
        words = self.assert_lost(job, job.left(), f"peer lost: rank {job.victim}, in phase {job.phase}: ")
        if self.fault == "stopped":
            # Should it run again, it ends as well.
            os.kill(victim.pid, signal.SIGCONT)
            self.assert_lost(job, [job.victim], "peer lost: rank ")
        else:
            victim.wait(PATIENCE)
        return words

    def lose_by_cut(self, job):
        job.wait_for_cut(self.phase)
        if self.fault in ("silent", "closed"):
            words = self.assert_lost(job, job.left(), f"peer lost: rank {job.victim}, in phase {job.phase}: ")
            # What is cut off cannot know that the others are well.
            self.assert_lost(job, [job.victim], "peer lost: rank ")
            return words
        # The rank is alive for rank 0. Where its peers wait for its last bytes it is to blame; where one link has
        # ended, either end; but by all alike, itself included.
        culprit = f"{job.victim}, in phase {job.phase}" if self.fault == "dumb" else r"\d, in phase [\w ]+"
        words = self.assert_lost(job, job.started, f"peer lost: rank {culprit}: ")
        self.assertEqual(len(set(words)), 1, words)
        return words

    def assert_lost(self, job, ranks, expected):
        """The last words of these ranks, which have to be spoken in time."""
        begun = time.monotonic()
        words = []
        for rank in ranks:
            process = job.processes[rank]
            self.assertEqual(process.wait(PATIENCE), 1, process.said())
            complaints = [line for line in process.said().splitlines() if line.startswith("dlobd train: ")]
            self.assertEqual(len(complaints), 1, process.said())
            self.assertRegex(complaints[0], "^dlobd train: " + expected)
            words.append(complaints[0].removeprefix("dlobd train: "))
        took = time.monotonic() - begun
        self.assertLess(took, 2 * TIMEOUT + SLACK)
        self.took = self.took or took  # of the first, those who were left
        return words

    def assert_kept_and_gone(self, job, words):
        record, _ = self.record(job.out)
        self.assertEqual(record["status"], "failed")
        self.assertIn(record["error"], words)
        self.assertEqual([rank["rank"] for rank in record["ranks"]], job.ranks)
        self.assertEqual([name for name in os.listdir(job.out) if name.startswith(".")], [])
        self.assert_nothing_runs()
        # A killed process gives up its name a moment before its sockets.
        wait_until(lambda: not job.ports & listening(), "ports that are free again", 2)
        left = shared_memory([process.pid for process in job.processes.values()])
        self.assertEqual(left - job.shared_memory, set())
        return record


def all_losses():
    for title, design in DESIGNS.items():
        for role in ("rank 0", "worker", design.server):
            for phase in PHASES if role else ():
                for fault in ("killed", "stopped", "silent", "closed"):
                    yield Loss(title, role, phase, fault)
        yield Loss(title, "worker", "train", "one")
        yield Loss(title, "worker", "end", "dumb")


def is_wanted(loss):
    words = os.environ.get("FAULTS")
    if words:
        return words == "all" or all(word in str(loss) for word in words.split())
    return loss.design == IN_FULL or loss.fault == "killed"


class SideBySide(unittest.TestSuite):
    def run(self, result, debug=False):
        reports = threading.Lock()

        def run_one(test):
            own = unittest.TestResult()
            test.run(own)
            with reports:
                result.startTest(test)
                if own.wasSuccessful():
                    result.addSuccess(test)
                result.failures += own.failures
                result.errors += own.errors
                result.stopTest(test)

        losses = list(self)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(run_one, losses))
        print()
        print_times(losses)
        return result


def print_times(losses):
    for fault in dict.fromkeys(loss.fault for loss in losses):
        took = [loss.took for loss in losses if loss.fault == fault and loss.took]
        if took:
            print(f"{fault}: {len(took)} jobs, whose ranks had ended after {statistics.median(took):.1f} s (median), "
                  f"{max(took):.1f} s (longest)")


def load_tests(_loader, _tests, _pattern):
    return SideBySide(loss for loss in all_losses() if is_wanted(loss))


if __name__ == "__main__":
    unittest.main()
