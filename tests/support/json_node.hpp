#pragma once

#include <vaecf/io/json_lines.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vaecf::testing {

/// A value of a JSON text, to be looked at; what is not there or of another kind throws std::runtime_error.
class JsonNode {
 public:
  static JsonNode parse(std::string_view text) {
    auto json = io::parse_json(text);
    if (!json) throw std::runtime_error("no JSON: " + std::string(text));
    const auto whole = std::make_shared<const io::Json>(*std::move(json));
    return JsonNode(whole, *whole);
  }

  JsonNode operator[](std::string_view key) const {
    const io::Json* field = io::find(*json_, key);
    if (field == nullptr) throw std::runtime_error("no " + std::string(key) + " in " + dump());
    return JsonNode(whole_, *field);
  }
  JsonNode operator[](std::size_t i) const { return list().at(i); }
  bool contains(std::string_view key) const { return io::find(*json_, key) != nullptr; }

  std::vector<JsonNode> list() const {
    std::vector<JsonNode> nodes;
    for (const io::Json& item : as<io::Json::List>("list")) nodes.push_back(JsonNode(whole_, item));
    return nodes;
  }
  std::vector<std::pair<std::string, JsonNode>> fields() const {
    std::vector<std::pair<std::string, JsonNode>> nodes;
    for (const auto& [key, value] : as<io::Json::Fields>("object")) {
      nodes.emplace_back(key, JsonNode(whole_, value));
    }
    return nodes;
  }
  const std::string& text() const { return as<std::string>("text"); }
  std::int64_t integer() const { return as<std::int64_t>("integer"); }
  double number() const {
    const auto* whole = std::get_if<std::int64_t>(&json_->value());
    return whole != nullptr ? static_cast<double>(*whole) : as<double>("number");
  }
  std::string dump() const { return io::to_text(*json_); }

 private:
  JsonNode(std::shared_ptr<const io::Json> whole, const io::Json& json)
      : whole_(std::move(whole)), json_(&json) {}

  template <class T>
  const T& as(const char* kind) const {
    const T* value = std::get_if<T>(&json_->value());
    if (value == nullptr) throw std::runtime_error("no " + std::string(kind) + ": " + dump());
    return *value;
  }

  std::shared_ptr<const io::Json> whole_;
  const io::Json* json_;
};

}  // namespace vaecf::testing
