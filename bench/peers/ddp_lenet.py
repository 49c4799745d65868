"""Caffe's LeNet on MNIST under PyTorch's DistributedDataParallel over Gloo, as its users write it.

torchrun --nproc-per-node 2 ddp_lenet.py --data data/mnist --batch-size 32
--loader standard takes DataLoader and DistributedSampler; tensors slices whole batches out of memory, which is
faster than most users' code. Rank 0 prints one JSON line: images per second over all ranks after the first 20
steps, seconds from the start of the process to the end of the first step, test accuracy, peak memory.
"""
import argparse
import json
import os
import resource
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

WARM_UP = 20


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))
        for layer in self.layers:
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, x):
        return self.layers(x)


def mnist(folder, part):
    images = np.fromfile(Path(folder, f"{part}-images-idx3-ubyte"), np.uint8)[16:].reshape(-1, 1, 28, 28)
    labels = np.fromfile(Path(folder, f"{part}-labels-idx1-ubyte"), np.uint8)[8:]
    return torch.from_numpy(images.astype(np.float32) / 256), torch.from_numpy(labels.astype(np.int64))


class Slices:
    """The batches of this rank's share, shuffled anew each epoch, cut out of tensors in memory."""

    def __init__(self, images, labels, sampler, batch_size):
        self.images, self.labels, self.sampler, self.batch_size = images, labels, sampler, batch_size

    def __iter__(self):
        mine = torch.tensor(list(self.sampler))
        for at in range(0, len(mine) - self.batch_size + 1, self.batch_size):
            chosen = mine[at : at + self.batch_size]
            yield self.images[chosen], self.labels[chosen]


def seconds_since_exec():
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return float(Path("/proc/uptime").read_text().split()[0]) - started


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data/mnist")
    parser.add_argument("--batch-size", type=int, default=32, help="of each rank")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="end after so many, without an evaluation")
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loader", choices=["standard", "tensors"], default="standard")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    images, labels = mnist(args.data, "train")
    data = TensorDataset(images, labels)
    sampler = DistributedSampler(data, shuffle=True, seed=args.seed)
    if args.loader == "standard":
        loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    else:
        loader = Slices(images, labels, sampler, args.batch_size)
    model = DistributedDataParallel(LeNet())
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate, momentum=0.9, weight_decay=5e-4)

    step, first_step, start = 0, 0.0, 0.0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            if step == 1:
                first_step = seconds_since_exec()
            if step == WARM_UP:
                start = time.perf_counter()
            if step == args.steps:
                break
        if step == args.steps:
            break
    seconds = time.perf_counter() - start
    if step <= WARM_UP:
        raise SystemExit(f"ddp_lenet: more than {WARM_UP} steps are needed, not {step}")

    if rank == 0:
        found = {
            "ranks": world_size, "threads": torch.get_num_threads(), "loader": args.loader, "steps": step,
            "images_per_second": round((step - WARM_UP) * args.batch_size * world_size / seconds, 1),
            "first_step_seconds": round(first_step, 3),
            "peak_rss_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        }
        if not args.steps:
            with torch.no_grad():
                test_images, test_labels = mnist(args.data, "t10k")
                right = model.module(test_images).argmax(1) == test_labels
                found["test_accuracy"] = round(right.float().mean().item(), 4)
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
