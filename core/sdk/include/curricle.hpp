// curricle.hpp: components in C++ (17 or later, as libtorch's headers require), header only.
//
// A component is a class constructed from its settings. It derives from curricle::Loss, curricle::Sampler
// or curricle::Weights, which supply the optional members, and is exported once per library:
//
//   struct Mine : curricle::Loss {
//     double margin;
//     explicit Mine(const curricle::Settings &s) : margin(s.number("margin")) {}
//     at::Tensor forward(const curricle::Batch &batch, curricle::Log &log) const;
//   };
//   CURRICLE_EXPORT(curricle::loss<Mine>("mine", "0.1.0", "one line", R"({ JSON Schema })"))
//
// Exceptions are caught here: c10::Error (libtorch), curricle::SettingError, curricle::Error and every
// other std::exception become errors that name the component. curricle.h documents the guarantees.
//
// A loss that computes its own gradient returns curricle::with_gradients, see curricle_gradients.hpp.
#ifndef CURRICLE_HPP
#define CURRICLE_HPP

#include "curricle.h"
#include "curricle_gradients.hpp"
#include "curricle_settings.hpp"
#include "curricle_types.hpp"

#include <memory>

namespace curricle {

namespace detail {

// Runs `work`; exceptions go to the sink and never cross the boundary.
template <class F> curricle_status shield(const curricle_error_sink *sink, F work) noexcept {
  auto report = [&](uint32_t code, std::string_view path, std::string_view message) {
    curricle_error_sink errors = read(sink);
    if (errors.write) errors.write(errors.context, code, str(path), str(message));
    return CURRICLE_FAILED;
  };
  try {
    work();
    return CURRICLE_OK;
  } catch (const SettingError &error) {
    return report(CURRICLE_ERROR_SETTING, error.path, error.what());
  } catch (const Error &error) {
    return report(CURRICLE_ERROR_OTHER, "", error.what());
  } catch (const c10::Error &error) {
    std::string_view message = error.what_without_backtrace();
    return report(CURRICLE_ERROR_TORCH, "", message.substr(0, message.find('\n')));
  } catch (const std::exception &error) {
    return report(CURRICLE_ERROR_PANIC, "", error.what());
  } catch (...) {
    return report(CURRICLE_ERROR_PANIC, "", "threw something that is not an exception");
  }
}

struct Record {
  std::string name, version, summary, schema;
  curricle_component component;
};

inline Tensors tensors(const curricle_tensors *lent) {
  curricle_tensors list = read(lent);
  Tensors result;
  for (size_t i = 0; i < list.count; ++i) result.all[text(list.names[i])] = tensor(list.tensors[i]);
  return result;
}

inline StepInfo step(const curricle_step *lent) {
  curricle_step s = read(lent);
  return {s.epoch, s.epochs, s.step, s.steps, s.global_step, s.classes, s.samples};
}

inline Batch batch(const curricle_batch *lent) {
  curricle_batch b = read(lent);
  return {tensor(b.embeddings), tensor(b.labels),  tensor(b.ids),
          some_tensor(b.weights), tensors(b.tensors), some_tensor(b.ema_embeddings), step(b.step)};
}

inline uint32_t kind(at::ScalarType type) {
  switch (type) {
  case at::kFloat: return CURRICLE_F32;
  case at::kDouble: return CURRICLE_F64;
  case at::kLong: return CURRICLE_I64;
  case at::kInt: return CURRICLE_I32;
  case at::kByte: return CURRICLE_U8;
  case at::kBool: return CURRICLE_BOOL;
  default: throw Error(std::string("declared tensors cannot have the type ") + c10::toString(type));
  }
}

inline void declare(const std::vector<TensorSpec> &specs, const curricle_tensor_sink *lent) {
  curricle_tensor_sink sink = read(lent);
  if (!sink.declare) return;
  for (const TensorSpec &spec : specs) {
    curricle_tensor_spec record{};
    record.size = sizeof(record);
    record.name = str(spec.name);
    record.shape = spec.shape.data();
    record.dimensions = spec.shape.size();
    record.kind = kind(spec.type);
    record.init = spec.init.code;
    record.init_a = spec.init.a;
    record.init_b = spec.init.b;
    record.trainable = spec.is_trainable;
    record.group = str(spec.group);
    record.lr_scale = spec.lr_scale;
    sink.declare(sink.context, &record);
  }
}

inline void advise(const std::vector<Advice> &all, const curricle_advice_sink *lent) {
  curricle_advice_sink sink = read(lent);
  if (!sink.advise) return;
  for (const Advice &advice : all) sink.advise(sink.context, str(advice.path), str(advice.message));
}

inline DataFacts facts(const curricle_data_facts *lent) {
  curricle_data_facts data = read(lent);
  return {std::vector<size_t>(data.class_sizes, data.class_sizes + data.classes), data.embedding_size,
          data.batch_size};
}

inline LossInfo info(const curricle_loss_info *lent) {
  curricle_loss_info loss = read(lent);
  return {text(loss.name), Json::parse(text(loss.settings))};
}

inline Shape shape(const curricle_shape *lent) {
  curricle_shape shape = read(lent);
  return {shape.classes, shape.samples, shape.embedding};
}

inline Round round(const curricle_round *lent) {
  curricle_round r = read(lent);
  return {r.round,
          r.rounds,
          r.seed,
          some_tensor(r.embeddings),
          std::vector<int64_t>(r.labels, r.labels + r.samples),
          std::vector<double>(r.weights, r.weights + r.samples),
          tensors(r.tensors),
          info(r.loss),
          r.age,
          some_tensor(r.ema_embeddings)};
}

inline void pass_on(const WeightUpdate &update, const curricle_weight_sink *lent) {
  curricle_weight_sink sink = read(lent);
  if (sink.weights) sink.weights(sink.context, update.weights.data(), update.weights.size());
  if (sink.scalar)
    for (const auto &[name, value] : update.scalars) sink.scalar(sink.context, str(name), value);
  if (sink.column)
    for (const auto &[name, values] : update.columns)
      sink.column(sink.context, str(name), values.data(), values.size());
}

template <class T> const T &self(const void *instance) { return *static_cast<const T *>(instance); }

template <class T> curricle_status declare_tensors(const void *instance, const curricle_shape *sizes,
                                                   const curricle_tensor_sink *sink,
                                                   const curricle_error_sink *error) {
  return shield(error, [&] { declare(self<T>(instance).tensors(shape(sizes)), sink); });
}

template <class T> curricle_status give_advice(const void *instance, const curricle_data_facts *data,
                                               const curricle_advice_sink *sink, const curricle_error_sink *error) {
  return shield(error, [&] { advise(self<T>(instance).advice(facts(data)), sink); });
}

// A table function that answers a question about an instance.
#define CURRICLE_ASK(question)                                                                                         \
  [](const void *instance, uint32_t *answer, const curricle_error_sink *error) {                                       \
    return shield(error, [&] { *answer = self<T>(instance).question(); });                                             \
  }

template <class T> const curricle_loss_table *loss_table() {
  static const curricle_loss_table table = [] {
    curricle_loss_table table{};
    table.size = sizeof(table);
    table.forward = [](const void *instance, const curricle_batch *lent, const curricle_log *log, curricle_tensor *out,
                       const curricle_error_sink *error) {
      return shield(error, [&] {
        Log numbers(log);
        *out = new at::Tensor(self<T>(instance).forward(batch(lent), numbers));
      });
    };
    table.tensors = declare_tensors<T>;
    table.advice = give_advice<T>;
    table.after_step = [](const void *instance, const curricle_tensors *lent, const curricle_step *at,
                          const curricle_error_sink *error) {
      return shield(error, [&] { self<T>(instance).after_step(tensors(lent), step(at)); });
    };
    table.needs_ema = CURRICLE_ASK(needs_ema);
    table.initialise = [](const void *instance, const curricle_tensors *lent, const curricle_shape *sizes,
                          uint64_t seed, const curricle_error_sink *error) {
      return shield(error, [&] { self<T>(instance).initialise(tensors(lent), shape(sizes), seed); });
    };
    table.gradient_is_exact = CURRICLE_ASK(gradient_is_exact);
    table.takes_weights = CURRICLE_ASK(takes_weights);
    table.runs_on_host = CURRICLE_ASK(runs_on_host);
    return table;
  }();
  return &table;
}

template <class T> const curricle_sampler_table *sampler_table() {
  static const curricle_sampler_table table = [] {
    curricle_sampler_table table{};
    table.size = sizeof(table);
    table.batches = [](const void *instance, const curricle_epoch *lent, const curricle_batch_sink *batches,
                       const curricle_error_sink *error) {
      return shield(error, [&] {
        curricle_epoch epoch = read(lent);
        curricle_batch_sink sink = read(batches);
        Epoch view{epoch.labels, epoch.samples, epoch.seed, epoch.epoch};
        for (const std::vector<int64_t> &batch : self<T>(instance).batches(view))
          if (sink.batch) sink.batch(sink.context, batch.data(), batch.size());
      });
    };
    table.batch_size = [](const void *instance, size_t *size, const curricle_error_sink *error) {
      return shield(error, [&] { *size = self<T>(instance).batch_size(); });
    };
    table.advice = give_advice<T>;
    return table;
  }();
  return &table;
}

template <class T> const curricle_weights_table *weights_table() {
  static const curricle_weights_table table = [] {
    curricle_weights_table table{};
    table.size = sizeof(table);
    table.update = [](const void *instance, const curricle_round *lent, const curricle_weight_sink *sink,
                      const curricle_error_sink *error) {
      return shield(error, [&] { pass_on(self<T>(instance).update(round(lent)), sink); });
    };
    table.weigh_batch = [](const void *instance, const curricle_batch *lent, const curricle_log *log,
                           curricle_tensor *out, const curricle_error_sink *error) {
      return shield(error, [&] {
        Log numbers(log);
        std::optional<at::Tensor> weights = self<T>(instance).weigh_batch(batch(lent), numbers);
        if (weights) *out = new at::Tensor(*weights);
      });
    };
    table.tensors = declare_tensors<T>;
    table.advice = [](const void *instance, const curricle_data_facts *data, const curricle_loss_info *loss,
                      const curricle_advice_sink *sink, const curricle_error_sink *error) {
      return shield(error, [&] { advise(self<T>(instance).advice(facts(data), info(loss)), sink); });
    };
    table.needs_embeddings = CURRICLE_ASK(needs_embeddings);
    table.is_uniform = CURRICLE_ASK(is_uniform);
    table.before_training = CURRICLE_ASK(before_training);
    table.needs_ema = CURRICLE_ASK(needs_ema);
    return table;
  }();
  return &table;
}

template <class T> std::unique_ptr<Record> record(const char *kind, const char *name, const char *version,
                                                  const char *summary, const char *schema, const void *table) {
  auto record = std::make_unique<Record>(Record{name, version, summary, schema, {}});
  curricle_component &component = record->component;
  component.size = sizeof(component);
  component.kind = str(kind);
  component.name = str(record->name);
  component.version = str(record->version);
  component.summary = str(record->summary);
  component.data = record.get();
  component.schema = [](const void *data, const curricle_text_sink *lent, const curricle_error_sink *error) {
    return shield(error, [&] {
      curricle_text_sink sink = read(lent);
      if (sink.write) sink.write(sink.context, str(self<Record>(data).schema));
    });
  };
  component.create = [](const void *data, curricle_str settings, void **instance, const curricle_error_sink *error) {
    return shield(error, [&] {
      Json schema = Json::parse(self<Record>(data).schema);
      *instance = new T(Settings(Json::parse(text(settings)), schema));
    });
  };
  component.destroy = [](void *instance) { delete static_cast<T *>(instance); };
  component.table = table;
  return record;
}

template <class... R> curricle_status show(const curricle_host *offered, const curricle_component_sink *lent,
                                           const curricle_error_sink *error, R... records) {
  return shield(error, [&] {
    host() = read(offered);
    curricle_component_sink visitor = read(lent);
    // Released: curricle keeps the records until the process ends.
    if (visitor.component) (visitor.component(visitor.context, &records.release()->component), ...);
  });
}

#undef CURRICLE_ASK

} // namespace detail

// Records for CURRICLE_EXPORT: name, version, one line for listings, JSON Schema of the settings.
template <class T> auto loss(const char *name, const char *version, const char *summary, const char *schema) {
  return detail::record<T>("loss", name, version, summary, schema, detail::loss_table<T>());
}
template <class T> auto sampler(const char *name, const char *version, const char *summary, const char *schema) {
  return detail::record<T>("sampler", name, version, summary, schema, detail::sampler_table<T>());
}
template <class T> auto weights(const char *name, const char *version, const char *summary, const char *schema) {
  return detail::record<T>("weights", name, version, summary, schema, detail::weights_table<T>());
}

} // namespace curricle

