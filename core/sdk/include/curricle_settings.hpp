// curricle_settings.hpp: errors, JSON and the settings of a component. Included by curricle.hpp.
#ifndef CURRICLE_SETTINGS_HPP
#define CURRICLE_SETTINGS_HPP

#include <cmath>
#include <cstdint>
#include <map>
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

} // namespace curricle

#endif // CURRICLE_SETTINGS_HPP
