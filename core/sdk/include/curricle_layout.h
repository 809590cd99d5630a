/* curricle_layout.h: the sizes of all records of curricle.h and the offsets of their fields, on 64-bit
 * platforms. core/sdk/src/abi/records/layout.rs has the same list, so the two sides cannot differ.
 * Included by curricle.h. */
#ifndef CURRICLE_LAYOUT_H
#define CURRICLE_LAYOUT_H

#if defined(__cplusplus)
#define CURRICLE_ASSERT(condition) static_assert(condition, #condition)
#else
#define CURRICLE_ASSERT(condition) _Static_assert(condition, #condition)
#endif
#define CURRICLE_AT(record, field, offset) CURRICLE_ASSERT(offsetof(record, field) == offset)

#if UINTPTR_MAX == 0xffffffffffffffffu

CURRICLE_ASSERT(sizeof(curricle_str) == 16);
CURRICLE_AT(curricle_str, data, 0);
CURRICLE_AT(curricle_str, len, 8);

CURRICLE_ASSERT(sizeof(curricle_plugin) == 96);
CURRICLE_AT(curricle_plugin, magic, 0);
CURRICLE_AT(curricle_plugin, abi_major, 8);
CURRICLE_AT(curricle_plugin, abi_minor, 12);
CURRICLE_AT(curricle_plugin, size, 16);
CURRICLE_AT(curricle_plugin, sdk, 24);
CURRICLE_AT(curricle_plugin, tch, 40);
CURRICLE_AT(curricle_plugin, libtorch, 56);
CURRICLE_AT(curricle_plugin, target, 72);
CURRICLE_AT(curricle_plugin, visit, 88);

CURRICLE_ASSERT(sizeof(curricle_component) == 112);
CURRICLE_AT(curricle_component, size, 0);
CURRICLE_AT(curricle_component, kind, 8);
CURRICLE_AT(curricle_component, name, 24);
CURRICLE_AT(curricle_component, version, 40);
CURRICLE_AT(curricle_component, summary, 56);
CURRICLE_AT(curricle_component, data, 72);
CURRICLE_AT(curricle_component, schema, 80);
CURRICLE_AT(curricle_component, create, 88);
CURRICLE_AT(curricle_component, destroy, 96);
CURRICLE_AT(curricle_component, table, 104);

CURRICLE_ASSERT(sizeof(curricle_host) == 16);
CURRICLE_AT(curricle_host, size, 0);
CURRICLE_AT(curricle_host, log, 8);

CURRICLE_ASSERT(sizeof(curricle_text_sink) == 24);
CURRICLE_AT(curricle_text_sink, size, 0);
CURRICLE_AT(curricle_text_sink, context, 8);
CURRICLE_AT(curricle_text_sink, write, 16);

CURRICLE_ASSERT(sizeof(curricle_error_sink) == 24);
CURRICLE_AT(curricle_error_sink, size, 0);
CURRICLE_AT(curricle_error_sink, context, 8);
CURRICLE_AT(curricle_error_sink, write, 16);

CURRICLE_ASSERT(sizeof(curricle_component_sink) == 24);
CURRICLE_AT(curricle_component_sink, size, 0);
CURRICLE_AT(curricle_component_sink, context, 8);
CURRICLE_AT(curricle_component_sink, component, 16);

CURRICLE_ASSERT(sizeof(curricle_shape) == 32);
CURRICLE_AT(curricle_shape, size, 0);
CURRICLE_AT(curricle_shape, classes, 8);
CURRICLE_AT(curricle_shape, samples, 16);
CURRICLE_AT(curricle_shape, embedding, 24);

CURRICLE_ASSERT(sizeof(curricle_tensor_spec) == 96);
CURRICLE_AT(curricle_tensor_spec, size, 0);
CURRICLE_AT(curricle_tensor_spec, name, 8);
CURRICLE_AT(curricle_tensor_spec, shape, 24);
CURRICLE_AT(curricle_tensor_spec, dimensions, 32);
CURRICLE_AT(curricle_tensor_spec, kind, 40);
CURRICLE_AT(curricle_tensor_spec, init, 44);
CURRICLE_AT(curricle_tensor_spec, init_a, 48);
CURRICLE_AT(curricle_tensor_spec, init_b, 56);
CURRICLE_AT(curricle_tensor_spec, trainable, 64);
CURRICLE_AT(curricle_tensor_spec, group, 72);
CURRICLE_AT(curricle_tensor_spec, lr_scale, 88);

CURRICLE_ASSERT(sizeof(curricle_tensor_sink) == 24);
CURRICLE_AT(curricle_tensor_sink, size, 0);
CURRICLE_AT(curricle_tensor_sink, context, 8);
CURRICLE_AT(curricle_tensor_sink, declare, 16);

CURRICLE_ASSERT(sizeof(curricle_tensors) == 32);
CURRICLE_AT(curricle_tensors, size, 0);
CURRICLE_AT(curricle_tensors, count, 8);
CURRICLE_AT(curricle_tensors, names, 16);
CURRICLE_AT(curricle_tensors, tensors, 24);

CURRICLE_ASSERT(sizeof(curricle_step) == 64);
CURRICLE_AT(curricle_step, size, 0);
CURRICLE_AT(curricle_step, epoch, 8);
CURRICLE_AT(curricle_step, epochs, 16);
CURRICLE_AT(curricle_step, step, 24);
CURRICLE_AT(curricle_step, steps, 32);
CURRICLE_AT(curricle_step, global_step, 40);
CURRICLE_AT(curricle_step, classes, 48);
CURRICLE_AT(curricle_step, samples, 56);

