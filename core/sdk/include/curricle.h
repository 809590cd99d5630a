/* curricle.h: the interface between curricle and components in dynamic libraries.
 *
 * A library exports one symbol, CURRICLE_PLUGIN_V1, through which curricle finds its losses,
 * samplers and weight schemes. C++ authors include curricle.hpp instead, which fills in the tables
 * and catches exceptions; Rust authors use the crate curricle-sdk and never see this file.
 *
 * Ownership
 *   Arguments are borrowed for the duration of the call; the callee copies what it keeps. Text,
 *   arrays and records are returned through callbacks ("sinks") that copy them before they return.
 *   Each side frees only what it allocated, with one exception: the receiver owns and deletes a
 *   tensor returned as a result (the loss, a logged scalar). Both sides use the same libtorch and
 *   the same C++ runtime, so `new` and `delete` match.
 *
 * Tensors
 *   curricle_tensor is libtorch's `at::Tensor*`. Autograd, gradient mode and the random
 *   generator are shared. A borrowed tensor may be copied (`at::Tensor mine = *theirs;`), which
 *   shares its storage. Components stay on the device of their inputs.
 *
 * Text
 *   curricle_str is UTF-8 without a terminator; `data` may be null only if `len` is 0.
 *
 * Errors
 *   Functions that return curricle_status return CURRICLE_OK, or CURRICLE_FAILED after calling the
 *   error sink exactly once. Exceptions and panics must not cross the boundary.
 *
 * Threads
 *   `visit` is called once. Instances are immutable; their functions may be called from any thread,
 *   and concurrently for different instances. Callbacks may be called only during the call they
 *   were passed to, on the same thread, except curricle_host.log, which may be called at any time
 *   from any thread.
 *
 * Lifetime
 *   A loaded library is never unloaded. Records and tables passed to the visitor must stay valid
 *   until the process ends; an instance lives from `create` to `destroy`.
 *
 * Versions
 *   Fields are only appended to structs. Each versioned struct carries its size as compiled by its
 *   author, and the reader uses no field beyond it. An incompatible change gets a new symbol and a
 *   new CURRICLE_ABI_MAJOR. The libtorch versions must be equal: it has no stable C++ interface.
 */
#ifndef CURRICLE_H
#define CURRICLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CURRICLE_ABI_MAJOR 1u
#define CURRICLE_ABI_MINOR 0u
#define CURRICLE_LIBTORCH "2.13.0"
#if defined(__linux__) && defined(__x86_64__)
#define CURRICLE_TARGET "x86_64-linux"
#elif defined(__linux__) && defined(__aarch64__)
#define CURRICLE_TARGET "aarch64-linux"
#elif defined(__APPLE__) && defined(__aarch64__)
#define CURRICLE_TARGET "aarch64-macos"
#else
#define CURRICLE_TARGET "other"
#endif

typedef uint32_t curricle_status;
#define CURRICLE_OK 0u
#define CURRICLE_FAILED 1u

/* The kind of an error; determines how curricle reports it. */
#define CURRICLE_ERROR_OTHER 1u
#define CURRICLE_ERROR_SETTING 2u /* `path` names the setting, e.g. "lambda.start" */
#define CURRICLE_ERROR_TORCH 3u   /* libtorch rejected an operation */
#define CURRICLE_ERROR_PANIC 4u   /* the component panicked or threw something unexpected */

/* libtorch's at::Tensor*. */
typedef void *curricle_tensor;

typedef struct {
  const char *data;
  size_t len;
} curricle_str;

/* Receives text; several calls are concatenated. */
typedef struct {
  void *context;
  void (*write)(void *context, curricle_str text);
} curricle_text_sink;

/* Receives one error. `path` is empty unless the code is CURRICLE_ERROR_SETTING. */
typedef struct {
  void *context;
  void (*write)(void *context, uint32_t code, curricle_str path, curricle_str message);
} curricle_error_sink;

/* What the host offers until the process ends; copy it. */
typedef struct {
  size_t size;
  /* Writes a line to the run's log: level 0 debug, 1 information, 2 warning. Any thread. */
  void (*log)(uint32_t level, curricle_str line);
} curricle_host;

/* Sizes that declared tensors may depend on. */
typedef struct {
  size_t size;
  int64_t classes;   /* training classes; labels run from 0 to classes - 1 */
  int64_t samples;   /* training samples; ids run from 0 to samples - 1 */
  int64_t embedding; /* dimensions of the embedding */
} curricle_shape;

