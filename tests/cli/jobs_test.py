"""Jobs whose ranks are started by hand; the same run on both clocks; what the program prints."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import time
import unittest

from program import PATIENCE, PROGRAM, ProgramTest, free_port, wait_until, write

PEER_TIMEOUT = 2  # seconds
TOKEN = {"DLOBD_JOB_TOKEN": "a secret"}
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")


class RanksByHand(ProgramTest):
    def setUp(self):
        super().setUp()
        self.rendezvous = f"127.0.0.1:{free_port()}"

    def rank(self, rank, *words, size=2, environment=TOKEN, out=None, **streams):
        common = ("--rank", str(rank), "--world-size", str(size), "--rendezvous", self.rendezvous,
                  "--local-batch-size", "10", "--peer-timeout", str(PEER_TIMEOUT),
                  "--out", out or self.path(f"runs-{rank}"))
        return self.start(self.train_words(*common, *words), environment, **streams)

    def test_rank_0_writes_the_record_of_both(self):
        ranks = [self.rank(rank, "--steps", "30") for rank in (0, 1)]
        for process in ranks:
            self.assertEqual(process.wait(PATIENCE), 0, process.said())
        record, rows = self.record(self.path("runs-0"))
        self.assertEqual(record["status"], "finished")
        self.assertEqual([rank["rank"] for rank in record["ranks"]], [0, 1])
        self.assertEqual(len(rows), 60)
        self.assertEqual({row["rank"] for row in rows}, {"0", "1"})
        self.assertEqual(self.runs(self.path("runs-1")), [])

    def test_the_record_is_kept_once_a_rank_was_let_go(self):
        rank_0, rank_1 = [self.rank(rank, "--steps", "30") for rank in (0, 1)]
        self.assertEqual(rank_1.wait(PATIENCE), 0, rank_1.said())
        rank_0.kill()  # whatever it still has to do
        rank_0.wait(PATIENCE)
        self.assertEqual(self.record(self.path("runs-0"))[0]["status"], "finished")

    def rank_0_unread(self, stream, *words, **options):
        """Rank 0, one of whose streams is a full pipe that nobody reads, and a call that reads it to its end."""
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"." * 512)
        os.set_blocking(writing, True)
        rank_0 = self.rank(0, *words, **options, **{stream: writing})
        os.close(writing)

        def read_all():
            text = b""
            while piece := os.read(reading, 1 << 16):
                text += piece
            return text.decode().lstrip(".")
        return rank_0, read_all

    def test_nobody_reads_what_rank_0_says(self):
        for stream, told in (("stderr", "step 300/300"), ("stdout", "record: ")):
            with self.subTest(stream):
                out = self.path(f"runs-{stream}")
                rank_0, read_all = self.rank_0_unread(stream, "--steps", "300", "--evaluate-every", "1", out=out)
                rank_1 = self.rank(1, "--steps", "300", "--evaluate-every", "1", out=out)
                self.assertEqual(rank_1.wait(PATIENCE), 0, rank_1.said())
                self.assertEqual(self.record(out)[0]["status"], "finished")
                self.assertIsNone(rank_0.poll())  # it has more to say
                said = read_all()
                self.assertEqual(rank_0.wait(PATIENCE), 0, said)
                self.assertIn(told, said)

    def test_a_terminal_that_is_stopped_stops_no_rank(self):
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        endless = ("--steps", "100000000", "--evaluate-every", "100000000")
        ranks = [self.rank(0, *endless, stderr=theirs), self.rank(1, *endless)]
        os.close(theirs)
        shown = b""
        while b"step" not in shown:
            shown += os.read(ours, 1 << 12)
        os.write(ours, b"\x13")  # Ctrl-S
        time.sleep(3 * PEER_TIMEOUT)
        self.assertEqual([rank.poll() for rank in ranks], [None, None], ranks[1].said())
        ranks[1].send_signal(signal.SIGINT)
        self.assertEqual(ranks[1].wait(PATIENCE), 130, ranks[1].said())
        self.assertEqual(self.record(self.path("runs-0"))[0]["status"], "interrupted")
        os.write(ours, b"\x11")  # Ctrl-Q
        with contextlib.suppress(OSError):  # the terminal's end
            while os.read(ours, 1 << 12):
                pass
        self.assertEqual(ranks[0].wait(PATIENCE), 130)

    def refuse(self, rank, *words, expected, size=2, environment=TOKEN):
        """A rank that is refused, while the job goes on to wait."""
        process = self.rank(rank, *words, size=size, environment=environment)
        self.assertEqual(process.wait(PATIENCE), 1, process.said())
        complaints = [line for line in process.said().splitlines() if line.startswith("dlobd train: ")]
        self.assertEqual(len(complaints), 1, process.said())
        self.assertIn("refused: " + expected, complaints[0])
        self.assertNotIn("secret", complaints[0])

    def test_others_are_refused_by_name_and_the_job_goes_on(self):
        rank_0 = self.rank(0, "--steps", "30")
        self.refuse(1, "--steps", "30", expected="wrong job token", environment={"DLOBD_JOB_TOKEN": "a guess"})
        self.refuse(1, "--steps", "30", "--learning-rate", "0.02",
                    expected="configuration differs: learning_rate is 0.02 here, 0.01 there")
        self.refuse(1, "--steps", "30", size=3, expected="world size 3 here, 2 there")
        self.refuse_other_data()
        rank_1 = self.rank(1, "--steps", "30")
        for process in (rank_0, rank_1):
            self.assertEqual(process.wait(PATIENCE), 0, process.said())
        self.assertEqual(self.record(self.path("runs-0"))[0]["status"], "finished")

    def refuse_other_data(self):
        labels = f"{self.data}/train-labels-idx1-ubyte"
        with open(labels, "rb") as file:
            content = file.read()
        write(labels, content[:-1] + bytes([(content[-1] + 1) % 10]))
        self.refuse(1, "--steps", "30", expected="configuration differs: data_digest is ")
        write(labels, content)

    def test_a_duplicate_is_refused(self):
        steps = ("--steps", "30")
        rank_0 = self.rank(0, *steps, size=3)
        rank_1 = self.rank(1, *steps, size=3)
        twin = self.rank(1, *steps, size=3)
        # Whichever of the two comes second is the duplicate.
        first_end = wait_until(lambda: [p for p in (rank_1, twin) if p.poll() is not None], "a refusal")[0]
        self.assertEqual(first_end.poll(), 1)
        self.assertIn("refused: rank 1 has already joined", first_end.said())
        rank_2 = self.rank(2, *steps, size=3)
        for process in (rank_0, rank_2, twin if first_end is rank_1 else rank_1):
            self.assertEqual(process.wait(PATIENCE), 0, process.said())

    def lose(self, *lost, out=None):
        """Four ranks in mid-training, of which some are killed at once, rank 0 first; the others end."""
        endless = ("--steps", "100000000", "--evaluate-every", "100000000")
        ranks = [self.rank(rank, *endless, size=4, out=out) for rank in range(4)]
        wait_until(lambda: "step" in ranks[0].said(), "a first step")
        for rank in lost:
            ranks[rank].send_signal(signal.SIGKILL)
        for rank in set(range(4)) - set(lost):
            self.assertEqual(ranks[rank].wait(PATIENCE), 1, ranks[rank].said())
            self.assertIn("dlobd train: peer lost: rank 0", ranks[rank].said())

    def assert_record_of(self, rank, out):
        record, rows = self.record(out)
        self.assertEqual(record["status"], "failed")
        self.assertTrue(record["error"].startswith("peer lost: rank 0"), record["error"])
        self.assertEqual({row["rank"] for row in rows}, {str(rank)})
        self.assertIn(f"it holds what rank {rank} has measured", " ".join(record["warnings"]))
        self.assertEqual([name for name in os.listdir(out) if name.startswith(".")], [])

    def test_the_lowest_survivor_keeps_the_record(self):
        for lost in ((0,), (0, 1), (0, 1, 2)):
            with self.subTest(lost):
                out = self.path(f"lost-{len(lost)}")
                self.lose(*lost, out=out)
                self.assert_record_of(len(lost), out)

    def test_ranks_that_share_no_folder_keep_a_record_each(self):
        self.lose(0, 2)
        self.assert_record_of(1, self.path("runs-1"))
        self.assert_record_of(3, self.path("runs-3"))
        self.assertEqual(self.runs(self.path("runs-0")) + self.runs(self.path("runs-2")), [])

    def test_ranks_that_differ_in_their_connections_do_not_join(self):
        rank_0 = self.rank(0, "--steps", "30", "--connections-per-peer", "3")
        self.refuse(1, "--steps", "30", expected="configuration differs")
        rank_1 = self.rank(1, "--steps", "30", "--connections-per-peer", "3")
        for process in (rank_0, rank_1):
            self.assertEqual(process.wait(PATIENCE), 0, process.said())

    def test_an_interrupt_of_one_rank_ends_all_in_order(self):
        endless = ("--steps", "100000000", "--evaluate-every", "100000000")
        ranks = [self.rank(rank, *endless) for rank in range(2)]
        wait_until(lambda: "step" in ranks[0].said(), "a first step")
        ranks[1].send_signal(signal.SIGINT)
        for process in ranks:
            self.assertEqual(process.wait(PATIENCE), 130, process.said())
        self.assertEqual(self.record(self.path("runs-0"))[0]["status"], "interrupted")
        self.assertEqual(len(os.listdir(self.path("runs-0/checkpoints"))), 1)


class BothClocks(ProgramTest):
    def run_on(self, network, stack, words):
        out, saved = self.path(f"{network}-runs"), self.path(f"{network}-saved")
        result = self.train("--network", network, "--ranks", "3", "--local-batch-size", "20", "--steps", "20",
                            "--checkpoint", saved, "--out", out, *words, stack=stack)
        self.assertEqual(result.returncode, 0, result)
        record, rows = self.record(out)
        self.assertEqual(len(rows), 60)
        names = sorted(os.listdir(saved))
        self.assertTrue(names[-1].endswith("step-000020.ckpt"), names)
        contents = []
        for name in names:
            with open(f"{saved}/{name}", "rb") as file:
                contents.append(file.read())
        # But what the port has counted: a simulated network has none.
        counts = [{key: value for key, value in rank.items()
                   if "messages" in key or "bytes" in key and "rss" not in key and "port" not in key}
                  for rank in record["ranks"]]
        losses = [row["loss"] for row in sorted(rows, key=lambda row: (int(row["rank"]), int(row["step"])))]
        return names, contents, counts, losses

    def assert_equal_runs(self, stack, *words):
        tcp = self.run_on("tcp", stack, words)
        simulated = self.run_on("simulated", stack, words)
        self.assertEqual(tcp[0], simulated[0])
        self.assertTrue(tcp[1] == simulated[1], "checkpoints differ")
        self.assertEqual(tcp[2], simulated[2])
        self.assertEqual(tcp[3], simulated[3])
        for counts in tcp[2][:3]:  # the workers
            self.assertGreater(counts["messages_sent"], 0)
            self.assertGreater(counts["bytes_sent"], 0)

    def test_caffeonspark_faithful(self):
        self.assert_equal_runs("caffeonspark", "--behaviour", "faithful")

    def test_caffeonspark_fixed(self):
        self.assert_equal_runs("caffeonspark", "--behaviour", "fixed")

    def test_bigdl_faithful(self):
        self.assert_equal_runs("bigdl", "--behaviour", "faithful")

    def test_bigdl_improved(self):
        self.assert_equal_runs("bigdl", "--behaviour", "improved")

    def test_allreduce(self):
        self.assert_equal_runs("allreduce")

    def test_gradients_of_16_bits(self):
        self.assert_equal_runs("caffeonspark", "--behaviour", "fixed", "--wire-element", "bfloat16")

    def test_gradients_of_16_bits_round_tensorflows_ring(self):
        self.assert_equal_runs("tensorflowonspark", "--wire-element", "float16")


class Output(ProgramTest):
    def validate(self, record):
        try:
            import jsonschema
        except ImportError:
            return
        with open(os.path.join(DOCS, "run-record.schema.json"), encoding="utf-8") as file:
            jsonschema.validate(record, json.load(file))

    def test_json_alone_on_stdout(self):
        for network in ("tcp", "simulated"):
            with self.subTest(network):
                result = self.train("--ranks", "2", "--steps", "9", "--json", "--network", network)
                self.assertEqual(result.returncode, 0, result)
                self.assertEqual(result.stderr, "")
                record = json.loads(result.stdout)
                self.assertEqual(record["status"], "finished")
                folder = record.pop("folder")
                with open(f"{folder}/run.json", encoding="utf-8") as file:
                    self.assertEqual(json.load(file), record)
                self.validate(record)

    def test_json_names_the_last_checkpoint(self):
        result = self.train("--ranks", "2", "--steps", "9", "--json", "--checkpoint", self.path("saved"))
        self.assertEqual(result.returncode, 0, result)
        self.assertTrue(os.path.samefile(os.path.dirname(json.loads(result.stdout)["checkpoint"]), self.path("saved")))

    def test_closing_lines_name_defects_and_what_is_on_the_wire(self):
        usual = ("--ranks", "2", "--steps", "3")
        self.assertIn("defects: loss_local, ", self.train(*usual, stack="caffeonspark").stdout)
        fixed = self.train(*usual, "--behaviour", "fixed", "--wire-element", "bfloat16", stack="caffeonspark").stdout
        self.assertIn("bfloat16 on the wire", fixed)
        self.assertNotIn("defects", fixed)

    def test_json_of_a_failed_run(self):
        result = self.train("--ranks", "2", "--steps", "9", "--json", "--learning-rate", "1e30")
        self.assertEqual(result.returncode, 1, result)
        record = json.loads(result.stdout)
        self.assertEqual(record["status"], "failed")
        self.validate({key: value for key, value in record.items() if key != "folder"})

    def test_what_the_real_stack_lacks_is_hypothetical(self):
        lacking = "the real bigdl does not run over rdma"
        saved = self.path("saved")
        words = ("--ranks", "1", "--global-batch-size", "20", "--checkpoint", saved, "--evaluate-every", "5")
        result = self.train(*words, "--steps", "5", stack="bigdl")
        self.assertEqual(result.returncode, 0, result)
        self.assertNotIn("hypothetical", result.stdout)
        config = self.record()[0]["config"]
        self.assertEqual((config["hypothetical"], config["wire_element"]), (None, "truncated16"))
        # The same run goes on, where the real one could not.
        result = self.train(*words, "--steps", "10", "--network", "rdma", "--provider", "shm",
                            "--resume", os.path.join(saved, os.listdir(saved)[0]), "--out", self.path("rdma"), stack="bigdl")
        self.assertEqual(result.returncode, 0, result)
        self.assertIn(f"hypothetical: {lacking}", result.stdout)
        record = self.record(self.path("rdma"))[0]
        self.assertEqual(record["config"]["hypothetical"], lacking)
        self.validate(record)

    def test_plain_lines_where_there_is_no_terminal(self):
        result = self.train("--ranks", "2", "--steps", "9")
        self.assertEqual(result.returncode, 0, result)
        self.assertNotIn("\r", result.stdout + result.stderr)
        self.assertNotIn("\x1b", result.stdout + result.stderr)
        self.assertIn("step 9/9", result.stderr.splitlines()[-1])
        self.assertIn(self.runs()[0], result.stdout)
        self.assertEqual(sorted(os.listdir(self.out)), [os.path.basename(self.runs()[0])])

    def test_readers_that_have_gone(self):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            process = subprocess.run(self.train_words("--ranks", "2", "--steps", "9"), stdin=subprocess.DEVNULL,
                                     stdout=pipe, stderr=pipe, timeout=PATIENCE, check=False)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(self.record()[0]["status"], "finished")

    def test_a_missed_target(self):
        result = self.train("--ranks", "2", "--epochs", "1", "--until-accuracy", "1", "--learning-rate", "0")
        self.assertEqual(result.returncode, 1, result)
        self.assertEqual(self.record()[0]["status"], "target_missed")

    def test_help_has_examples(self):
        for verb in ("train", "describe", "doctor", "bench"):
            result = self.run_words([PROGRAM, verb, "--help"])
            self.assertEqual(result.returncode, 0, result)
            self.assertIn("Example", result.stdout)
            self.assertIn(f"dlobd {verb}", result.stdout)
        self.assertIn("Example", self.run_words([PROGRAM, "--help"]).stdout)

    def test_describe_and_doctor(self):
        page = self.run_words([PROGRAM, "describe", "--stack", "caffeonspark", "--model", "lenet", "--ranks", "4"])
        self.assertEqual(page.returncode, 0, page)
        self.assertIn("431,080", page.stdout.replace("431080", "431,080"))
        self.assertIn("optimizer_full", page.stdout)
        self.assertNotIn("hypothetical", page.stdout)
        words = [PROGRAM, "describe", "--stack", "bigdl", "--ranks", "2", "--processor", "gpu"]
        self.assertIn("hypothetical: the real bigdl does not run on a GPU", self.run_words(words).stdout)
        figures = json.loads(self.run_words([*words, "--json"]).stdout)
        self.assertEqual(figures["hypothetical"], "the real bigdl does not run on a GPU")
        self.assertEqual([rank["role"] for rank in figures["per_step"]], ["worker", "worker", "driver"])
        self.assertEqual(figures["per_step"][0]["data"]["bytes_sent"], 2 * 431080)
        doctor = self.run_words([PROGRAM, "doctor"])
        self.assertEqual(doctor.returncode, 0, doctor)
        self.assertIn("memory", doctor.stdout.lower())


if __name__ == "__main__":
    unittest.main()
