"""Ranks that a cluster's launcher starts: Open MPI's mpirun itself, and the words of others in the environment.

Exits with 77, which ctest takes for a skipped test, where Open MPI's mpirun is not installed.
"""

import os
import shutil
import signal
import subprocess
import sys
import unittest

from program import PATIENCE, PROGRAM, ProgramTest, command_of, free_port, wait_until

STEPS = ("--steps", "20", "--local-batch-size", "10")
ENDLESS = ("--steps", "100000000", "--evaluate-every", "100000000", "--local-batch-size", "10")
# Of a launcher around these tests.
OTHERS = ("OMPI_", "PMIX_", "PMI_", "MPI_", "SLURM", "TORCHELASTIC_", "MASTER_", "GROUP_")
ALONE = {name: "" for name in os.environ if name.startswith(OTHERS) or name in ("RANK", "WORLD_SIZE")}


def losses(rows):
    return {(row["rank"], row["step"]): row["loss"] for row in rows}


def counts(record):
    return [{key: rank[key] for key in ("rank", "role", "messages_sent", "bytes_sent", "messages_received",
                                        "bytes_received")} for rank in record["ranks"]]


class LaunchTest(ProgramTest):
    def assert_one_record(self, out, ranks, servers=0):
        record, rows = self.record(out)
        self.assertEqual(record["status"], "finished")
        self.assertEqual(record["config"]["ranks"], ranks)
        self.assertEqual([rank["rank"] for rank in record["ranks"]], list(range(ranks + servers)))
        self.assertEqual(len(rows), 20 * ranks)
        return record, rows

    def assert_same_as_local(self, out, ranks, *words, servers=0, **options):
        """Who started the ranks makes no difference to what they do."""
        record, rows = self.assert_one_record(out, ranks, servers)
        local = self.path("local")
        result = self.train("--ranks", str(ranks), "--out", local, *STEPS, *words, environment=ALONE, **options)
        self.assertEqual(result.returncode, 0, result)
        local_record, local_rows = self.assert_one_record(local, ranks, servers)
        self.assertEqual(losses(rows), losses(local_rows))
        self.assertEqual(counts(record), counts(local_record))
        self.assertEqual(record["summary"]["test_accuracy"], local_record["summary"]["test_accuracy"])


