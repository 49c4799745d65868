"""Signals at moments when nothing is ready for them, and those that the user's shell has set to be ignored."""

import os
import signal
import time
import unittest

from faults_test import JobTest
from program import ENDLESS, PATIENCE, PROGRAM, free_port, wait_until

INTERRUPTED = (130, -signal.SIGINT)  # the second: before there was anything to end in order


def environment_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:  # it has ended, or is somebody else's
        return b""


class Early(JobTest):
    def assert_interrupted_after(self, delay, words, environment=None):
        run = self.start(words, environment)
        time.sleep(delay)
        run.send_signal(signal.SIGINT)
        self.assertIn(run.wait(PATIENCE), INTERRUPTED, run.said() + run.shown())

    def test_interrupt_while_the_job_starts(self):
        for network in ("tcp", "simulated"):
            for delay in (0.01, 0.05, 0.2, 0.6):
                with self.subTest(network=network, delay=delay):
                    out = self.path(f"{network}-{delay}")
                    self.assert_interrupted_after(
                        delay, self.train_words("--ranks", "3", "--local-batch-size", "10", "--network", network,
                                                "--out", out, *ENDLESS))
                    self.assert_nothing_runs()
                    if self.runs(out):
                        record = self.record(out)[0]
                        self.assertEqual(record["status"], "interrupted")
                        self.assertNotIn("killed", " ".join(record["warnings"]))

    def test_interrupt_of_the_doctor(self):
        # Its children do not say this folder's name, but have it.
        self.assert_interrupted_after(0.05, [PROGRAM, "doctor"], {"DLOBD_TEST": self.folder})
        mark = f"DLOBD_TEST={self.folder}".encode()
        wait_until(lambda: not [pid for pid in os.listdir("/proc") if pid.isdigit() and mark in environment_of(pid)],
                   "no child of the doctor left", 5)


class Crashes(JobTest):
    def test_a_crash_is_named_and_leaves_no_file(self):
        where = self.path("here")
        os.mkdir(where)
        launcher, pids = self.job(2, cwd=where)
        os.kill(pids[1], signal.SIGSEGV)
        self.assertEqual(launcher.wait(PATIENCE), 1, launcher.said())
        record, _ = self.record()
        self.assertIn("rank 1 was killed by signal 11", " ".join(record["warnings"]))
        # A core dump is the wish of this machine's administrator.
        self.assertEqual([name for name in os.listdir(where) if not name.startswith("core")], [])


class Benches(JobTest):
    def test_what_is_ignored_from_the_start_does_not_stop_one(self):
        bench = self.start([PROGRAM, "bench", "transport", "--rounds", "1000"],
                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        time.sleep(0.5)
        bench.send_signal(signal.SIGINT)
        time.sleep(0.5)
        self.assertIsNone(bench.poll(), bench.said())
        bench.send_signal(signal.SIGTERM)
        self.assertEqual(bench.wait(PATIENCE), 130, bench.said())


class HangUps(JobTest):
    def test_the_end_of_a_terminal_interrupts(self):
        launcher, _ = self.job(2)
        launcher.send_signal(signal.SIGHUP)
        self.assertEqual(launcher.wait(PATIENCE), 130, launcher.said())
        self.assertEqual(self.record()[0]["status"], "interrupted")
        self.assertEqual(len(os.listdir(f"{self.out}/checkpoints")), 1)
        self.assert_nothing_runs()

    def test_of_a_rank_that_is_started_by_hand(self):
        words = self.train_words("--rank", "0", "--world-size", "1", "--rendezvous", f"127.0.0.1:{free_port()}",
                                 "--local-batch-size", "10", *ENDLESS)
        rank = self.start(words, {"DLOBD_JOB_TOKEN": "secret"})
        wait_until(lambda: "step" in rank.said() or rank.poll() is not None, "a first step")
        rank.send_signal(signal.SIGHUP)
        self.assertEqual(rank.wait(PATIENCE), 130, rank.said())
        self.assertEqual(self.record()[0]["status"], "interrupted")

    def test_nohup_protects(self):
        launcher, pids = self.job(2, before=("nohup",))
        for pid in (launcher.pid, *pids.values()):
            os.kill(pid, signal.SIGHUP)
        time.sleep(0.5)
        self.assertIsNone(launcher.poll(), launcher.said())
        launcher.send_signal(signal.SIGINT)
        self.assertEqual(launcher.wait(PATIENCE), 130, launcher.said())
        self.assert_nothing_runs()


if __name__ == "__main__":
    unittest.main()
