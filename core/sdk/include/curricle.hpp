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

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace curricle {

// An error with a message for the user.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An unusable value of a setting; curricle underlines it in the recipe.
struct SettingError : Error {
  std::string path;
  SettingError(std::string path, const std::string &message) : Error(message), path(std::move(path)) {}
};

// JSON, as far as settings and schemas need it.
class Json {
public:
  enum class Type { null, boolean, number, text, array, object };
  Type type = Type::null;
  bool boolean = false;
  double number = 0;
  std::string text;
  std::vector<Json> items;
  std::map<std::string, Json> fields;

  static Json parse(std::string_view source) {
    Parser parser{source, 0};
    Json value = parser.value();
    parser.space();
    if (parser.at != source.size()) throw Error("unexpected text after JSON");
    return value;
  }

  // The field of that name, or nullptr.
  const Json *find(const std::string &name) const {
    auto found = fields.find(name);
    return found == fields.end() ? nullptr : &found->second;
  }

private:
  struct Parser {
    std::string_view source;
    size_t at;

    void space() {
      while (at < source.size() && std::string_view(" \t\r\n").find(source[at]) != std::string_view::npos) ++at;
    }
    char peek() {
      space();
      if (at >= source.size()) throw Error("JSON ends too early");
      return source[at];
    }
    void expect(char wanted) {
      if (peek() != wanted) throw Error(std::string("JSON: expected ") + wanted);
      ++at;
    }
    bool skip(std::string_view word) {
      if (source.substr(at, word.size()) != word) return false;
      at += word.size();
      return true;
    }
    Json value() {
      Json result;
      char first = peek();
      if (first == '{') {
        result.type = Type::object;
        for (++at; peek() != '}';) {
          std::string name = string();
          expect(':');
          result.fields[name] = value();
          if (peek() != '}') expect(',');
        }
        ++at;
      } else if (first == '[') {
        result.type = Type::array;
        for (++at; peek() != ']';) {
          result.items.push_back(value());
          if (peek() != ']') expect(',');
        }
        ++at;
      } else if (first == '"') {
        result.type = Type::text;
        result.text = string();
      } else if (skip("true")) {
        result.type = Type::boolean;
        result.boolean = true;
      } else if (skip("false")) {
        result.type = Type::boolean;
      } else if (!skip("null")) {
        size_t used = 0;
        try {
          result.number = std::stod(std::string(source.substr(at, 64)), &used);
        } catch (const std::exception &) {
          throw Error("JSON: expected a value");
        }
        result.type = Type::number;
        at += used;
      }
      return result;
    }
    std::string string() {
      expect('"');
      std::string result;
      while (at < source.size() && source[at] != '"') {
        if (source[at] != '\\') {
          result += source[at++];
          continue;
        }
        char escape = at + 1 < source.size() ? source[at + 1] : '"';
        at += 2;
        switch (escape) {
        case 'n': result += '\n'; break;
        case 't': result += '\t'; break;
        case 'r': result += '\r'; break;
        case 'b': result += '\b'; break;
        case 'f': result += '\f'; break;
        case 'u': unicode(result); break;
        default: result += escape;
        }
      }
      if (at >= source.size()) throw Error("JSON: text without end");
      ++at;
      return result;
    }
    unsigned hex() {
      if (at + 4 > source.size()) throw Error("JSON: text without end");
      unsigned code = std::stoul(std::string(source.substr(at, 4)), nullptr, 16);
      at += 4;
      return code;
    }
    void unicode(std::string &result) {
      unsigned code = hex();
      if (code >= 0xd800 && code < 0xdc00 && skip("\\u")) code = 0x10000 + ((code - 0xd800) << 10) + (hex() - 0xdc00);
      if (code < 0x80) {
        result += char(code);
      } else if (code < 0x800) {
        result += {char(0xc0 | code >> 6), char(0x80 | (code & 63))};
      } else if (code < 0x10000) {
        result += {char(0xe0 | code >> 12), char(0x80 | (code >> 6 & 63)), char(0x80 | (code & 63))};
      } else {
        result += {char(0xf0 | code >> 18), char(0x80 | (code >> 12 & 63)), char(0x80 | (code >> 6 & 63)),
                   char(0x80 | (code & 63))};
      }
    }
  };
};

// The settings of a recipe, with the schema's defaults for those it does not set.
class Settings {
public:
  Settings(Json given, const Json &schema) : given(std::move(given)) {
    const Json *properties = schema.find("properties");
    if (!properties) return;
    for (const auto &[name, rule] : properties->fields)
      if (const Json *value = rule.find("default"); value && !this->given.find(name)) this->given.fields[name] = *value;
  }

  // A setting of any type; an error if it is absent.
  const Json &get(const std::string &name) const {
    if (const Json *value = given.find(name)) return *value;
    throw SettingError(name, "is required");
  }
  bool has(const std::string &name) const { return given.find(name) != nullptr; }
  double number(const std::string &name) const { return typed(name, Json::Type::number, "a number").number; }
  int64_t integer(const std::string &name) const {
    double value = number(name);
    if (value != std::floor(value)) throw SettingError(name, "must be a whole number");
    return int64_t(value);
  }
  bool flag(const std::string &name) const { return typed(name, Json::Type::boolean, "true or false").boolean; }
  const std::string &text(const std::string &name) const { return typed(name, Json::Type::text, "a string").text; }

private:
  Json given;
  const Json &typed(const std::string &name, Json::Type type, const char *wanted) const {
    const Json &value = get(name);
    if (value.type != type) throw SettingError(name, std::string("must be ") + wanted);
    return value;
  }
};

inline curricle_str str(std::string_view text) { return {text.data(), text.size()}; }
inline std::string text(curricle_str text) { return text.len ? std::string(text.data, text.len) : std::string(); }
inline const at::Tensor &tensor(curricle_tensor handle) { return *static_cast<const at::Tensor *>(handle); }

inline curricle_host &host() {
  static curricle_host copy{};
  return copy;
}

// Writes a line to the run's log: level 0 debug, 1 information, 2 warning.
inline void log_line(uint32_t level, std::string_view line) {
  if (host().log) host().log(level, str(line));
}

// Sizes that declared tensors may depend on.
struct Shape {
  int64_t classes, samples, embedding;
};

// A tensor that curricle owns and lends; see curricle.h.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  bool trainable = true;
  double constant = 0; // initial value of every element, unless `std` is set
  double std = 0;      // if not 0: initialised normally with this standard deviation
  double lr_scale = 1;
};