/* A tensor a component needs beyond its inputs. curricle creates, seeds, places, optimises,
 * checkpoints and restores it, and lends it on every call. */
typedef struct {
  size_t size;
  curricle_str name; /* unique within the component */
  const int64_t *shape;
  size_t dimensions;
  uint32_t init;      /* 0: every element is init_value; 1: normal, standard deviation init_value */
  uint32_t trainable; /* not 0: updated by the optimiser */
  double init_value;
  curricle_str group; /* parameter group, for `groups.<group>.lr_scale` in recipes */
  double lr_scale;    /* the group's scale unless the recipe sets one */
} curricle_tensor_spec;

typedef struct {
  void *context;
  void (*declare)(void *context, const curricle_tensor_spec *spec);
} curricle_tensor_sink;

/* A declared tensor by name, borrowed. In-place changes to tensors that are not trainable are kept. */
typedef struct {
  curricle_str name;
  curricle_tensor tensor;
} curricle_named_tensor;

/* A batch. All tensors are on one device. */
typedef struct {
  size_t size;
  curricle_tensor embeddings; /* [B, D], unit norm, f32 or f64; gradients flow through it */
  curricle_tensor labels;     /* [B], i64 */
  curricle_tensor ids;        /* [B], i64: the training sample behind each row */
  curricle_tensor weights;    /* [B], in [0, 1], or null if all are 1 */
  const curricle_named_tensor *tensors;
  size_t tensor_count;
} curricle_batch;

/* Receives named scalars; they are dropped unless `enabled`. */
typedef struct {
  size_t size;
  void *context;
  uint32_t enabled;
  /* Takes ownership of a one-element tensor. */
  void (*scalar)(void *context, curricle_str name, curricle_tensor value);
} curricle_log;

/* What is known about the training data when advice is requested. */
typedef struct {
  size_t size;
  const size_t *class_sizes;
  size_t classes;
  size_t embedding_size;
  size_t batch_size; /* 0 if not known */
} curricle_data_facts;

/* Receives warnings about settings that are valid but degenerate. */
typedef struct {
  void *context;
  void (*advise)(void *context, curricle_str path, curricle_str message);
} curricle_advice_sink;

typedef struct {
  size_t size;
  const int64_t *labels; /* of every training sample */
  size_t samples;
  uint64_t seed;
  uint64_t epoch; /* from 0 */
} curricle_epoch;

typedef struct {
  void *context;
  void (*batch)(void *context, const int64_t *ids, size_t count);
} curricle_batch_sink;

/* The recipe's loss, for weight schemes that take their constants from it. */
typedef struct {
  curricle_str name;
  curricle_str settings; /* a JSON object */
} curricle_loss_info;

typedef struct {
  size_t size;
  uint64_t round; /* from 1 */
  uint64_t rounds;
  uint64_t seed;
  curricle_tensor embeddings; /* [N, D] of the whole training set, or null if not needed */
  const int64_t *labels;
  const double *weights; /* current ones */
  size_t samples;
  const curricle_named_tensor *tensors;
  size_t tensor_count;
  curricle_loss_info loss;
  double age; /* overrides the age of the scheme's schedule; NaN if it does not */
} curricle_round;

/* Receives the result of a weight scheme: `weights` once, the others any number of times. */
typedef struct {
  void *context;
  void (*weights)(void *context, const double *values, size_t count);
  void (*scalar)(void *context, curricle_str name, double value);
  void (*column)(void *context, curricle_str name, const double *values, size_t count);
} curricle_weight_sink;

/* The functions of a loss. */
typedef struct {
  size_t size;
  curricle_status (*tensors)(const void *instance, const curricle_shape *shape, curricle_tensor_sink sink,
                             curricle_error_sink error);
  /* Returns a scalar that gradients flow through, on the device of the embeddings; the host owns it.
   * Must not wait for the device. With all weights 1 it must equal the unweighted loss. */
  curricle_status (*forward)(const void *instance, const curricle_batch *batch, const curricle_log *log,
                             curricle_tensor *loss, curricle_error_sink error);
  curricle_status (*advice)(const void *instance, const curricle_data_facts *data, curricle_advice_sink sink,
                            curricle_error_sink error);
} curricle_loss_table;

