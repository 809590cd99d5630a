/* curricle.h: the interface between curricle and components in dynamic libraries.
 *
 * A library exports one symbol, CURRICLE_PLUGIN_V2, through which curricle finds its losses,
 * samplers and weight schemes. C++ authors include curricle.hpp instead, which fills in the tables
 * and catches exceptions; Rust authors use the crate curricle-sdk and never see this file.
 *
 * Ownership
 *   Arguments are borrowed for the duration of the call; the callee copies what it keeps. Text,
 *   arrays and records are returned through callbacks ("sinks") that copy them before they return.
 *   Each side frees only what it allocated, with one exception: the receiver owns and deletes a
 *   tensor returned as a result (the loss, weights, logged numbers), which must be a new handle,
 *   `new at::Tensor(t)`, and never one that was borrowed. Both sides use the same libtorch and
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
 *   error sink exactly once. Panics must not cross the boundary. An exception that leaves a function
 *   becomes an error too, but memory that the function was to free is lost.
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
 * Records
 *   Every record starts with its size as compiled by the side that fills it in, and is passed by
 *   pointer. Fields are only appended. The fields of inputs and sinks in version 2.0, and what
 *   is marked "required", exist in every record; a reader uses any other field only if the record's
 *   size covers it, and takes an absent field for 0 or null. So older and newer libraries work with
 *   older and newer programs. Read a record of the other side like this, with its fields 0 where it
 *   has none:
 *     curricle_batch mine = {0};
 *     memcpy(&mine, theirs, theirs->size < sizeof mine ? theirs->size : sizeof mine);
 *   A function of a table that is not required may be null. curricle_str never changes.
 *
 * Versions
 *   CURRICLE_ABI_MINOR counts appended fields. An incompatible change gets a new symbol and a new
 *   CURRICLE_ABI_MAJOR. The libtorch versions must be equal: it has no stable C++ interface.
 */
#ifndef CURRICLE_H
#define CURRICLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CURRICLE_ABI_MAJOR 2u
#define CURRICLE_ABI_MINOR 1u
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
  size_t size;
  void *context;
  void (*write)(void *context, curricle_str text);
} curricle_text_sink;

