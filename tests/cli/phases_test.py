"""Ranks that are killed, stopped or cut off in mid-message, in each phase of a job: all who are left name the same one.

The ranks are started by hand; a go-between (between.py) keeps the job in the phase, or cuts within one of its messages.
"""

import os
import signal
import time
import unittest

from between import Between
from program import (ENDLESS, PATIENCE, SLACK, TIMEOUT, ProgramTest, free_port, listening, listening_of,
                     shared_memory, wait_until)

PHASES = ("rendezvous", "connect", "train", "evaluate", "snapshot", "end")
TOKEN = {"DLOBD_JOB_TOKEN": "a secret"}
STARTED = 3  # ranks


class Job:
    """Three ranks, on their way into `phase`; in the rendezvous a fourth is waited for in vain."""

    def __init__(self, test, phase, victim, how=None):
        self.phase = phase
        self.victim = victim
        self.out = test.path(f"{phase}-{victim}")
        self.shared_memory = shared_memory([])  # before
        size = STARTED + (phase == "rendezvous")
        self.ranks = list(range(size))
        rendezvous = f"127.0.0.1:{free_port()}"
        length = ENDLESS if phase == "train" else (
            "--steps", "4", "--evaluate-every", "2", "--checkpoint", test.path(f"kept-{phase}-{victim}"))
        self.betweens = {}
        self.processes = []
        for rank in range(STARTED):
            address, out = rendezvous, self.out
            if rank > 0:
                is_it = rank == (victim or 1)
                cut = phase if is_it and how and phase != "rendezvous" else None
                # A rank that has left in order cannot be lost any more.
                kept_in = phase == "end" if how in ("silent", "closed") else not how and phase != "train"
                hold = phase if is_it and kept_in else None
                self.betweens[rank] = Between(rendezvous, hold, cut, how)
                test.addCleanup(self.betweens[rank].close)
                address = self.betweens[rank].address
            if rank == victim and how in ("silent", "closed"):
                out = test.path(f"{phase}-{victim}-cut-off")  # no folder is shared with a host that is cut off
            # The fixed design moves bytes in every phase.
            words = test.train_words("--behaviour", "fixed", "--rank", str(rank), "--world-size", str(size),
                                     "--rendezvous", address, "--local-batch-size", "10", "--peer-timeout",
                                     str(TIMEOUT), "--out", out, *length, stack="caffeonspark")
            self.processes.append(test.start(words, TOKEN))
        wait_until(lambda: all(each.answered for each in self.betweens.values()), "ranks that are taken in")
        self.ports = listening_of([process.pid for process in self.processes])

    def wait_for_phase(self):
        if self.phase == "rendezvous":
            return
        said = self.betweens[1].hub_said if self.victim == 0 else self.betweens[self.victim].said
        wait_until(lambda: said[-1:] == [self.phase], f"rank {self.victim} in phase {self.phase}")

    def wait_for_cut(self):
        between = self.betweens[self.victim]
        if self.phase == "rendezvous":
            between.cut = self.phase  # now that all are taken in
        wait_until(between.was_cut.is_set, f"a cut in phase {self.phase}")


class Phases(ProgramTest):
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
        self.assertLess(time.monotonic() - begun, 2 * TIMEOUT + SLACK)
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
        self.assertEqual(shared_memory([process.pid for process in job.processes]) - job.shared_memory, set())
        return record

    def lose(self, phase, victim, number):
        job = Job(self, phase, victim)
        job.wait_for_phase()
        self.assertTrue(job.ports)
        os.kill(job.processes[victim].pid, number)
        left = [rank for rank in range(STARTED) if rank != victim]
        words = self.assert_lost(job, left, f"peer lost: rank {victim}, in phase {phase}: ")
        if number == signal.SIGSTOP:
            # Should it run again, it ends as well.
            os.kill(job.processes[victim].pid, signal.SIGCONT)
            self.assert_lost(job, [victim], "peer lost: rank ")
        else:
            job.processes[victim].wait(PATIENCE)
        record = self.assert_kept_and_gone(job, words)
        who = "it holds what rank 1 has measured"
        self.assertEqual(who in " ".join(record["warnings"]), victim == 0, record["warnings"])

    def cut(self, phase, how):
        job = Job(self, phase, 2, how)
        job.wait_for_cut()
        words = self.assert_lost(job, [0, 1], f"peer lost: rank 2, in phase {phase}: ")
        # What is cut off cannot know that the others are well.
        self.assert_lost(job, [2], "peer lost: rank ")
        self.assert_kept_and_gone(job, words)

    def in_each_phase(self, lose, *arguments):
        for phase in PHASES:
            with self.subTest(phase):
                lose(phase, *arguments)

    def test_killed_rank(self):
        self.in_each_phase(self.lose, 2, signal.SIGKILL)

    def test_killed_rank_0(self):
        self.in_each_phase(self.lose, 0, signal.SIGKILL)

    def test_stopped_rank(self):
        self.in_each_phase(self.lose, 2, signal.SIGSTOP)

    def test_stopped_rank_0(self):
        self.in_each_phase(self.lose, 0, signal.SIGSTOP)

    def test_rank_that_falls_silent_in_mid_message(self):
        self.in_each_phase(self.cut, "silent")

    def test_rank_whose_links_end_in_mid_message(self):
        self.in_each_phase(self.cut, "closed")

    def test_one_link_that_ends_in_mid_message(self):
        """Either end may be blamed, for both still speak to rank 0; but by all alike, itself included."""
        job = Job(self, "train", 2, "one")
        job.wait_for_cut()
        words = self.assert_lost(job, [0, 1, 2], "peer lost: rank [012], in phase train: ")
        self.assertEqual(len(set(words)), 1, words)
        self.assert_kept_and_gone(job, words)

    def test_goodbyes_that_do_not_come(self):
        """The rank is alive for rank 0, but its peers wait for its last bytes."""
        job = Job(self, "end", 2, "dumb")
        job.wait_for_cut()
        words = self.assert_lost(job, [0, 1, 2], "peer lost: rank 2, in phase end: ")
        self.assertEqual(len(set(words)), 1, words)
        self.assert_kept_and_gone(job, words)


if __name__ == "__main__":
    unittest.main()
