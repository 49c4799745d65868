"""Runs the program and reads the record it leaves; shared by the scripts demo and accept. Standard library alone."""
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/release/dlobd"

# What is trained side by side: title -> how the command line names it.
DESIGNS = {
    "caffeonspark, faithful": ["--stack", "caffeonspark", "--behaviour", "faithful"],
    "caffeonspark, fixed": ["--stack", "caffeonspark", "--behaviour", "fixed"],
    "caffeonspark, improved": ["--stack", "caffeonspark", "--behaviour", "improved"],
    "tensorflowonspark, faithful": ["--stack", "tensorflowonspark", "--behaviour", "faithful"],
    "tensorflowonspark, fixed": ["--stack", "tensorflowonspark", "--behaviour", "fixed"],
    "tensorflowonspark, improved": ["--stack", "tensorflowonspark", "--behaviour", "improved"],
    "tensorflowonspark_ps, faithful": ["--stack", "tensorflowonspark_ps", "--behaviour", "faithful"],
    "tensorflowonspark_ps, synchronous": ["--stack", "tensorflowonspark_ps", "--updates", "synchronous"],
    "tensorflowonspark_ps, improved": ["--stack", "tensorflowonspark_ps", "--behaviour", "improved"],
    "bigdl, faithful": ["--stack", "bigdl", "--behaviour", "faithful"],
    "bigdl, fixed": ["--stack", "bigdl", "--behaviour", "fixed"],
    "bigdl, improved": ["--stack", "bigdl", "--behaviour", "improved"],
    "allreduce": ["--stack", "allreduce"],
}


def train(out, *options, quiet=False):
    """One training run of LeNet on all of MNIST; returns its record, or ends this program with the run's status."""
    command = [str(PROGRAM), "train", "--processor", "cpu+onednn", "--model", "lenet"]
    command += ["--data", "data/mnist", "--epochs", "1", "--out", str(out), *options]
    print("+ " + " ".join(os.path.relpath(c, ROOT) if c == str(PROGRAM) else c for c in command), flush=True)
    before = set(Path(ROOT, out).glob("*/run.json"))
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE if quiet else None,
                          stderr=subprocess.STDOUT if quiet else None, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        if done.stdout:
            sys.stderr.write(done.stdout)
        sys.exit(done.returncode)
    records = set(Path(ROOT, out).glob("*/run.json")) - before
    if len(records) != 1:
        sys.exit(f"{Path(sys.argv[0]).name}: the run left {len(records)} records in {out}, not one")
    return json.loads(records.pop().read_text())


def network_label(record):
    """The network of a run, the stand-in for RDMA named, and whether the real stack lacks what it combines."""
    config = record["config"]
    label = f"rdma({config['provider']})" if config["provider"] else config["network"]
    return f"{label}, hypothetical" if config.get("hypothetical") else label


def table(head, rows):
    """Prints the rows under their head, in columns: the first to the left, the others to the right."""
    cells = [head] + rows
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for n, row in enumerate(cells):
        print("  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))))
        if n == 0:
            print("  ".join("-" * w for w in widths))
