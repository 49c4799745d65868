"""What is refused before ranks start: exit status 2, one clear line, nothing left behind."""

import os
import resource
import socket
import unittest

from program import PROGRAM, RefusalTest, images_file, labels_file, write


class Refusals(RefusalTest):
    def test_broken_files(self):
        train_images = f"{self.data}/train-images-idx3-ubyte"
        train_labels = f"{self.data}/train-labels-idx1-ubyte"
        with open(train_images, "rb") as file:
            images = file.read()
        with open(train_labels, "rb") as file:
            labels = file.read()
        whole = {train_images: images, train_labels: labels}
        for name, path, content, words in (
                ("empty", train_images, b"", ["is empty"]),
                ("in the header", train_images, images[:9], ["truncated", "9 of 16"]),
                ("one byte short", train_images, images[:-1], ["truncated"]),
                ("one byte more", train_images, images + b"x", ["trailing"]),
                ("magic of labels", train_images, b"\0\0\x08\x01" + images[4:], ["magic number 0x00000801"]),
                ("text", train_labels, b"not an IDX file at all", ["magic number"]),
                ("no records", train_images, images_file(b"", 0), ["empty"]),
                ("more than memory holds", train_images, images_file(b"x" * 64, 0xFFFFFFFF, 0x8000), ["bytes"]),
                ("more than the file holds", train_labels, b"\0\0\x08\x01\xff\xff\xff\xff" + labels[8:], ["truncated"]),
                ("a label out of range", train_labels, labels[:-1] + b"\x0a", ["label 10", "record 599"]),
                ("one label less", train_labels, labels_file(labels[8:-1]), ["600 images", "599 labels"])):
            with self.subTest(name):
                write(path, content)
                self.assert_refused(self.train("--ranks", "2"), path, *words)
                write(path, whole[path])

    def test_a_cut_gzip(self):
        path = f"{self.data}/train-labels-idx1-ubyte"
        os.remove(path)
        write(path + ".gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + b"\x63")
        self.assert_refused(self.train(), path)

    def test_a_folder_where_a_file_should_be(self):
        path = f"{self.data}/t10k-labels-idx1-ubyte"
        os.remove(path)
        os.mkdir(path)
        self.assert_refused(self.train(), "folder", path)
        self.assert_refused(self.train("--resume", self.data), "folder", self.data)

    def test_data_that_is_not_there(self):
        self.refused("--data nowhere", "nowhere", "make setup")
        self.refused(f"--data {self.data}/train-labels-idx1-ubyte", "train-labels")
        os.remove(f"{self.data}/t10k-labels-idx1-ubyte")
        self.refused("--ranks 2", "t10k-labels-idx1-ubyte")

    def test_batches(self):
        self.refused("--ranks 2 --local-batch-size -1", "must be positive", "-1")
        self.refused("--ranks 2 --local-batch-size 0", "must be positive")
        self.refused("--ranks 2 --global-batch-size -4", "must be positive")
        self.refused("--ranks 2 --local-batch-size 301", "larger than a shard", "301", "300")
        self.refused("--ranks 2 --global-batch-size 65", "not divisible", "65")
        self.refused("--ranks 2 --global-batch-size 64 --local-batch-size 32", "not both")
        self.refused("--ranks 601 --local-batch-size 1", "larger than a shard")
        self.refused("--ranks 2 --local-batch-size 1.5", "--local-batch-size")

    def test_unknown_names(self):
        self.refused("", "did you mean caffeonspark", stack="cafeonspark")
        self.refused("--behaviour fixd", "did you mean fixed", stack="caffeonspark")
        self.refused("--behaviour fixed", "no defects")
        self.refused("--defect optimiser_full=fixed", "did you mean optimizer_full", stack="caffeonspark")
        self.refused("--defect optimizer_full=fixd", "did you mean fixed", stack="caffeonspark")
        self.refused("--defect optimizer_full", "NAME=fixed", stack="caffeonspark")
        self.refused("--optimizer adagard", "did you mean adagrad")
        self.refused("--optimizer adagrad --momentum 0.9", "--optimizer adagrad has no --momentum")
        self.refused("--ps 2", "the stack allreduce takes no --ps")
        self.refused("--wire-element bfloat16", "takes no other element", "caffeonspark (faithful or fixed), tensorflowonspark, allreduce do",
                     stack="bigdl")
        self.refused("--wire-element bfloat", "did you mean bfloat16")
        self.refused("--updates sync", "asynchronous or synchronous", stack="tensorflowonspark_ps")
        self.refused("--ranks 2 --updates synchronous --backup-workers 2", "leaves no worker to wait for",
                     stack="tensorflowonspark_ps")
        self.refused("--drop-percentage 4", "0.04 is 4 of 100", stack="bigdl")
        self.refused("--behaviour improved --drop-percentage 0.04", "the improved design", stack="bigdl")
        self.refused("--drop-percentage 0.04", "the stack allreduce takes no --drop-percentage")
        self.refused("--ranks 2 --drop-percentage 0.001", "cuts nobody off", stack="bigdl")
        self.refused("--network tpc", "did you mean tcp")
        self.refused("--provider verbs", "--provider")
        self.refused("--blas openblass", "did you mean openblas")
        self.refused("--lr-policy stp:gamma=0.1,size=3", "did you mean step")
        self.refused("--lr-policy step:gama=0.1,size=3", "takes gamma=... and size=...")
        self.refused("--uneven drop_lst", "did you mean drop_last")
        self.refused("--network simulated --link latncy=1us", "did you mean latency")
        self.refused("--network simulated --link latency=1xs", "1xs")
        self.refused("--network simulated --link latency=nanus", "nanus")
        self.refused("--network simulated --link jitter=2e4s", "2e4s")
        self.refused("--network simulated --link latency=-1us", "-1us")
        self.refused("--network simulated --link bandwidth=-1GB/s", "-1GB/s")
        self.refused("--network tcp --link latency=1us", "--network simulated")
        self.refused("--connections-per-peer 0", "from 1 to 16", "--connections-per-peer 0")
        self.refused("--connections-per-peer 17", "from 1 to 16", "--connections-per-peer 17")
        self.refused("--network simulated --connections-per-peer 2", "--connections-per-peer")
        self.refused("--lerning-rate 1", "did you mean --learning-rate")
        self.refused("--interface eth99", "eth99", "lo (127.0.0.1)")
        self.refused("--model softmx", "did you mean softmax")
        self.refused("--model transformer", "(there are softmax, lenet)")
        self.refused("--stack-of-sorts 1", "no such option or command: --stack-of-sorts; `dlobd train --help`")
        self.refused("--processor gpuu", "did you mean gpu")
        self.refused("--processor refrence", "did you mean reference")
        self.assert_refused(self.run_words([PROGRAM, "trian"]), "trian", "did you mean train")
        self.assert_refused(self.run_words([PROGRAM, "bananas"]), "bananas; there are train, describe, doctor, bench;")
        self.assert_refused(self.run_words([PROGRAM]), "--help")
        self.assert_refused(self.run_words([PROGRAM, "train"]), "--stack is required")
        for words, expected in ((["--stack", "alreduce"], "did you mean allreduce"),
                                (["--stack", "allreduce", "--model", "lent"], "did you mean lenet"),
                                (["--stack", "allreduce", "--ranks", "0"], "--ranks 0"),
                                (["--stack", "caffeonspark", "--defect", "x"], "--defect"),
                                (["--stack", "allreduce", "--rnks", "2"], "did you mean --ranks")):
            self.assert_refused(self.run_words([PROGRAM, "describe", *words]), expected)
        self.assert_refused(self.run_words([PROGRAM, "doctor", "--jsn"]), "--jsn")

    def test_numbers(self):
        for option in ("--learning-rate", "--momentum", "--weight-decay"):
            for value in ("nan", "inf", "-1", "abc"):
                self.refused(f"{option} {value}", option)
        for arguments in ("--seed -1", "--seed 99999999999999999999", "--epochs 0", "--steps 0", "--epochs -1",
                          "--epochs 1 --steps 1", "--until-accuracy 1.5", "--until-accuracy nan", "--ranks 0",
                          "--ranks -1", "--threads -1", "--evaluate-every -1", "--peer-timeout 0",
                          "--peer-timeout nan", "--ranks 99999999999999999999"):
            self.refused(arguments, arguments.split()[0])
        self.refused("--lr-policy step:gamma=nan,size=3", "gamma")
        self.refused("--lr-policy step:gamma=0.1,size=0", "step size")

    def test_a_processor_that_is_not_there(self):
        if os.path.exists("/proc/driver/nvidia/version"):
            self.skipTest("this host has a GPU")
        self.refused("--processor gpu", "no GPU on this host")
        self.refused("--processor gpu+cudnn", "no GPU on this host")

    def test_a_profile_that_is_not_there(self):
        self.refused("--processor profile:nowhere.json", "nowhere.json")
        self.refused(f"--processor profile:{self.data}", self.data)
        self.refused("--processor profile:", "profile:")

    def test_out_that_cannot_be_written(self):
        file = self.path("file")
        write(file, b"")
        self.refused(f"--out {file}/below", "file", "ot a directory")
        self.refused(f"--checkpoint {file}/below", "file", "ot a directory")
        limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))}
        self.assert_refused(self.train(**limits), self.folder)

    def test_a_disk_that_fills_up_during_the_run(self):
        # Room enough for the probe before the run, not for the steps' rows after it.
        limit = 80 << 10
        result = self.train("--steps", "3000", "--evaluate-every", "3000",
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(result.returncode, 1, result)
        complaints = [line for line in result.stderr.splitlines() if line.startswith("dlobd train: ")]
        self.assertEqual(len(complaints), 1, result.stderr)
        self.assertIn("cannot write the run record", complaints[0])
        self.assertIn("File too large", complaints[0])
        self.assertEqual(os.listdir(self.out), [])
        self.assert_nothing_runs()

    def test_ranks_by_hand(self):
        token = {"DLOBD_JOB_TOKEN": "secret"}
        self.refused("--rank 0", "go together", environment=token)
        self.refused("--rank 0 --world-size 2", "go together", environment=token)
        self.refused("--rendezvous 127.0.0.1:4000", "go together", environment=token)
        self.refused("--rank 2 --world-size 2 --rendezvous 127.0.0.1:4000", "--rank 2", environment=token)
        self.refused("--rank 0 --world-size 2 --rendezvous nocolon", "nocolon", environment=token)
        self.refused("--rank 1 --world-size 2 --rendezvous 127.0.0.1:99999", "99999", environment=token)
        self.refused("--rank 0 --world-size 2 --rendezvous 127.0.0.1:4000", "DLOBD_JOB_TOKEN",
                     environment={"DLOBD_JOB_TOKEN": ""})
        with socket.socket() as busy:
            busy.bind(("127.0.0.1", 0))
            busy.listen()
            port = busy.getsockname()[1]
            self.refused(f"--rank 0 --world-size 2 --rendezvous 127.0.0.1:{port}", f"127.0.0.1:{port}", "in use",
                         environment=token)

    def test_resume(self):
        garbage = self.path("garbage")
        write(garbage, bytes(range(256)) * 100)
        self.refused(f"--resume {garbage}", "not a checkpoint", garbage)
        self.refused("--resume nowhere", "nowhere")
        saved = self.path("saved")
        made = self.train("--ranks", "2", "--steps", "3", "--checkpoint", saved, "--out", self.path("other"))
        self.assertEqual(made.returncode, 0, made)
        checkpoint = os.path.join(saved, os.listdir(saved)[0])
        self.refused(f"--ranks 3 --resume {checkpoint}", "another run", "ranks")
        self.refused(f"--ranks 2 --seed 7 --resume {checkpoint}", "another run", "seed")
        self.refused(f"--ranks 2 --learning-rate 0.5 --resume {checkpoint}", "another run",
                     "learning_rate is 0.01 there, 0.5 here", "--resume")
        self.refused(f"--ranks 2 --uneven pad --resume {checkpoint}", "another run", "feed")
        self.refused(f"--ranks 2 --resume {checkpoint}", "another run", "stack", stack="caffeonspark")
        with open(checkpoint, "rb") as file:
            content = file.read()
        write(garbage, content[:-10])
        self.refused(f"--ranks 2 --resume {garbage}", "damaged", garbage)


if __name__ == "__main__":
    unittest.main()
