"""LeNet on all of MNIST, one epoch on 2 ranks by real libtorch over TCP, at least 97 %: global batch 64, and 128 with
the rate scaled with it. The path of the data set is the environment variable MNIST.
"""

import json
import os
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["DLOBD"]
DATA = os.environ["MNIST"]
SAMPLES = 60000


class Lenet(unittest.TestCase):
    def reaches_97_percent(self, stack, batch, rate):
        self.assertTrue(os.path.isdir(DATA), f"there is no {DATA}; `make setup` brings MNIST there")
        with tempfile.TemporaryDirectory(prefix="dlobd-lenet-") as out:
            result = subprocess.run(
                [PROGRAM, "train", "--stack", *stack, "--network", "tcp", "--processor", "cpu+onednn", "--model", "lenet",
                 "--data", DATA, "--ranks", "2", "--global-batch-size", str(batch), "--learning-rate", str(rate),
                 "--epochs", "1", "--seed", "1", "--peer-timeout", "30", "--out", out, "--json"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            record = json.loads(result.stdout)
        summary = record["summary"]
        steps = SAMPLES // batch
        self.assertEqual((record["status"], summary["steps"], summary["samples_seen"]), ("finished", steps, steps * batch))
        self.assertGreaterEqual(summary["test_accuracy"], 0.97)

    def test_allreduce(self):
        self.reaches_97_percent(("allreduce",), 64, 0.01)

    def test_caffeonspark_of_twice_the_batch(self):
        self.reaches_97_percent(("caffeonspark", "--behaviour", "fixed"), 128, 0.02)


if __name__ == "__main__":
    unittest.main()