/* The functions of a sampler. `batches` must depend only on the settings and the epoch. */
typedef struct {
  size_t size;
  curricle_status (*batches)(const void *instance, const curricle_epoch *epoch, curricle_batch_sink sink,
                             curricle_error_sink error);
  /* Writes the number of samples in a full batch. Called once, after create. */
  curricle_status (*batch_size)(const void *instance, size_t *size, curricle_error_sink error);
  curricle_status (*advice)(const void *instance, const curricle_data_facts *data, curricle_advice_sink sink,
                            curricle_error_sink error);
} curricle_sampler_table;

/* The functions of a weight scheme. */
typedef struct {
  size_t size;
  curricle_status (*tensors)(const void *instance, const curricle_shape *shape, curricle_tensor_sink sink,
                             curricle_error_sink error);
  curricle_status (*update)(const void *instance, const curricle_round *round, curricle_weight_sink sink,
                            curricle_error_sink error);
  /* Both write 1 or 0 and are called once, after create. Does update read the embeddings (computing
   * them costs a pass over the data)? Are all weights always 1? */
  curricle_status (*needs_embeddings)(const void *instance, uint32_t *answer, curricle_error_sink error);
  curricle_status (*is_uniform)(const void *instance, uint32_t *answer, curricle_error_sink error);
  curricle_status (*advice)(const void *instance, const curricle_data_facts *data, curricle_loss_info loss,
                            curricle_advice_sink sink, curricle_error_sink error);
} curricle_weights_table;

/* One component. */
typedef struct {
  size_t size;
  curricle_str kind; /* "loss", "sampler" or "weights" */
  curricle_str name; /* the name used in recipes */
  curricle_str version;
  curricle_str summary; /* one line */
  const void *data;     /* passed to schema and create */
  /* Writes the JSON Schema (draft-07) of the settings, with defaults and descriptions. curricle
   * validates recipes against it and fills in the defaults. */
  curricle_status (*schema)(const void *data, curricle_text_sink sink, curricle_error_sink error);
  /* Creates an instance from settings, a JSON object that fits the schema. */
  curricle_status (*create)(const void *data, curricle_str settings, void **instance, curricle_error_sink error);
  void (*destroy)(void *instance);
  const void *table; /* curricle_loss_table, curricle_sampler_table or curricle_weights_table */
} curricle_component;

typedef struct {
  void *context;
  void (*component)(void *context, const curricle_component *component);
} curricle_component_sink;

/* What a library exports. */
typedef struct {
  char magic[8]; /* "CURRICLE", without a terminator */
  uint32_t abi_major;
  uint32_t abi_minor;
  size_t size;
  curricle_str sdk; /* what it was built with, for messages */
  curricle_str tch; /* version of the Rust crate tch, or empty */
  curricle_str libtorch;
  curricle_str target;
  /* Passes every component to the visitor. Called once, before anything else. */
  curricle_status (*visit)(const curricle_host *host, curricle_component_sink visitor, curricle_error_sink error);
} curricle_plugin;

#if defined(__cplusplus)
#define CURRICLE_ASSERT(condition) static_assert(condition, #condition)
#else
#define CURRICLE_ASSERT(condition) _Static_assert(condition, #condition)
#endif
#if UINTPTR_MAX == 0xffffffffffffffffu
/* core/sdk/src/abi/mod.rs has the same assertions. */
CURRICLE_ASSERT(sizeof(curricle_str) == 16);
CURRICLE_ASSERT(sizeof(curricle_plugin) == 96);
CURRICLE_ASSERT(sizeof(curricle_component) == 112);
CURRICLE_ASSERT(sizeof(curricle_loss_table) == 32);
CURRICLE_ASSERT(sizeof(curricle_sampler_table) == 32);
CURRICLE_ASSERT(sizeof(curricle_weights_table) == 48);
CURRICLE_ASSERT(sizeof(curricle_shape) == 32);
CURRICLE_ASSERT(sizeof(curricle_tensor_spec) == 80);
CURRICLE_ASSERT(sizeof(curricle_batch) == 56);
CURRICLE_ASSERT(sizeof(curricle_log) == 32);
CURRICLE_ASSERT(sizeof(curricle_data_facts) == 40);
CURRICLE_ASSERT(sizeof(curricle_epoch) == 40);
CURRICLE_ASSERT(sizeof(curricle_round) == 120);
CURRICLE_ASSERT(sizeof(curricle_weight_sink) == 32);
#endif

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* CURRICLE_H */
