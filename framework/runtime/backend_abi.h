/* The contract between the framework and a device backend, which is a shared library that exports
 * ndt_backend_main(). C11; no framework type crosses it. Any change bumps NDT_ABI_VERSION. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define NDT_ABI_VERSION 2
#define NDT_MAX_RANK 8
#define NDT_MAX_PORTS 64

typedef enum {
  NDT_OK,
  NDT_UNSUPPORTED, /* a normal answer of prepare(): the host may try elsewhere */
  NDT_OUT_OF_MEMORY,
  NDT_INVALID,
  NDT_DEVICE_LOST
} ndt_status;

typedef enum {
  NDT_ABSENT, /* an optional input that is not there */
  NDT_F32,
  NDT_F16,
  NDT_BF16,
  NDT_F64,
  NDT_I8,
  NDT_U8,
  NDT_I16,
  NDT_U16,
  NDT_I32,
  NDT_U32,
  NDT_I64,
  NDT_U64,
  NDT_BOOL
} ndt_dtype;

typedef struct ndt_device ndt_device; /* opaque, owned by the backend */
typedef struct ndt_stream ndt_stream;
typedef struct ndt_kernel ndt_kernel;
typedef struct ndt_event ndt_event;

/* Dims are logical (N C H W), whatever the layout; strides are in elements. Where channel_block is
 * b > 1, dim 1 is rounded up to a multiple of b, the innermost b elements are channels, strides[1]
 * steps over blocks, and padding lanes hold zeros. Outputs may be asked for with gaps after every
 * image (strides[0] larger than the rest fills). A backend refuses layouts it does not take. */
typedef struct {
  ndt_dtype dtype;
  int32_t rank;
  int64_t dims[NDT_MAX_RANK], strides[NDT_MAX_RANK];
  int32_t channel_block; /* 0 or 1: not blocked */
} ndt_tensor_type;

typedef struct {
  const char* name;
  int64_t n; /* -1: see f; -2: see s; else n integers at i */
  const int64_t* i;
  double f;
  const char* s;
} ndt_attr;

typedef struct {
  const char* op;
  const ndt_tensor_type *inputs, *outputs;
  const ndt_attr* attrs;
  int32_t n_inputs, n_outputs, n_attrs;
  /* Host data of inputs that never change (frozen weights), null for the others; the array may be
   * null. Equal constant_ids mean equal bytes: packed copies may be shared between kernels. */
  const void* const* constants;
  const uint64_t* constant_ids;
  int32_t in_one_thread; /* it runs beside others of its kind: cutting its work gains nothing */
} ndt_node;

typedef struct {
  ndt_kernel* kernel;
  size_t workspace;
  uint64_t packed_inputs;   /* bit i: constant i was copied, the host may free its own */
  uint64_t in_place_inputs; /* bit i: output 0 may lie over input i */
} ndt_prepared;

/* Services of the host. A backend starts no threads of its own. */
typedef struct {
  int32_t threads;
  /* Calls body over disjoint ranges of at most `grain` that cover [0, n), on any of the host's
   * threads, and returns when all are done. Nested calls run where they are. */
  void (*parallel_for)(int64_t n, int64_t grain,
                       void (*body)(int64_t begin, int64_t end, void* arg), void* arg);
  void (*log)(int32_t level, const char* message); /* 0 debug, 1 info, 2 warning, 3 error */
} ndt_host;

/* Which algorithm a layer takes by measurement, and which by the fixed rule. */
typedef struct {
  const char *layer, *chosen, *rule;   /* the layer in the words of the tuning file */
  double chosen_seconds, rule_seconds; /* 0: not measured now */
} ndt_choice;

typedef struct {
  int32_t deterministic, allow_tf32; /* fixed: choice of algorithm, order of sums */
  /* Null, or measured choices, read by open(). What is not in it follows the fixed rule. */
  const char* tuning_file;
  int32_t less_memory; /* no faster algorithm that takes more memory */
  /* Null; or, for tuning alone: prepare() adds what the file lacks, and tells each choice. */
  void (*on_choice)(void* arg, const ndt_choice* choice);
  void* on_choice_arg;
} ndt_options;

/* Functions with a status leave the reason of what is not NDT_OK in last_error(). */
typedef struct {
  int32_t version;      /* NDT_ABI_VERSION */
  const char* name;     /* "cpu", "cuda" */
  const char* numerics; /* what decides the bits of a result: plugin, libraries, instruction set */
  int32_t shares_host_memory; /* buffers may be read by the host and others that share it too */

  const char* (*last_error)(void); /* of this thread; never null */
  ndt_status (*device_count)(int32_t* count);
  ndt_status (*open)(int32_t index, const ndt_options* options, ndt_device** device);
  void (*close)(ndt_device* device);
  ndt_status (*alloc)(ndt_device* device, size_t bytes, void** ptr);
  void (*free)(ndt_device* device, void* ptr);
  ndt_status (*host_alloc)(ndt_device* device, size_t bytes, void** ptr); /* pinned if it matters */
  void (*host_free)(ndt_device* device, void* ptr);
  ndt_status (*stream_create)(ndt_device* device, ndt_stream** stream);
  void (*stream_destroy)(ndt_stream* stream);
  ndt_status (*stream_wait)(ndt_stream* stream); /* blocks; tells of deferred errors */
  /* To the device; back, or within it. The host leaves its end alone until stream_wait(). */
  ndt_status (*upload)(ndt_stream* stream, void* dst, const void* src, size_t bytes);
  ndt_status (*download)(ndt_stream* stream, void* dst, const void* src, size_t bytes);
  /* Chooses an implementation for one node, once. */
  ndt_status (*prepare)(ndt_device* device, const ndt_node* node, ndt_prepared* out);
  /* Enqueues; neither allocates nor waits. Streams may share a kernel, each with a workspace. */
  ndt_status (*run)(const ndt_kernel* kernel, ndt_stream* stream, const void* const* inputs,
                    void* const* outputs, void* workspace);
  void (*release)(ndt_kernel* kernel);
  /* Each from here on may be null. This one rewrites the types of ports to preferred layouts. */
  ndt_status (*prefer)(ndt_device* device, const ndt_node* node, ndt_tensor_type* inputs,
                       ndt_tensor_type* outputs);
  ndt_status (*event_create)(ndt_device* device, ndt_event** event); /* to order streams */
  ndt_status (*event_record)(ndt_stream* stream, ndt_event* event);
  ndt_status (*event_wait)(ndt_stream* stream, ndt_event* event);
  void (*event_destroy)(ndt_event* event);
  ndt_status (*capture_begin)(ndt_stream* stream); /* what follows is replayed as one kernel */
  ndt_status (*capture_end)(ndt_stream* stream, ndt_kernel** graph);
  void* (*native_stream)(ndt_stream* stream); /* for a collectives library */
  /* For people: chip, memory, driver, libraries. It and the next live as long as the device. */
  const char* (*describe)(ndt_device* device);
  /* `numerics` as options and tuning file change them; null: no tuning file is read here. */
  const char* (*device_numerics)(ndt_device* device);
} ndt_backend;

/* Exported by every backend. Null: it cannot serve this host. */
typedef const ndt_backend* (*ndt_backend_main_fn)(int32_t version, const ndt_host* host);
