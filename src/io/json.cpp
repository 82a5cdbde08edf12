#include <vaecf/io/json.hpp>

#include "io/nlohmann_json.hpp"

#include <type_traits>

namespace vaecf::io {

Json::~Json() = default;
Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;

nlohmann::ordered_json to_nlohmann(const Json& json) {
  return std::visit(
      [](const auto& value) -> nlohmann::ordered_json {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Json::List>) {
          auto list = nlohmann::ordered_json::array();
          for (const Json& item : value) list.push_back(to_nlohmann(item));
          return list;
        } else if constexpr (std::is_same_v<T, Json::Fields>) {
          auto object = nlohmann::ordered_json::object();
          for (const auto& [key, field] : value) object[key] = to_nlohmann(field);
          return object;
        } else {
          return value;
        }
      },
      json.value());
}

std::string to_text(const Json& json, int indent) {
  return to_nlohmann(json).dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace vaecf::io
