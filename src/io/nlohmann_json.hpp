#pragma once

#include <vaecf/io/json.hpp>

#include <nlohmann/json.hpp>

namespace vaecf::io {

nlohmann::ordered_json to_nlohmann(const Json& json);

}  // namespace vaecf::io