class Mpirun(LaunchTest):
    def mpirun_words(self, ranks, *words, stack="allreduce"):
        as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        # Alone on this host it needs no ssh, which not every host has.
        return ["mpirun", *as_root, "--mca", "plm", "isolated", "--oversubscribe", "--bind-to", "none", "-n", str(ranks),
                *self.train_words(*words, stack=stack)]

    def mpirun(self, ranks, *words, stack="allreduce"):
        return self.run_words(self.mpirun_words(ranks, *words, stack=stack), ALONE)

    def test_four_ranks_are_one_job(self):
        result = self.mpirun(4, *STEPS)
        self.assertEqual(result.returncode, 0, result)
        self.assert_same_as_local(self.out, 4)
        # Rank 0 alone speaks.
        self.assertEqual(result.stdout.count("record: "), 1, result.stdout)
        self.assertEqual(result.stderr.count("4 ranks, batch 10 each"), 1, result.stderr)
        self.assertEqual(result.stderr.count("step 20/20"), 1, result.stderr)

    def test_three_ranks_of_caffeonspark(self):
        result = self.mpirun(3, *STEPS, stack="caffeonspark")
        self.assertEqual(result.returncode, 0, result)
        self.assert_same_as_local(self.out, 3, stack="caffeonspark")

    def test_servers_are_among_the_ranks(self):
        for stack, *words in (("bigdl",), ("tensorflowonspark_ps", "--updates", "synchronous")):
            with self.subTest(stack):
                out = self.path(stack)
                result = self.mpirun(3, *STEPS, *words, "--out", out, stack=stack)
                self.assertEqual(result.returncode, 0, result)
                self.assert_same_as_local(out, 2, *words, servers=1, stack=stack)
                shutil.rmtree(self.path("local"))

    def test_servers_alone_are_refused(self):
        result = self.mpirun(3, *STEPS, "--ps", "3", stack="tensorflowonspark_ps")
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("leaves no worker", result.stderr)

    def test_one_rank_trains_alone(self):
        result = self.mpirun(1, *STEPS)
        self.assertEqual(result.returncode, 0, result)
        self.assert_same_as_local(self.out, 1)

    def test_one_rank_may_start_others(self):
        result = self.mpirun(1, "--ranks", "2", *STEPS)
        self.assertEqual(result.returncode, 0, result)
        self.assert_one_record(self.out, 2)

    def test_two_jobs_at_once_do_not_meet(self):
        jobs = [self.start(self.mpirun_words(2, *STEPS, "--out", self.path(f"job-{job}")), ALONE) for job in range(2)]
        for job, process in enumerate(jobs):
            self.assertEqual(process.wait(PATIENCE), 0, process.said())
            self.assert_one_record(self.path(f"job-{job}"), 2)

    def test_what_is_said_is_left_alone(self):
        rendezvous = f"127.0.0.1:{free_port()}"
        result = self.mpirun(2, *STEPS, "--rendezvous", rendezvous)
        self.assertEqual(result.returncode, 0, result)
        self.assert_one_record(self.out, 2)

    def test_no_launcher(self):
        result = self.mpirun(2, *STEPS, "--launcher", "none")
        self.assertEqual(result.returncode, 0, result)
        self.assertEqual(len(self.runs()), 2)
        self.assertEqual(self.train("--launcher", "slurm").returncode, 2)

    def test_other_numbers_of_ranks_are_refused(self):
        result = self.mpirun(2, *STEPS, "--ranks", "3")
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("--ranks 3", result.stderr)
        result = self.mpirun(2, *STEPS, "--network", "simulated")
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("--network simulated runs all ranks in one process: start one, not 2 by mpirun", result.stderr)
        self.assertEqual(self.runs(), [])

    def ranks_of(self, mpirun):
        found = {}
        for pid in self.left_processes():
            if command_of(pid)[0] != "mpirun":
                with open(f"/proc/{pid}/environ", "rb") as file:
                    variables = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
                found[int(variables[b"OMPI_COMM_WORLD_RANK"])] = pid
        return found

    def test_a_killed_rank_ends_the_job(self):
        # Time for the survivors to say what they know: by default they are killed on the spot.
        patience = {"OMPI_MCA_odls_base_sigkill_timeout": "5"}
        mpirun = self.start(self.mpirun_words(3, *ENDLESS, "--peer-timeout", "2"), {**ALONE, **patience})
        wait_until(lambda: "step" in mpirun.said() or mpirun.poll() is not None, "a first step")
        os.kill(self.ranks_of(mpirun)[2], signal.SIGKILL)
        self.assertNotEqual(mpirun.wait(PATIENCE), 0)
        self.assert_nothing_runs()
        record, rows = self.record()
        self.assertIn(record["status"], ("failed", "interrupted"))
        self.assertTrue(rows)

    def test_an_interrupt_ends_the_job(self):
        mpirun = self.start(self.mpirun_words(3, *ENDLESS), ALONE)
        wait_until(lambda: "step" in mpirun.said() or mpirun.poll() is not None, "a first step")
        mpirun.send_signal(signal.SIGINT)
        self.assertNotEqual(mpirun.wait(PATIENCE), 0)
        self.assert_nothing_runs()


