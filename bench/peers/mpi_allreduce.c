// All-reduce of float32 by MPI, as a peer to measure against: mpi_allreduce ROUNDS BYTES...
// For each round and size it prints one JSON line with the median time in microseconds. The time of
// one all-reduce is that of its slowest rank; they follow one another without a barrier, as in
// training, after a tenth of them as warm-up. The result is checked once for each size.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

// Enough repetitions to move about 200 MB, at least 5, at most 2000.
static int repetitions(long bytes) {
  const long n = 200000000L / (bytes > 0 ? bytes : 1);
  return n < 5 ? 5 : n > 2000 ? 2000 : (int)n;
}

static void all_reduce(float* data, int count) {
  MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

// The sum of 1, 2, ... world_size, in every element.
static int sums_right(float* data, int count, int rank, int world_size) {
  const float expected = (float)(world_size * (world_size + 1) / 2);
  for (int i = 0; i < count; ++i) data[i] = (float)(rank + 1);
  all_reduce(data, count);
  for (int i = 0; i < count; ++i) {
    if (data[i] != expected) return 0;
  }
  for (int i = 0; i < count; ++i) data[i] = 0;
  return 1;
}

static double median_us(float* data, int count, int n, double* seconds, double* slowest) {
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < n / 10 + 1; ++i) all_reduce(data, count);
  for (int i = 0; i < n; ++i) {
    const double start = MPI_Wtime();
    all_reduce(data, count);
    seconds[i] = MPI_Wtime() - start;
  }
  MPI_Allreduce(seconds, slowest, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  qsort(slowest, (size_t)n, sizeof(double), by_value);
  return 1e6 * (n % 2 ? slowest[n / 2] : (slowest[n / 2 - 1] + slowest[n / 2]) / 2);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, world_size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  if (argc < 3) {
    if (rank == 0) fprintf(stderr, "usage: mpi_allreduce ROUNDS BYTES...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (int round = 0; round < atoi(argv[1]); ++round) {
    for (int a = 2; a < argc; ++a) {
      const long bytes = atol(argv[a]);
      const int count = (int)(bytes / (long)sizeof(float)), n = repetitions(bytes);
      float* data = malloc((size_t)bytes + sizeof(float));
      double* times = malloc(2 * (size_t)n * sizeof(double));
      if (data == NULL || times == NULL || count < 1 ||
          !sums_right(data, count, rank, world_size)) {
        fprintf(stderr, "mpi_allreduce: wrong sum, or no memory: rank %d, %ld bytes\n", rank,
                bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
      const double us = median_us(data, count, n, times, times + n);
      if (rank == 0) {
        printf("{\"round\": %d, \"bytes\": %ld, \"median_us\": %.3f, \"repetitions\": %d}\n", round,
               bytes, us, n);
        fflush(stdout);
      }
      free(times);
      free(data);
    }
  }
  MPI_Finalize();
  return 0;
}