struct Advice {
  std::string path, message;
};

struct DataFacts {
  std::vector<size_t> class_sizes;
  size_t embedding_size, batch_size;
};

struct Pairs {
  at::Tensor positive, negative;
};

using Tensors = std::map<std::string, at::Tensor>;

// A batch; all tensors are on one device.
struct Batch {
  at::Tensor embeddings, labels, ids;
  std::optional<at::Tensor> weights; // none if all are 1
  Tensors tensors;

  int64_t size() const { return embeddings.size(0); }
  // The precision losses compute in: f64 for embeddings in f64, else f32.
  at::ScalarType precision() const { return embeddings.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
  at::Tensor similarities() const {
    at::Tensor x = embeddings.to(precision());
    return x.matmul(x.t());
  }
  // 0/1 masks [B, B]: same class and different sample; different class. A sample of weight 0 is in no pair.
  Pairs pairs() const {
    at::Tensor same = labels.unsqueeze(1) == labels.unsqueeze(0);
    at::Tensor other = ids.unsqueeze(1) != ids.unsqueeze(0);
    Pairs pairs{same.logical_and(other), same.logical_not()};
    if (weights) {
      at::Tensor present = *weights > 0, both_present = present.unsqueeze(1).logical_and(present);
      pairs = {pairs.positive.logical_and(both_present), pairs.negative.logical_and(both_present)};
    }
    return {pairs.positive.to(precision()), pairs.negative.to(precision())};
  }
  at::Tensor weights_or_ones() const { return weights ? *weights : at::ones({size()}, embeddings.options().dtype(precision())); }
  // w_i w_j for all pairs [B, B].
  at::Tensor pair_weights() const {
    at::Tensor w = weights_or_ones();
    return w.unsqueeze(1) * w;
  }
};

// The mean of `terms` weighted by `weights`, 0 if all weights are 0. Differentiable.
inline at::Tensor weighted_mean(const at::Tensor &terms, const at::Tensor &weights) {
  return (terms * weights).sum() / weights.sum().clamp_min(std::numeric_limits<float>::min());
}

// Named scalars. They stay on the device, and `value` is called only on steps that are logged.
class Log {
public:
  explicit Log(const curricle_log *log) : log(log) {}
  template <class F> void scalar(std::string_view name, F value) {
    if (log->enabled) log->scalar(log->context, str(name), new at::Tensor(value().detach()));
  }

private:
  const curricle_log *log;
};

struct Epoch {
  const int64_t *labels;
  size_t samples;
  uint64_t seed, epoch;
};

struct LossInfo {
  std::string name;
  Json settings;
};

struct Round {
  uint64_t round, rounds, seed;
  std::optional<at::Tensor> embeddings;
  std::vector<int64_t> labels;
  std::vector<double> weights;
  Tensors tensors;
  LossInfo loss;
  double age; // overrides the age of the scheme's schedule; NaN if it does not
};

struct WeightUpdate {
  std::vector<double> weights;
  std::vector<std::pair<std::string, double>> scalars;
  std::vector<std::pair<std::string, std::vector<double>>> columns;
};

// The optional members of a component. forward, batches, batch_size and update are required.
struct Loss {
  std::vector<TensorSpec> tensors(const Shape &) const { return {}; }
  std::vector<Advice> advice(const DataFacts &) const { return {}; }
};
struct Sampler {
  std::vector<Advice> advice(const DataFacts &) const { return {}; }
};
struct Weights {
  bool needs_embeddings() const { return true; }
  bool is_uniform() const { return false; }
  std::vector<TensorSpec> tensors(const Shape &) const { return {}; }
  std::vector<Advice> advice(const DataFacts &, const LossInfo &) const { return {}; }
};

namespace detail {

// Runs `work`; exceptions go to the sink and never cross the boundary.
template <class F> curricle_status shield(curricle_error_sink sink, F work) noexcept {
  auto report = [&](uint32_t code, std::string_view path, std::string_view message) {
    sink.write(sink.context, code, str(path), str(message));
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

inline Tensors tensors(const curricle_named_tensor *all, size_t count) {
  Tensors result;
  for (size_t i = 0; i < count; ++i) result[text(all[i].name)] = tensor(all[i].tensor);
  return result;
}

inline void declare(const std::vector<TensorSpec> &specs, curricle_tensor_sink sink) {
  for (const TensorSpec &spec : specs) {
    bool normal = spec.std != 0;
    curricle_tensor_spec record{sizeof(record),           str(spec.name),
                                spec.shape.data(),        spec.shape.size(),
                                normal ? 1u : 0u,         spec.trainable ? 1u : 0u,
                                normal ? spec.std : spec.constant,
                                str(spec.trainable ? std::string_view(spec.name) : std::string_view()),
                                spec.lr_scale};
    sink.declare(sink.context, &record);
  }
}

inline void advise(const std::vector<Advice> &all, curricle_advice_sink sink) {
  for (const Advice &advice : all) sink.advise(sink.context, str(advice.path), str(advice.message));
}

inline DataFacts facts(const curricle_data_facts *data) {
  return {std::vector<size_t>(data->class_sizes, data->class_sizes + data->classes), data->embedding_size,
          data->batch_size};
}

inline LossInfo info(curricle_loss_info loss) { return {text(loss.name), Json::parse(text(loss.settings))}; }

inline Shape shape(const curricle_shape *shape) { return {shape->classes, shape->samples, shape->embedding}; }

template <class T> const T &self(const void *instance) { return *static_cast<const T *>(instance); }

template <class T> curricle_status declare_tensors(const void *instance, const curricle_shape *sizes,
                                                   curricle_tensor_sink sink, curricle_error_sink error) {
  return shield(error, [&] { declare(self<T>(instance).tensors(shape(sizes)), sink); });
}

template <class T> curricle_status give_advice(const void *instance, const curricle_data_facts *data,
                                               curricle_advice_sink sink, curricle_error_sink error) {
  return shield(error, [&] { advise(self<T>(instance).advice(facts(data)), sink); });
}

template <class T> const curricle_loss_table *loss_table() {
  static const curricle_loss_table table{
      sizeof(curricle_loss_table), declare_tensors<T>,
      [](const void *instance, const curricle_batch *lent, const curricle_log *log, curricle_tensor *out,
         curricle_error_sink error) {
        return shield(error, [&] {
          Batch batch{tensor(lent->embeddings), tensor(lent->labels), tensor(lent->ids),
                      lent->weights ? std::optional<at::Tensor>(tensor(lent->weights)) : std::nullopt,
                      tensors(lent->tensors, lent->tensor_count)};
          Log scalars(log);
          *out = new at::Tensor(self<T>(instance).forward(batch, scalars));
        });
      },
      give_advice<T>};
  return &table;
}

template <class T> const curricle_sampler_table *sampler_table() {
  static const curricle_sampler_table table{
      sizeof(curricle_sampler_table),
      [](const void *instance, const curricle_epoch *epoch, curricle_batch_sink sink, curricle_error_sink error) {
        return shield(error, [&] {
          Epoch view{epoch->labels, epoch->samples, epoch->seed, epoch->epoch};
          for (const std::vector<int64_t> &batch : self<T>(instance).batches(view))
            sink.batch(sink.context, batch.data(), batch.size());
        });
      },
      [](const void *instance, size_t *size, curricle_error_sink error) {
        return shield(error, [&] { *size = self<T>(instance).batch_size(); });
      },
      give_advice<T>};
  return &table;
}

template <class T> const curricle_weights_table *weights_table() {
  static const curricle_weights_table table{
      sizeof(curricle_weights_table), declare_tensors<T>,
      [](const void *instance, const curricle_round *lent, curricle_weight_sink sink, curricle_error_sink error) {
        return shield(error, [&] {
          Round round{lent->round,
                      lent->rounds,
                      lent->seed,
                      lent->embeddings ? std::optional<at::Tensor>(tensor(lent->embeddings)) : std::nullopt,
                      std::vector<int64_t>(lent->labels, lent->labels + lent->samples),
                      std::vector<double>(lent->weights, lent->weights + lent->samples),
                      tensors(lent->tensors, lent->tensor_count),
                      info(lent->loss),
                      lent->age};
          WeightUpdate update = self<T>(instance).update(round);
          sink.weights(sink.context, update.weights.data(), update.weights.size());
          for (const auto &[name, value] : update.scalars) sink.scalar(sink.context, str(name), value);
          for (const auto &[name, values] : update.columns)
            sink.column(sink.context, str(name), values.data(), values.size());
        });
      },
      [](const void *instance, uint32_t *answer, curricle_error_sink error) {
        return shield(error, [&] { *answer = self<T>(instance).needs_embeddings(); });
      },
      [](const void *instance, uint32_t *answer, curricle_error_sink error) {
        return shield(error, [&] { *answer = self<T>(instance).is_uniform(); });
      },
      [](const void *instance, const curricle_data_facts *data, curricle_loss_info loss, curricle_advice_sink sink,
         curricle_error_sink error) {
        return shield(error, [&] { advise(self<T>(instance).advice(facts(data), info(loss)), sink); });
      }};
  return &table;
}

template <class T> std::unique_ptr<Record> record(const char *kind, const char *name, const char *version,
                                                  const char *summary, const char *schema, const void *table) {
  auto record = std::make_unique<Record>(Record{name, version, summary, schema, {}});
  record->component = {sizeof(curricle_component),
                       str(kind),
                       str(record->name),
                       str(record->version),
                       str(record->summary),
                       record.get(),
                       [](const void *data, curricle_text_sink sink, curricle_error_sink error) {
                         return shield(error, [&] { sink.write(sink.context, str(self<Record>(data).schema)); });
                       },
                       [](const void *data, curricle_str settings, void **instance, curricle_error_sink error) {
                         return shield(error, [&] {
                           Json schema = Json::parse(self<Record>(data).schema);
                           *instance = new T(Settings(Json::parse(text(settings)), schema));
                         });
                       },
                       [](void *instance) { delete static_cast<T *>(instance); },
                       table};
  return record;
}

template <class... R> curricle_status show(const curricle_host *offered, curricle_component_sink visitor,
                                           curricle_error_sink error, R... records) {
  return shield(error, [&] {
    host() = *offered;
    // Released: curricle keeps the records until the process ends.
    (visitor.component(visitor.context, &records.release()->component), ...);
  });
}

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
  static curricle_status curricle_visit(const curricle_host *host, curricle_component_sink visitor,                    \
                                        curricle_error_sink error) {                                                   \
    return curricle::detail::show(host, visitor, error, __VA_ARGS__);                                                  \
  }                                                                                                                    \
  extern "C" __attribute__((visibility("default"))) const curricle_plugin CURRICLE_PLUGIN_V1;                          \
  extern "C" const curricle_plugin CURRICLE_PLUGIN_V1 = {                                                              \
      {'C', 'U', 'R', 'R', 'I', 'C', 'L', 'E'},                                                                        \
      CURRICLE_ABI_MAJOR,                                                                                              \
      CURRICLE_ABI_MINOR,                                                                                              \
      sizeof(curricle_plugin),                                                                                         \
      {"curricle.hpp 1", 14},                                                                                          \
      {"", 0},                                                                                                         \
      {CURRICLE_LIBTORCH, sizeof(CURRICLE_LIBTORCH) - 1},                                                              \
      {CURRICLE_TARGET, sizeof(CURRICLE_TARGET) - 1},                                                                  \
      curricle_visit};

#endif // CURRICLE_HPP
