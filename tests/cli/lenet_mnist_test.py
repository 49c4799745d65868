"""LeNet on all of MNIST, one epoch on 2 ranks with a global batch of 64, by real libtorch over TCP: at least 97 %.

The path of the data set is the environment variable MNIST; without the data set the test is skipped, and says so.
"""

import json
import os
import subprocess
import sys
import tempfile

PROGRAM = os.environ["DLOBD"]
DATA = os.environ["MNIST"]
SKIPPED = 77


def main():
    if not os.path.isdir(DATA):
        print(f"skipped: there is no {DATA}; `make setup` brings MNIST there")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="dlobd-lenet-") as out:
        result = subprocess.run(
            [PROGRAM, "train", "--stack", "allreduce", "--network", "tcp", "--processor", "cpu+onednn", "--model",
             "lenet", "--data", DATA, "--ranks", "2", "--global-batch-size", "64", "--epochs", "1", "--seed", "1",
             "--peer-timeout", "30", "--out", out, "--json"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=570, check=False)
        if result.returncode != 0:
            print(f"exit status {result.returncode}: {result.stderr}")
            return 1
        record = json.loads(result.stdout)
    summary = record["summary"]
    print(f"test accuracy {summary['test_accuracy']:.4f} after {summary['steps']} steps, "
          f"{summary['samples_seen']} samples, {summary['train_seconds']:.1f} s")
    expected = {"status": "finished", "steps": 937, "samples_seen": 937 * 64}
    found = {"status": record["status"], "steps": summary["steps"], "samples_seen": summary["samples_seen"]}
    if found != expected:
        print(f"expected {expected}, found {found}")
        return 1
    return 0 if summary["test_accuracy"] >= 0.97 else 1


if __name__ == "__main__":
    sys.exit(main())