class ByEnvironment(LaunchTest):
    """The variables of launchers that are not here, around processes that these tests start."""

    def job(self, environments, *words):
        ranks = [self.start(self.train_words(*words), {**ALONE, **environment}) for environment in environments]
        for process in ranks:
            self.assertEqual(process.wait(PATIENCE), 0, process.said())
        for process in ranks[1:]:
            self.assertEqual(process.said() + process.shown(), "")

    def slurm_task(self, rank, ranks=3):
        return {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank),
                "SLURM_LOCALID": str(rank), "SLURM_NODEID": "0", "SLURM_STEP_NUM_TASKS": str(ranks),
                "SLURM_STEP_NODELIST": "node7", "SLURM_STEP_TASKS_PER_NODE": str(ranks), "SLURMD_NODENAME": "node7"}

    def test_srun(self):
        self.job([self.slurm_task(rank) for rank in range(3)], *STEPS)
        self.assert_same_as_local(self.out, 3)

    def test_torchrun(self):
        port = free_port()
        self.job([{"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
                   "MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "none",
                   "TORCHELASTIC_USE_AGENT_STORE": "True"} for rank in range(2)], *STEPS)
        self.assert_same_as_local(self.out, 2)

    def test_a_secret_of_the_users_own_counts(self):
        tasks = [{**self.slurm_task(rank, 2), "DLOBD_JOB_TOKEN": "a secret"} for rank in range(2)]
        self.job(tasks, *STEPS)
        self.assert_one_record(self.out, 2)
        rank_0 = self.start(self.train_words(*STEPS, "--out", self.path("other")), {**ALONE, **tasks[0]})
        stranger = self.start(self.train_words(*STEPS), {**ALONE, **self.slurm_task(1, 2)})
        self.assertEqual(stranger.wait(PATIENCE), 1)
        self.assertIn("wrong job token", stranger.said())
        self.assertIsNone(rank_0.poll())

    def threads_of(self, out, words_before):
        port = free_port()
        ranks = []
        for rank in range(2):
            place = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            words = self.train_words(*STEPS, "--processor", "cpu", "--out", out)
            ranks.append(self.start([*words_before, *words], {**ALONE, **place}))
        for process in ranks:
            self.assertEqual(process.wait(PATIENCE), 0, process.said())
        return self.assert_one_record(out, 2)[0]["config"]["threads"]

    def test_threads_follow_what_a_rank_may_run_on(self):
        if not os.path.exists(os.path.join(os.path.dirname(PROGRAM), "libdlobd_torch.so")):
            self.skipTest("this build has no libtorch, whose threads are counted")
        one_cpu = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
        self.assertEqual(self.threads_of(self.path("bound"), one_cpu), 1)
        free = self.threads_of(self.path("free"), [])
        self.assertLessEqual(free, len(os.sched_getaffinity(0)))
        record, _ = self.record(self.path("free"))
        quota = record["environment"]["quota"] or os.cpu_count()
        self.assertEqual(free, max(1, int(min(quota, len(os.sched_getaffinity(0))))))

    def refused(self, environment, *expected):
        result = self.train(*STEPS, environment={**ALONE, **environment})
        self.assertEqual(result.returncode, 2, result)
        complaints = result.stderr.splitlines()
        self.assertEqual(len(complaints), 1, result.stderr)
        for words in expected:
            self.assertIn(words, complaints[0])
        self.assertFalse(os.path.exists(self.out))

    def test_what_cannot_be_right_is_refused(self):
        task = self.slurm_task(1)
        self.refused({**task, "RANK": "0", "WORLD_SIZE": "3"}, "disagree", "RANK=0", "SLURM_PROCID=1")
        self.refused({**task, "SLURM_PROCID": "3"}, "SLURM_PROCID=3")
        self.refused({"OMPI_COMM_WORLD_RANK": "1"}, "OMPI_COMM_WORLD_SIZE", "--world-size")
        several_hosts = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
        self.refused(several_hosts, "does not say where rank 0 runs", "--rendezvous HOST:PORT")

    def test_a_host_that_is_not_rank_0s_is_refused(self):
        # An address kept for documents: no host has it.
        task = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "7000"}
        self.refused(task, "192.0.2.1:7000", "no such address", "--rendezvous")


def is_open_mpi():
    if not shutil.which("mpirun"):
        return False
    version = subprocess.run(["mpirun", "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             timeout=PATIENCE, check=False)
    return "Open MPI" in version.stdout


if __name__ == "__main__":
    if not is_open_mpi():
        print("skipped: Open MPI's mpirun is not installed here; `make setup` brings it on Debian")
        sys.exit(77)
    unittest.main()
