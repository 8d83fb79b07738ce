/* The contract between the framework and a device backend. C11; no framework type
 * crosses it. A backend is a shared library exporting ndt_backend_main().
 *
 * Growth: append fields at the end of a struct that begins with struct_size and bump
 * NDT_ABI_MINOR; anything else bumps NDT_ABI_MAJOR. struct_size is set by whoever fills
 * the struct; a reader must not touch fields past it. */
#ifndef NDT_BACKEND_ABI_H_
#define NDT_BACKEND_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NDT_ABI_MAJOR 1
#define NDT_ABI_MINOR 2
#define NDT_MAX_RANK 8
#define NDT_MAX_PORTS 64

/* Whether a struct that somebody else filled goes as far as this field. */
#define NDT_REACHES(s, field) \
  ((s)->struct_size >= (size_t)((const char*)(&(s)->field + 1) - (const char*)(s)))

typedef enum {
  NDT_OK = 0,
  NDT_UNSUPPORTED = 1, /* a normal answer from prepare(): the caller may try elsewhere */
  NDT_OUT_OF_MEMORY = 2,
  NDT_INVALID = 3,
  NDT_DEVICE_LOST = 4
} ndt_status;

typedef enum {
  NDT_ABSENT = 0, /* an optional input that is not there */
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

/* Dims are logical (N C H W), whatever the layout. Strides are in elements. With
 * channel_block b > 1, dim 1 is rounded up to a multiple of b, the innermost b elements are
 * channels, strides[1] steps over blocks, and the padding lanes hold zeros. A backend refuses
 * (NDT_UNSUPPORTED) layouts it does not read or write; the host may ask for an output with gaps
 * after every image (strides[0] larger than the rest fills) and then for the plain one. */
typedef struct {
  ndt_dtype dtype;
  int32_t rank;
  int64_t dims[NDT_MAX_RANK];
  int64_t strides[NDT_MAX_RANK];
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
  size_t struct_size;
  const char* op;
  const ndt_tensor_type* inputs;
  const ndt_tensor_type* outputs;
  const ndt_attr* attrs;
  int32_t n_inputs, n_outputs, n_attrs;
  /* Host data of inputs that never change (frozen weights), null for the others; the array
   * itself may be null. Equal constant_ids mean equal bytes: packed copies may be shared
   * between kernels and between plans of different batch. */
  const void* const* constants;
  const uint64_t* constant_ids;
  /* Since 1.2: the host runs several of these kernels at once, each in one of its threads, so that
   * there is nothing to gain from cutting the work of one. */
  int32_t in_one_thread;
} ndt_node;

/* Bytes of ndt_node in version 1.0: the least that a host fills. */
#define NDT_NODE_SIZE_1_0 offsetof(ndt_node, in_one_thread)

/* What prepare() decided. */
typedef struct {
  size_t struct_size;
  ndt_kernel* kernel;
  size_t workspace;
  uint64_t packed_inputs;   /* bit i: constant i was copied, the host may free its own */
  uint64_t in_place_inputs; /* bit i: output 0 may lie over input i */
} ndt_prepared;

/* Services of the host. A backend starts no threads of its own. */
typedef struct {
  size_t struct_size;
  int32_t threads;
  /* Calls body over disjoint ranges of at most `grain` that cover [0, n), on any of the host's
   * threads, and returns when all are done. Nested calls run where they are. */
  void (*parallel_for)(int64_t n, int64_t grain,
                       void (*body)(int64_t begin, int64_t end, void* arg), void* arg);
  void (*log)(int32_t level, const char* message);
} ndt_host;

/* Which algorithm a layer takes by measurement, and which by the fixed rule. */
typedef struct {
  size_t struct_size;
  const char* layer; /* what it computes, in the words of the tuning file */
  const char *chosen, *rule;
  double chosen_seconds, rule_seconds; /* 0: not measured now */
} ndt_choice;

typedef struct {
  size_t struct_size;
  int32_t deterministic; /* fixed choice of algorithm, fixed order of sums */
  int32_t allow_tf32;
  /* Null, or where measured choices are. Read by open() and never again: layers that it does not
   * name, and all of a deterministic device, follow the fixed rule. */
  const char* tuning_file;
  int32_t less_memory; /* since 1.1: no faster algorithm that takes more memory */
  /* Since 1.2. Not null: the device is for tuning only. prepare() measures what tuning_file lacks,
   * adds it there, and tells every choice here, in its own thread. */
  void (*on_choice)(void* arg, const ndt_choice* choice);
  void* on_choice_arg;
} ndt_options;

/* Bytes of ndt_options in version 1.0: the least that a host fills. */
#define NDT_OPTIONS_SIZE_1_0 offsetof(ndt_options, less_memory)

typedef struct {
  size_t struct_size;
  int32_t abi_major, abi_minor;
  const char* name; /* "cpu", "cuda" */
  /* What decides the bits of a result: plugin, version, libraries, instruction set. */
  const char* numerics;
  int32_t shares_host_memory; /* buffers may be read by other backends that share it too */

  /* Why the last call on this thread failed. Never null. */
  const char* (*last_error)(void);

  ndt_status (*device_count)(int32_t* count);
  ndt_status (*open)(int32_t index, const ndt_options* options, ndt_device** device);
  void (*close)(ndt_device* device);

  ndt_status (*alloc)(ndt_device* device, size_t bytes, void** ptr);
  void (*free)(ndt_device* device, void* ptr);
  ndt_status (*host_alloc)(ndt_device* device, size_t bytes,
                           void** ptr); /* pinned where it matters */
  void (*host_free)(ndt_device* device, void* ptr);

  ndt_status (*stream_create)(ndt_device* device, ndt_stream** stream);
  void (*stream_destroy)(ndt_stream* stream);
  ndt_status (*stream_wait)(ndt_stream* stream); /* blocks; reports deferred errors */
  /* Host to device and back; `download` also copies within the device. `src` of an upload and `dst`
   * of a download stay untouched by the host until stream_wait(). */
  ndt_status (*upload)(ndt_stream* stream, void* dst, const void* src, size_t bytes);
  ndt_status (*download)(ndt_stream* stream, void* dst, const void* src, size_t bytes);

  /* Rewrites the types of a node's ports to the layouts this backend would rather have; the
   * layout pass asks, and inserts reorders. Optional: null means plain. */
  ndt_status (*prefer)(ndt_device* device, const ndt_node* node, ndt_tensor_type* inputs,
                       ndt_tensor_type* outputs);

  /* Chooses an implementation for one node, once. NDT_UNSUPPORTED with a reason in
   * last_error() if there is none: then another backend, or the node taken apart. */
  ndt_status (*prepare)(ndt_device* device, const ndt_node* node, ndt_prepared* out);

  /* Enqueues. A kernel is immutable: run() may be called on several streams at once, each with
   * its own workspace. It neither allocates nor waits for the device. */
  ndt_status (*run)(const ndt_kernel* kernel, ndt_stream* stream, const void* const* inputs,
                    void* const* outputs, void* workspace);
  void (*release)(ndt_kernel* kernel);

  /* Optional (may be null): order streams, capture and replay a whole plan, reach the native
   * stream (for a collectives library). */
  ndt_status (*event_create)(ndt_device* device, ndt_event** event);
  ndt_status (*event_record)(ndt_stream* stream, ndt_event* event);
  ndt_status (*event_wait)(ndt_stream* stream, ndt_event* event);
  void (*event_destroy)(ndt_event* event);
  ndt_status (*capture_begin)(ndt_stream* stream);
  ndt_status (*capture_end)(ndt_stream* stream, ndt_kernel** graph);
  void* (*native_stream)(ndt_stream* stream);

  /* For people: chip, memory, driver, libraries, in one line that lives as long as the device.
   * Optional. */
  const char* (*describe)(ndt_device* device);

  /* Since 1.2, optional: what decides the bits of this device's results, with what its options and
   * its tuning file change. Final when the device is opened; lives as long as it. Without it
   * `numerics` says so for all devices, and the host names no tuning file. */
  const char* (*device_numerics)(ndt_device* device);
} ndt_backend;

/* Bytes of ndt_backend in version 1.0: the least that a backend fills. */
#define NDT_BACKEND_SIZE_1_0 offsetof(ndt_backend, device_numerics)

/* Exported by every backend. Returns null if it cannot serve this host. */
typedef const ndt_backend* (*ndt_backend_main_fn)(int32_t host_major, int32_t host_minor,
                                                  const ndt_host* host);

#ifdef __cplusplus
}
#endif

#endif /* NDT_BACKEND_ABI_H_ */
