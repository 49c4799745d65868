"""All-reduce of float32 by PyTorch over Gloo, as a peer to measure against: torchrun ... gloo_allreduce.py ROUNDS BYTES...

Prints the same lines by the same rules as mpi_allreduce.c."""
import json
import statistics
import sys
import time

import torch
import torch.distributed as dist


def repetitions(size):
    return min(2000, max(5, 200_000_000 // size))


def median_us(tensor, n):
    dist.barrier()
    for _ in range(n // 10 + 1):
        dist.all_reduce(tensor)
    seconds = torch.zeros(n, dtype=torch.float64)
    for i in range(n):
        start = time.perf_counter()
        dist.all_reduce(tensor)
        seconds[i] = time.perf_counter() - start
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    return 1e6 * statistics.median(seconds.tolist())


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    for round_ in range(int(sys.argv[1])):
        for size in map(int, sys.argv[2:]):
            tensor = torch.full((size // 4,), rank + 1, dtype=torch.float32)
            dist.all_reduce(tensor)
            if not bool((tensor == world_size * (world_size + 1) / 2).all()):
                sys.exit(f"gloo_allreduce: wrong sum: rank {rank}, {size} bytes")
            tensor.zero_()
            n = repetitions(size)
            us = median_us(tensor, n)
            if rank == 0:
                print(json.dumps({"round": round_, "bytes": size, "median_us": round(us, 3), "repetitions": n}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
