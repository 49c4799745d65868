"""Reads run records as a user would: run.json against the JSON Schema, the tables by pandas in one call.

usage: check_records.py WRITE_RECORDS SCHEMA
"""

import copy
import json
import pathlib
import subprocess
import sys
import tempfile

import jsonschema
import pandas

STEPS = ("rank step start_ns wall_ns feed_ns compute_ns exchange_exposed_ns wait_ns schedule_ns update_ns "
         "unattributed_ns communication_ns samples loss staleness").split()
EVALUATIONS = "step epoch time_ns samples loss accuracy".split()
PHASES = [f"{name}_ns" for name in "feed compute exchange_exposed wait schedule update unattributed".split()]


def check_folder(folder, validator):
    run = json.loads((folder / "run.json").read_text())
    validator.validate(run)
    steps = pandas.read_csv(folder / "steps.csv")
    assert list(steps.columns) == STEPS, list(steps.columns)
    assert (steps[PHASES].sum(axis=1) == steps.wall_ns).all(), "phases do not add up"
    evaluations = pandas.read_csv(folder / "evaluations.csv")
    assert list(evaluations.columns) == EVALUATIONS, list(evaluations.columns)
    return run, steps, evaluations


def refused(validator, run, change):
    changed = copy.deepcopy(run)
    change(changed)
    return not validator.is_valid(changed)


def check_samples(out, validator):
    run, steps, evaluations = check_folder(out / "full", validator)
    assert len(steps) == 16 and steps.step.is_monotonic_increasing
    assert steps.loss[0] == 1 / 3 and steps.loss.isna().sum() == 1
    assert steps.loss.dtype == "float64" and (steps.drop(columns="loss").dtypes == "int64").all()
    assert evaluations.accuracy[0] == 0.971 and evaluations.samples[0] == 512
    assert run["config"]["seed"] == 2**64 - 1

    failed, steps, evaluations = check_folder(out / "failed", validator)
    assert failed["status"] == "failed" and failed["error"] == "peer lost: rank 1"
    assert len(steps) == 0 and len(evaluations) == 0
    assert failed["environment"]["cores"] >= 1

    # The schema asks for each key, and for what is in it; it lets further keys pass.
    for part in ("config", "environment", "summary"):
        for key in validator.schema["$defs"][part]["required"]:
            assert refused(validator, run, lambda r: r[part].pop(key)), f"{part}.{key}"
    for key in validator.schema["required"]:
        assert refused(validator, run, lambda r: r.pop(key)), key
    for key in validator.schema["$defs"]["rank"]["required"]:
        assert refused(validator, run, lambda r: r["ranks"][0].pop(key)), key
    assert refused(validator, run, lambda r: r.update(status="exploded"))
    assert refused(validator, run, lambda r: r.update(schema="dlobd.run_record/2.0"))
    assert refused(validator, run, lambda r: r["summary"].update(steps=-1))
    assert refused(validator, run, lambda r: r["summary"].update(test_accuracy=97.1))
    assert not refused(validator, run, lambda r: r.update(energy={"joules": 3}))
    assert not refused(validator, run, lambda r: r["summary"].update(joules=3))


def main():
    write_records, schema_path = sys.argv[1:3]
    schema = json.loads(pathlib.Path(schema_path).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([write_records, out], check=True)
        check_samples(pathlib.Path(out), validator)
    print("two records hold to the schema; their tables read by pandas")


if __name__ == "__main__":
    main()
