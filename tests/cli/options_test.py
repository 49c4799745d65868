"""What options may hold: empty values, values given twice, options that nothing heeds, bytes that are no text; and
where output goes."""

import os
import subprocess
import unittest

from program import PATIENCE, PROGRAM, ProgramTest, RefusalTest, write, write_data_set


class Words(RefusalTest):
    def assert_words_refused(self, words, *expected, stack="allreduce", environment=None):
        with self.subTest(words=words):
            self.assert_refused(self.train(*words, stack=stack, environment=environment), *expected)

    def test_an_empty_value_is_not_a_value_left_out(self):
        for option in ("--resume", "--checkpoint", "--interface", "--link", "--threads", "--rendezvous", "--out",
                       "--blas", "--steps"):
            self.assert_words_refused((option, ""), option, "empty value")
        self.assert_refused(self.run_words([PROGRAM, "describe", "--stack", ""]), "--stack", "empty value")

    def test_help_says_what_kind_of_word_an_option_takes(self):
        for verb in ("train", "describe"):
            text = self.run_words([PROGRAM, verb, "--help"]).stdout
            self.assertIn("--stack NAME", text)
            self.assertNotIn("TEXT", text)

    def test_the_next_option_is_no_value(self):
        for option in ("--resume", "--out", "--defect"):
            self.assert_words_refused((option, "--ranks", "2"), option, "no value, but another option: --ranks")

    def test_what_is_given_twice(self):
        self.refused("--network simulated --link latency=1us,latency=2us", "latency twice")
        self.refused("--defect optimizer_full=fixed --defect optimizer_full=faithful", "optimizer_full twice",
                     stack="caffeonspark")
        self.refused("--lr-policy step:gamma=0.1,size=1,size=2", "size twice")

    def test_what_nothing_heeds(self):
        self.refused("--blas openblas", "--processor reference makes no use of --blas")
        self.refused("--threads 7", "--processor reference makes no use of --threads")

    def test_what_the_processor_cannot_compute(self):
        os.rename(self.data, self.path("small"))
        write_data_set(self.data, side=28)
        self.refused("--model lenet", "reference", "lenet", "softmax")

    def test_numbers_that_are_too_large(self):
        self.refused("--epochs 2305843009213693952 --local-batch-size 75", "--epochs 2305843009213693952")
        self.refused("--steps 9223372036854775807 --local-batch-size 75", "--steps 9223372036854775807")
        self.refused("--local-batch-size 99999999999999999999", "99999999999999999999")

    def test_a_host_that_has_no_address(self):
        self.refused("--rank 1 --world-size 2 --rendezvous no-such-host.invalid:4000", "no-such-host.invalid",
                     environment={"DLOBD_JOB_TOKEN": "secret"})

    def test_a_value_with_line_ends_is_one_line(self):
        for words in (("--model", "le\nnet"), ("--data", "no\twhere\n"), ("--steps", "1\n2"), ("--st\nack", "x")):
            self.assert_words_refused(words, "\\")

    def test_resuming_on_other_data(self):
        saved = self.path("saved")
        made = self.train("--steps", "3", "--checkpoint", saved, "--out", self.path("other"))
        self.assertEqual(made.returncode, 0, made)
        checkpoint = os.path.join(saved, os.listdir(saved)[0])
        labels = f"{self.data}/train-labels-idx1-ubyte"
        with open(labels, "rb") as file:
            content = bytearray(file.read())
        content[-1] = (content[-1] + 1) % 10
        write(labels, content)
        self.refused(f"--resume {checkpoint}", "another run", "data_digest")


class Runs(ProgramTest):
    def test_a_link_without_limit(self):
        result = self.train("--network", "simulated", "--link", "bandwidth=0,jitter=0", "--steps", "3", "--ranks", "2")
        self.assertEqual(result.returncode, 0, result)

    def test_runs_of_other_settings_share_a_folder_of_checkpoints(self):
        for seed in ("1", "2", "2"):
            result = self.train("--steps", "3", "--seed", seed, "--checkpoint", self.path("saved"))
            self.assertEqual(result.returncode, 0, result)
        self.assertEqual(len(os.listdir(self.path("saved"))), 2)

    def test_the_last_line_of_progress_is_said_once(self):
        result = self.train("--steps", "300", "--ranks", "3", "--local-batch-size", "10", "--evaluate-every", "1000")
        last = [line for line in result.stderr.splitlines() if "step 300/300" in line]
        self.assertEqual(len({line.split("loss ")[1].split()[0] for line in last}), 1, result.stderr)

    def test_output_that_cannot_be_written(self):
        train = self.train_words("--steps", "3", "--network", "simulated", "--json")
        for words in (train, train[:-1], [PROGRAM, "describe", "--stack", "allreduce"], [PROGRAM, "--help"],
                      [PROGRAM, "doctor", "--json"]):
            with self.subTest(words=words), open("/dev/full", "w", encoding="ascii") as full:
                result = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                                        timeout=PATIENCE)
                self.assertEqual(result.returncode, 1, result)
                lines = [line for line in result.stderr.splitlines() if line.startswith("dlobd")]
                self.assertEqual(lines, ["dlobd: cannot write all of the output: No space left on device"])

    def test_a_reader_that_leaves_changes_nothing(self):
        reader, writer = os.pipe()
        os.close(reader)
        words = self.train_words("--steps", "3", "--network", "simulated", "--json")
        result = subprocess.run(words, stdout=writer, stderr=subprocess.DEVNULL, check=False, timeout=PATIENCE)
        os.close(writer)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(len(self.runs()), 1)


if __name__ == "__main__":
    unittest.main()