CURRICLE_ASSERT(sizeof(curricle_batch) == 64);
CURRICLE_AT(curricle_batch, size, 0);
CURRICLE_AT(curricle_batch, embeddings, 8);
CURRICLE_AT(curricle_batch, labels, 16);
CURRICLE_AT(curricle_batch, ids, 24);
CURRICLE_AT(curricle_batch, weights, 32);
CURRICLE_AT(curricle_batch, ema_embeddings, 40);
CURRICLE_AT(curricle_batch, tensors, 48);
CURRICLE_AT(curricle_batch, step, 56);

CURRICLE_ASSERT(sizeof(curricle_log) == 40);
CURRICLE_AT(curricle_log, size, 0);
CURRICLE_AT(curricle_log, context, 8);
CURRICLE_AT(curricle_log, enabled, 16);
CURRICLE_AT(curricle_log, scalar, 24);
CURRICLE_AT(curricle_log, per_sample, 32);

CURRICLE_ASSERT(sizeof(curricle_data_facts) == 40);
CURRICLE_AT(curricle_data_facts, size, 0);
CURRICLE_AT(curricle_data_facts, class_sizes, 8);
CURRICLE_AT(curricle_data_facts, classes, 16);
CURRICLE_AT(curricle_data_facts, embedding_size, 24);
CURRICLE_AT(curricle_data_facts, batch_size, 32);

CURRICLE_ASSERT(sizeof(curricle_advice_sink) == 24);
CURRICLE_AT(curricle_advice_sink, size, 0);
CURRICLE_AT(curricle_advice_sink, context, 8);
CURRICLE_AT(curricle_advice_sink, advise, 16);

CURRICLE_ASSERT(sizeof(curricle_epoch) == 40);
CURRICLE_AT(curricle_epoch, size, 0);
CURRICLE_AT(curricle_epoch, labels, 8);
CURRICLE_AT(curricle_epoch, samples, 16);
CURRICLE_AT(curricle_epoch, seed, 24);
CURRICLE_AT(curricle_epoch, epoch, 32);

CURRICLE_ASSERT(sizeof(curricle_batch_sink) == 24);
CURRICLE_AT(curricle_batch_sink, size, 0);
CURRICLE_AT(curricle_batch_sink, context, 8);
CURRICLE_AT(curricle_batch_sink, batch, 16);

CURRICLE_ASSERT(sizeof(curricle_loss_info) == 40);
CURRICLE_AT(curricle_loss_info, size, 0);
CURRICLE_AT(curricle_loss_info, name, 8);
CURRICLE_AT(curricle_loss_info, settings, 24);

CURRICLE_ASSERT(sizeof(curricle_round) == 96);
CURRICLE_AT(curricle_round, size, 0);
CURRICLE_AT(curricle_round, round, 8);
CURRICLE_AT(curricle_round, rounds, 16);
CURRICLE_AT(curricle_round, seed, 24);
CURRICLE_AT(curricle_round, embeddings, 32);
CURRICLE_AT(curricle_round, ema_embeddings, 40);
CURRICLE_AT(curricle_round, labels, 48);
CURRICLE_AT(curricle_round, weights, 56);
CURRICLE_AT(curricle_round, samples, 64);
CURRICLE_AT(curricle_round, tensors, 72);
CURRICLE_AT(curricle_round, loss, 80);
CURRICLE_AT(curricle_round, age, 88);

CURRICLE_ASSERT(sizeof(curricle_weight_sink) == 40);
CURRICLE_AT(curricle_weight_sink, size, 0);
CURRICLE_AT(curricle_weight_sink, context, 8);
CURRICLE_AT(curricle_weight_sink, weights, 16);
CURRICLE_AT(curricle_weight_sink, scalar, 24);
CURRICLE_AT(curricle_weight_sink, column, 32);

CURRICLE_ASSERT(sizeof(curricle_loss_table) == 80);
CURRICLE_AT(curricle_loss_table, size, 0);
CURRICLE_AT(curricle_loss_table, forward, 8);
CURRICLE_AT(curricle_loss_table, tensors, 16);
CURRICLE_AT(curricle_loss_table, advice, 24);
CURRICLE_AT(curricle_loss_table, after_step, 32);
CURRICLE_AT(curricle_loss_table, needs_ema, 40);
CURRICLE_AT(curricle_loss_table, initialise, 48);
CURRICLE_AT(curricle_loss_table, gradient_is_exact, 56);
CURRICLE_AT(curricle_loss_table, takes_weights, 64);
CURRICLE_AT(curricle_loss_table, runs_on_host, 72);

CURRICLE_ASSERT(sizeof(curricle_sampler_table) == 32);
CURRICLE_AT(curricle_sampler_table, size, 0);
CURRICLE_AT(curricle_sampler_table, batches, 8);
CURRICLE_AT(curricle_sampler_table, batch_size, 16);
CURRICLE_AT(curricle_sampler_table, advice, 24);

CURRICLE_ASSERT(sizeof(curricle_weights_table) == 72);
CURRICLE_AT(curricle_weights_table, size, 0);
CURRICLE_AT(curricle_weights_table, update, 8);
CURRICLE_AT(curricle_weights_table, weigh_batch, 16);
CURRICLE_AT(curricle_weights_table, tensors, 24);
CURRICLE_AT(curricle_weights_table, advice, 32);
CURRICLE_AT(curricle_weights_table, needs_embeddings, 40);
CURRICLE_AT(curricle_weights_table, is_uniform, 48);
CURRICLE_AT(curricle_weights_table, before_training, 56);
CURRICLE_AT(curricle_weights_table, needs_ema, 64);

#endif

#undef CURRICLE_AT
#undef CURRICLE_ASSERT

#endif /* CURRICLE_LAYOUT_H */
