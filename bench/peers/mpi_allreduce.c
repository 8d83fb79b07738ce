/* What MPI_Allreduce takes of a C program that does nothing else: the other side of all_reduce.py.
 *
 *   mpicc -O2 -o DIR/mpi_allreduce bench/peers/mpi_allreduce.c
 *   mpirun -n 2 DIR/mpi_allreduce ROUNDS MEGABYTES…
 *
 * Rank 0 prints a line for each size: megabytes, and the median in milliseconds of so many rounds
 * after one that does not count. A round begins when all ranks are ready. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static float value(int rank, long k) { return (float)(rank + k % 7); }

/* In place, as a training has its gradients. */
static double round_s(float* data, long values, int rank, int ranks) {
  for (long k = 0; k < values; ++k) data[k] = value(rank, k);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begun = MPI_Wtime();
  MPI_Allreduce(MPI_IN_PLACE, data, (int)values, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  const double took = MPI_Wtime() - begun;
  for (long k = 0; k < values; ++k) {
    if (data[k] == (float)(ranks * (ranks - 1) / 2 + ranks * (k % 7))) continue;
    fprintf(stderr, "mpi_allreduce: the sum of element %ld is %g\n", k, data[k]);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return took;
}

int main(int words, char** word) {
  int rank = 0, ranks = 0;
  MPI_Init(&words, &word);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int rounds = words > 2 ? atoi(word[1]) : 0;
  double* const times = malloc(sizeof *times * (size_t)(rounds > 0 ? rounds : 1));
  if (rounds < 1 || times == NULL) {
    if (rank == 0) fprintf(stderr, "usage: mpi_allreduce ROUNDS MEGABYTES...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (int i = 2; i < words; ++i) {
    const long values = atol(word[i]) * 1000000 / (long)sizeof(float);
    float* const data = malloc(sizeof *data * (size_t)values);
    if (values < 1 || data == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
    for (int r = -1; r < rounds; ++r) {
      const double took = round_s(data, values, rank, ranks);
      if (r >= 0) times[r] = took;
    }
    qsort(times, (size_t)rounds, sizeof *times, ascending);
    const double median = (times[(rounds - 1) / 2] + times[rounds / 2]) / 2;
    if (rank == 0) printf("%s %.4f\n", word[i], median * 1e3);
    free(data);
  }
  free(times);
  MPI_Finalize();
  return 0;
}
