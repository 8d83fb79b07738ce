/* The contract between the framework and a communication plugin (MPI, NCCL), which is a shared
 * library that exports ndt_comm_main(). C11; no framework type crosses it. Any change bumps
 * NDT_COMM_VERSION. One thread at a time makes calls of a group, not always the same one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define NDT_COMM_VERSION 3

/* Functions with a status leave the reason of what is not NDT_COMM_OK in last_error(), which is of
 * the thread that called them. */
typedef enum {
  NDT_COMM_OK,
  NDT_COMM_UNSUPPORTED, /* there is no such thing here, however often it is asked for */
  NDT_COMM_INVALID,     /* what cannot be; nothing has begun */
  NDT_COMM_TRUNCATED,   /* of a receive: what came is longer */
  NDT_COMM_LOST         /* a rank is gone or the library failed: the group is of no use any more */
} ndt_comm_status;

typedef enum { NDT_COMM_F32, NDT_COMM_F16, NDT_COMM_BF16 } ndt_comm_type;

typedef struct ndt_comm ndt_comm; /* a group of ranks, as one of them has it; opaque */

/* A message or collective that has ended, by the number that the host gave it. */
typedef struct {
  uint64_t request;
  ndt_comm_status status;
  uint64_t bytes; /* of a receive: how many came, which may be fewer than it had room for */
} ndt_comm_done;

/* Memory that is given to an operation is the plugin's until test_some() says that it has ended; an
 * operation cannot be taken back. Addresses are the host's, or where device_memory is set a
 * device's; then `stream` is a native stream of it, and the operation waits for the work that it
 * has been given so far. Null, as always for memory of the host: there is nothing to wait for. */
typedef struct {
  int32_t version;       /* NDT_COMM_VERSION */
  const char* name;      /* "mpi" */
  const char* library;   /* for people: "Open MPI 4.1.4" */
  int32_t device_memory; /* addresses are a device's */
  /* A message's tag is one of 0 … tags - 1; 0: a pair's messages are matched by their order, and a
   * receive is as long as what it gets. */
  int32_t tags;
  uint64_t most_bytes; /* of one message; 64 KiB or more */

  const char* (*last_error)(void); /* never null */

  /* The world that the launcher made (mpirun, srun), where `id` is null and rank and ranks are -1;
   * else that of so many ranks, all of which have the id that unique_id() gave one of them. All
   * ranks call it; it waits for them. Once in a process where the launcher makes the world. */
  ndt_comm_status (*world)(const void* id, size_t id_bytes, int32_t rank, int32_t ranks,
                           ndt_comm** comm);
  int32_t (*rank)(const ndt_comm* comm);
  int32_t (*size)(const ndt_comm* comm);
  const char* (*host)(const ndt_comm* comm, int32_t rank); /* the machine of a rank, for people */
  /* Where nothing is under way and all ranks call it, the library is ended in good order. The
   * group is gone. */
  void (*close)(ndt_comm* comm);
  /* Where that cannot be: the same without waiting for anybody, so that memory of what is under way
   * is left alone from now on (ncclCommAbort; of MPI nothing is called any more, and a launcher
   * that sees such a process end ends the others). */
  void (*abandon)(ndt_comm* comm);

  /* Begin one message, under a number of the host's choice. Those of a pair with equal tags arrive
   * in the order in which they began. Neither waits. On a device those that a rank gives and gets
   * at once are one group (group_begin), or each would wait for the one before it. */
  ndt_comm_status (*send)(ndt_comm* comm, int32_t to, int32_t tag, const void* from, uint64_t bytes,
                          void* stream, uint64_t request);
  ndt_comm_status (*receive)(ndt_comm* comm, int32_t from, int32_t tag, void* into, uint64_t bytes,
                             void* stream, uint64_t request);
  /* Moves what can be moved, without waiting, and writes what has ended since, each once, at most
   * `room` of it; the others come the next time. */
  ndt_comm_status (*test_some)(ndt_comm* comm, ndt_comm_done* done, int32_t room, int32_t* n);

  /* Each from here on may be null; with device_memory none is but split(). This one goes before
   * world(), by the same thread: which device of this process addresses will be of. Writes the
   * device's name, which no other anywhere has: two ranks of a world cannot be on one. */
  ndt_comm_status (*use_device)(int32_t index, char* name, size_t room);
  ndt_comm_status (*unique_id)(void* id,
                               size_t* id_bytes); /* id_bytes: the room, then the length */
  /* Ranks of equal colour are a group, by rising key; all ranks of `of` call it. */
  ndt_comm_status (*split)(ndt_comm* of, int32_t color, int32_t key, ndt_comm** comm);
  /* The library's own collectives, whose order of sums is its affair; all ranks begin them in one
   * order. `count` elements are of each rank's part of the whole, of all_reduce, reduce and
   * broadcast of the whole. In place where `in` is `out` (these three) or the part's place in `out`
   * (all_gather); reduce_scatter is where `out` is the part's place in `in`, with device_memory
   * only. `out` of reduce is the root's alone, `in` of broadcast likewise. What there cannot be
   * (type, count) is NDT_COMM_INVALID. */
  ndt_comm_status (*reduce_scatter)(ndt_comm* comm, const void* in, void* out, uint64_t count,
                                    ndt_comm_type type, void* stream, uint64_t request);
  ndt_comm_status (*all_gather)(ndt_comm* comm, const void* in, void* out, uint64_t count,
                                ndt_comm_type type, void* stream, uint64_t request);
  ndt_comm_status (*all_reduce)(ndt_comm* comm, const void* in, void* out, uint64_t count,
                                ndt_comm_type type, void* stream, uint64_t request);
  ndt_comm_status (*reduce)(ndt_comm* comm, const void* in, void* out, uint64_t count,
                            ndt_comm_type type, int32_t root, void* stream, uint64_t request);
  ndt_comm_status (*broadcast)(ndt_comm* comm, const void* in, void* out, uint64_t count,
                               ndt_comm_type type, int32_t root, void* stream, uint64_t request);
  /* What begins between these, by one thread, is one operation of the library (ncclGroupStart,
   * ncclGroupEnd). */
  ndt_comm_status (*group_begin)(ndt_comm* comm);
  ndt_comm_status (*group_end)(ndt_comm* comm);
} ndt_comm_plugin;

/* Exported by every communication plugin. Null: it cannot serve this host. */
typedef const ndt_comm_plugin* (*ndt_comm_main_fn)(int32_t version);