/* Receives one error. `path` is empty unless the code is CURRICLE_ERROR_SETTING. */
typedef struct {
  size_t size;
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

/* Types of declared tensors. */
#define CURRICLE_F32 0u
#define CURRICLE_F64 1u
#define CURRICLE_I64 2u
#define CURRICLE_I32 3u
#define CURRICLE_U8 4u
#define CURRICLE_BOOL 5u

/* Initial values of declared tensors. Random ones are for floating-point types only. */
#define CURRICLE_INIT_CONSTANT 0u /* every element is init_a */
#define CURRICLE_INIT_NORMAL 1u   /* mean 0, standard deviation init_a */
#define CURRICLE_INIT_UNIFORM 2u  /* from init_a to init_b */

/* A tensor a component needs beyond its inputs. curricle creates, seeds, places, optimises,
 * checkpoints and restores it, and lends it on every call. */
typedef struct {
  size_t size;
  curricle_str name; /* unique within the component */
  const int64_t *shape;
  size_t dimensions; /* at most 64 */
  uint32_t kind;     /* CURRICLE_F32 to CURRICLE_BOOL; CURRICLE_F32 if trainable */
  uint32_t init;     /* CURRICLE_INIT_… */
  double init_a;
  double init_b;
  uint64_t trainable; /* not 0: updated by the optimiser */
  curricle_str group; /* parameter group, for `groups.<group>.lr_scale` in recipes */
  double lr_scale;    /* the group's scale unless the recipe sets one */
} curricle_tensor_spec;

typedef struct {
  size_t size;
  void *context;
  void (*declare)(void *context, const curricle_tensor_spec *spec);
} curricle_tensor_sink;

/* The declared tensors, borrowed. In-place changes are kept; make them without gradients. */
typedef struct {
  size_t size;
  size_t count;
  const curricle_str *names;
  const curricle_tensor *tensors; /* in the order of the names */
} curricle_tensors;

/* Where in training a batch is. */
typedef struct {
  size_t size;
  uint64_t epoch; /* from 0 */
  uint64_t epochs;
  uint64_t step;  /* within the epoch, from 0 */
  uint64_t steps; /* of this epoch */
  uint64_t global_step; /* steps taken since the start of training; 0 in the first one */
  int64_t classes;
  int64_t samples;
} curricle_step;

/* A batch. All tensors are on one device. */
typedef struct {
  size_t size;
  curricle_tensor embeddings;     /* [B, D], unit norm, f32 or f64; in a loss, gradients flow through it */
  curricle_tensor labels;         /* [B], i64 */
  curricle_tensor ids;            /* [B], i64: the training sample behind each row */
  curricle_tensor weights;        /* [B], in [0, 1], or null if all are 1 */
  curricle_tensor ema_embeddings; /* [B, D] by the network's moving average; null unless needs_ema */
  const curricle_tensors *tensors;
  const curricle_step *step;
} curricle_batch;

/* Receives named numbers during one call. Both functions take ownership of the tensor. */
typedef struct {
  size_t size;
  void *context;
  uint64_t enabled; /* scalars are dropped if it is 0 */
  /* A one-element tensor. */
  void (*scalar)(void *context, curricle_str name, curricle_tensor value);
  /* One number per row of the batch, [B]; the last one of each sample is a column of samples.csv. */
  void (*per_sample)(void *context, curricle_str name, curricle_tensor values);
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
  size_t size;
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
  size_t size;
  void *context;
  void (*batch)(void *context, const int64_t *ids, size_t count);
} curricle_batch_sink;

/* The recipe's loss, for weight schemes that take their constants from it. */
typedef struct {
  size_t size;
  curricle_str name;
  curricle_str settings; /* a JSON object */
} curricle_loss_info;

typedef struct {
  size_t size;
  uint64_t round; /* from 1; 0 is the one before training */
  uint64_t rounds;
  uint64_t seed;
  curricle_tensor embeddings;     /* [N, D] of the whole training set, or null if not needed */
  curricle_tensor ema_embeddings; /* the same by the network's moving average; null unless needs_ema */
  const int64_t *labels;
  const double *weights; /* current ones */
  size_t samples;
  const curricle_tensors *tensors;
  const curricle_loss_info *loss;
  double age; /* overrides the age of the scheme's schedule; NaN if it does not */
} curricle_round;

/* Receives the result of a weight scheme: `weights` once, the others any number of times. */
typedef struct {
  size_t size;
  void *context;
  void (*weights)(void *context, const double *values, size_t count);
  void (*scalar)(void *context, curricle_str name, double value);
  void (*column)(void *context, curricle_str name, const double *values, size_t count);
} curricle_weight_sink;

/* The functions of a loss. */
typedef struct {
  size_t size;
  /* Required. Returns a scalar that gradients flow through, on the device of the embeddings; the host
   * owns it. Must not wait for the device. With all weights 1 it must equal the unweighted loss. */
  curricle_status (*forward)(const void *instance, const curricle_batch *batch, const curricle_log *log,
                             curricle_tensor *loss, const curricle_error_sink *error);
  curricle_status (*tensors)(const void *instance, const curricle_shape *shape, const curricle_tensor_sink *sink,
                             const curricle_error_sink *error);
  curricle_status (*advice)(const void *instance, const curricle_data_facts *data, const curricle_advice_sink *sink,
                            const curricle_error_sink *error);
  /* Called after the optimiser's step, without gradients, e.g. to normalise proxies in place. */
  curricle_status (*after_step)(const void *instance, const curricle_tensors *tensors, const curricle_step *step,
                                const curricle_error_sink *error);
  /* Writes 1 if forward reads ema_embeddings. Called once, after create. */
  curricle_status (*needs_ema)(const void *instance, uint32_t *answer, const curricle_error_sink *error);
  /* Since 2.1. Called once after the tensors were created, and before a checkpoint is restored into them,
   * to give them values that no CURRICLE_INIT_… describes: in place, from nothing but the arguments. */
  curricle_status (*initialise)(const void *instance, const curricle_tensors *tensors, const curricle_shape *shape,
                                uint64_t seed, const curricle_error_sink *error);
  /* Since 2.1. The following write 1 or 0 and are called once, after create. */
  /* Is the gradient the derivative of the value? If not, `plugin check` does not compare the two. If null: yes. */
  curricle_status (*gradient_is_exact)(const void *instance, uint32_t *answer, const curricle_error_sink *error);
  /* Does forward read the weights? If not, recipes with a weight scheme are refused. If null: yes. */
  curricle_status (*takes_weights)(const void *instance, uint32_t *answer, const curricle_error_sink *error);
  /* Does forward compute on the host, so that it waits for the device? If null: no. */
  curricle_status (*runs_on_host)(const void *instance, uint32_t *answer, const curricle_error_sink *error);
} curricle_loss_table;

/* The functions of a sampler. `batches` must depend only on the settings and the epoch. */
typedef struct {
  size_t size;
  /* Required. */
  curricle_status (*batches)(const void *instance, const curricle_epoch *epoch, const curricle_batch_sink *sink,
                             const curricle_error_sink *error);
  /* Required. Writes the number of samples in a full batch. Called once, after create. */
  curricle_status (*batch_size)(const void *instance, size_t *size, const curricle_error_sink *error);
  curricle_status (*advice)(const void *instance, const curricle_data_facts *data, const curricle_advice_sink *sink,
                            const curricle_error_sink *error);
} curricle_sampler_table;

/* The functions of a weight scheme: `update`, `weigh_batch` or both. */
typedef struct {
  size_t size;
  /* The weights of the next round. If it is null they stay as they are. */
  curricle_status (*update)(const void *instance, const curricle_round *round, const curricle_weight_sink *sink,
                            const curricle_error_sink *error);
  /* Returns the weights [B] of a batch, in [0, 1]; the host owns them. If they stay null, those of the
   * round are used. Called before the loss; the embeddings carry no gradient. */
  curricle_status (*weigh_batch)(const void *instance, const curricle_batch *batch, const curricle_log *log,
                                 curricle_tensor *weights, const curricle_error_sink *error);
  curricle_status (*tensors)(const void *instance, const curricle_shape *shape, const curricle_tensor_sink *sink,
                             const curricle_error_sink *error);
  curricle_status (*advice)(const void *instance, const curricle_data_facts *data, const curricle_loss_info *loss,
                            const curricle_advice_sink *sink, const curricle_error_sink *error);
  /* The following write 1 or 0 and are called once, after create. */
  /* Does update read the embeddings? Computing them costs a pass over the data. If null: yes. */
  curricle_status (*needs_embeddings)(const void *instance, uint32_t *answer, const curricle_error_sink *error);
  /* Are all weights always 1? If null: no. */
  curricle_status (*is_uniform)(const void *instance, uint32_t *answer, const curricle_error_sink *error);
  /* Is update also called before the first step, as round 0? If null: no. */
  curricle_status (*before_training)(const void *instance, uint32_t *answer, const curricle_error_sink *error);
  /* Do update and weigh_batch read ema_embeddings? If null: no. */
  curricle_status (*needs_ema)(const void *instance, uint32_t *answer, const curricle_error_sink *error);
} curricle_weights_table;

/* One component; everything but `data` and `summary` is required. */
typedef struct {
  size_t size;
  curricle_str kind; /* "loss", "sampler" or "weights" */
  curricle_str name; /* the name used in recipes */
  curricle_str version;
  curricle_str summary; /* one line */
  const void *data;     /* passed to schema and create */
  /* Writes the JSON Schema (draft-07) of the settings, with defaults and descriptions. curricle
   * validates recipes against it and fills in the defaults. */
  curricle_status (*schema)(const void *data, const curricle_text_sink *sink, const curricle_error_sink *error);
  /* Creates an instance from settings, a JSON object that fits the schema. */
  curricle_status (*create)(const void *data, curricle_str settings, void **instance,
                            const curricle_error_sink *error);
  void (*destroy)(void *instance);
  const void *table; /* curricle_loss_table, curricle_sampler_table or curricle_weights_table */
} curricle_component;

typedef struct {
  size_t size;
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
  curricle_status (*visit)(const curricle_host *host, const curricle_component_sink *visitor,
                           const curricle_error_sink *error);
} curricle_plugin;

#ifdef __cplusplus
} /* extern "C" */
#endif

#include "curricle_layout.h"

#endif /* CURRICLE_H */
