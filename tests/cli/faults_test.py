"""Ranks that die, stop or diverge, and users who interrupt: how the job ends, what it keeps, what it leaves."""

import os
import signal
import time
import unittest

from program import (ENDLESS, PATIENCE, SLACK, TIMEOUT, ProgramTest, children, command_of, free_port,
                     listening, listening_of, shared_memory, wait_until, write)


class JobTest(ProgramTest):
    def job(self, ranks, *words, stack="allreduce", environment=None, before=(), servers=0, **options):
        """A launcher whose ranks are in mid-training, and its ranks' process ids by rank. `before`: what runs it."""
        words = self.train_words("--ranks", str(ranks), "--local-batch-size", "10", "--peer-timeout", str(TIMEOUT),
                                 *(words or ENDLESS), stack=stack)
        launcher = self.start([*before, *words], environment, **options)
        wait_until(lambda: "step" in launcher.said() or launcher.poll() is not None, "a first step")
        pids = {}
        for pid in children(launcher.pid):
            command = command_of(pid)
            pids[int(command[command.index("--rank") + 1])] = pid
        self.assertEqual(sorted(pids), list(range(ranks + servers)))
        return launcher, pids

    def assert_job_lost(self, stack, ranks, victim, number, *options, phase="train", servers=0):
        """`victim`, of `ranks` workers and then `servers`, is lost in `phase`, and nothing else is."""
        before = shared_memory([])
        launcher, pids = self.job(ranks, *options, *ENDLESS, stack=stack, servers=servers)
        ports = listening_of(pids.values())
        self.assertTrue(ports)
        begun = time.monotonic()
        os.kill(pids[victim], number)
        status = launcher.wait(PATIENCE)
        took = time.monotonic() - begun
        self.assertEqual(status, 1, launcher.said())
        self.assertLess(took, 2 * TIMEOUT + SLACK)
        complaints = [line for line in launcher.said().splitlines() if line.startswith("dlobd train: ")]
        self.assertEqual(len(complaints), 1, launcher.said())
        # The survivors' words are put together: one culprit means that all said the same.
        self.assertTrue(complaints[0].startswith(f"dlobd train: peer lost: rank {victim}, in phase {phase}: "),
                        complaints[0])
        self.assertEqual(complaints[0].count("peer lost"), 1, complaints[0])
        record, rows = self.record()
        self.assertEqual(record["status"], "failed")
        self.assertEqual("dlobd train: " + record["error"], complaints[0])
        self.assertEqual([rank["rank"] for rank in record["ranks"]], list(range(ranks + servers)))
        for rank in range(ranks):
            if rank != victim:
                self.assertTrue([row for row in rows if row["rank"] == str(rank)], f"no steps of rank {rank}")
        self.assertIn(f"rank {victim} was killed", " ".join(record["warnings"]))
        self.assert_nothing_runs()
        # A killed process gives up its name a moment before its sockets.
        wait_until(lambda: not ports & listening(), "ports that are free again", 2)
        self.assertEqual(shared_memory(pids.values()) - before, set())
        self.assertEqual([name for name in os.listdir(self.out) if name.startswith(".")], [])


class Faults(JobTest):
    def test_killed_rank(self):
        self.assert_job_lost("allreduce", 4, 2, signal.SIGKILL)

    def test_killed_rank_0(self):
        self.assert_job_lost("allreduce", 3, 0, signal.SIGKILL)

    def test_stopped_rank(self):
        self.assert_job_lost("allreduce", 4, 2, signal.SIGSTOP)

    def test_stopped_rank_0(self):
        self.assert_job_lost("allreduce", 3, 0, signal.SIGSTOP)

    def test_killed_rank_of_caffeonspark(self):
        self.assert_job_lost("caffeonspark", 3, 1, signal.SIGKILL)

    def test_stopped_rank_of_caffeonspark(self):
        self.assert_job_lost("caffeonspark", 3, 2, signal.SIGSTOP)

    def test_killed_launcher_takes_its_ranks_along(self):
        launcher, pids = self.job(3)
        ports = listening_of(pids.values())
        launcher.kill()
        launcher.wait(PATIENCE)
        self.assert_nothing_runs()
        # A killed process gives up its name a moment before its sockets.
        wait_until(lambda: not ports & listening(), "ports that are free again", 2)

    def test_loss_that_is_not_a_number(self):
        for network in ("tcp", "simulated"):
            with self.subTest(network):
                out = self.path(network)
                result = self.train("--ranks", "3", "--local-batch-size", "10", "--steps", "50", "--learning-rate",
                                    "1e30", "--network", network, "--out", out)
                self.assertEqual(result.returncode, 1, result)
                complaints = [line for line in result.stderr.splitlines() if line.startswith("dlobd train: ")]
                self.assertEqual(len(complaints), 1, result.stderr)
                self.assertRegex(complaints[0], r"^dlobd train: rank \d failed: the loss is not a number any more.*"
                                                r"rank \d, step \d+, loss -?(nan|inf)$")
                self.assertEqual(complaints[0].count("not a number"), 1)
                record, rows = self.record(out)
                self.assertEqual(record["status"], "failed")
                self.assertIn("not a number", record["error"])
                self.assertTrue(rows)
                self.assert_nothing_runs()


    def test_why_a_rank_failed_comes_whole_whatever_words_it_has(self):
        saved = self.path("dlobd train: saved")
        launcher, _ = self.job(2, "--checkpoint", saved, *ENDLESS)
        write(saved, b"no folder")
        launcher.send_signal(signal.SIGINT)  # it is to leave a checkpoint there
        self.assertEqual(launcher.wait(PATIENCE), 1, launcher.said())
        self.assertRegex(self.record()[0]["error"],
                         rf"^rank 0 failed: cannot \w+: Not a directory: {saved}/[^ ;]*$")