// Exports components, separated by commas. Use it once per library, outside any namespace.
#define CURRICLE_EXPORT(...)                                                                                           \
  static curricle_status curricle_visit(const curricle_host *host, const curricle_component_sink *visitor,             \
                                        const curricle_error_sink *error) {                                            \
    return curricle::detail::show(host, visitor, error, __VA_ARGS__);                                                  \
  }                                                                                                                    \
  extern "C" __attribute__((visibility("default"))) const curricle_plugin CURRICLE_PLUGIN_V2;                          \
  extern "C" const curricle_plugin CURRICLE_PLUGIN_V2 = {                                                              \
      {'C', 'U', 'R', 'R', 'I', 'C', 'L', 'E'},                                                                        \
      CURRICLE_ABI_MAJOR,                                                                                              \
      CURRICLE_ABI_MINOR,                                                                                              \
      sizeof(curricle_plugin),                                                                                         \
      {"curricle.hpp 2", 14},                                                                                          \
      {"", 0},                                                                                                         \
      {CURRICLE_LIBTORCH, sizeof(CURRICLE_LIBTORCH) - 1},                                                              \
      {CURRICLE_TARGET, sizeof(CURRICLE_TARGET) - 1},                                                                  \
      curricle_visit};

#endif // CURRICLE_HPP