class Interrupts(JobTest):
    def test_interrupted_and_resumed_run_ends_like_one_in_a_piece(self):
        whole = self.path("whole")
        # Two steps of an epoch: the end of the run is its only evaluation and checkpoint.
        length = ("--steps", "6000", "--evaluate-every", "6000")
        result = self.train("--ranks", "3", "--local-batch-size", "10", "--peer-timeout", str(TIMEOUT), *length,
                            "--checkpoint", whole, "--out", self.path("other"))
        self.assertEqual(result.returncode, 0, result)
        launcher, _ = self.job(3, *length)
        launcher.send_signal(signal.SIGINT)
        self.assertEqual(launcher.wait(PATIENCE), 130, launcher.said())
        record, rows = self.record()
        self.assertEqual(record["status"], "interrupted")
        kept = os.listdir(f"{self.out}/checkpoints")
        self.assertEqual(len(kept), 1, kept)
        steps = max(int(row["step"]) for row in rows) + 1
        self.assertRegex(kept[0], f"^allreduce-softmax-[0-9a-f]{{8}}-step-{steps:06}.ckpt$")
        self.assertLess(steps, 6000)
        checkpoint = f"{self.out}/checkpoints/{kept[0]}"
        self.assertIn(f"--resume {checkpoint}", launcher.shown())
        self.assert_nothing_runs()

        resumed = self.path("resumed")
        again = self.train("--ranks", "3", "--local-batch-size", "10", "--peer-timeout", str(TIMEOUT), *length,
                           "--checkpoint", resumed, "--resume", checkpoint, "--out", self.path("third"))
        self.assertEqual(again.returncode, 0, again)
        self.assertEqual(os.listdir(resumed), os.listdir(whole))
        name = os.listdir(whole)[0]
        self.assertTrue(name.endswith("step-006000.ckpt"), name)
        with open(f"{whole}/{name}", "rb") as one, open(f"{resumed}/{name}", "rb") as other:
            self.assertEqual(one.read(), other.read())
        first, first_rows = self.record(self.path("other"))
        second, second_rows = self.record(self.path("third"))
        self.assertEqual(first["summary"]["loss"], second["summary"]["loss"])
        self.assertEqual(first["summary"]["test_accuracy"], second["summary"]["test_accuracy"])
        losses = {(row["rank"], row["step"]): row["loss"] for row in first_rows}
        for row in second_rows:
            self.assertGreaterEqual(int(row["step"]), steps)
            self.assertEqual(row["loss"], losses[row["rank"], row["step"]])
        self.assertEqual(len(second_rows), 3 * (6000 - steps))

    def test_second_signal_ends_at_once(self):
        launcher, pids = self.job(3)
        os.kill(pids[1], signal.SIGSTOP)  # so that no end can be agreed upon
        launcher.send_signal(signal.SIGINT)
        time.sleep(0.2)
        begun = time.monotonic()
        launcher.send_signal(signal.SIGINT)
        self.assertEqual(launcher.wait(PATIENCE), 130, launcher.said())
        self.assertLess(time.monotonic() - begun, SLACK)
        record, _ = self.record()
        self.assertEqual(record["status"], "interrupted")
        self.assertIn("before a checkpoint could be written", launcher.shown())
        self.assert_nothing_runs()

    def test_interrupt_of_a_simulated_run(self):
        words = self.train_words("--ranks", "3", "--local-batch-size", "10", "--network", "simulated", *ENDLESS)
        run = self.start(words)
        wait_until(lambda: "step" in run.said(), "a first step")
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(PATIENCE), 130, run.said())
        record, _ = self.record()
        self.assertEqual(record["status"], "interrupted")
        self.assertEqual(len(os.listdir(f"{self.out}/checkpoints")), 1)

    def test_interrupt_before_the_ranks_have_met(self):
        run = self.start(self.train_words("--rank", "0", "--world-size", "2", "--rendezvous",
                                          f"127.0.0.1:{free_port()}"),
                         {"DLOBD_JOB_TOKEN": "secret"})
        wait_until(lambda: listening_of([run.pid]), "a listening rank 0")
        time.sleep(0.2)
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(PATIENCE), 130, run.said())
        self.assert_nothing_runs()


if __name__ == "__main__":
    unittest.main()
