#pragma once

#include <vaecf/io/checkpoint.hpp>

#include <string>
#include <vector>

namespace vaecf::app {

/// Writes the checkpoint `path` that a later version might write: that of `file`, with `configuration` added
/// to its stored configuration, and with more attributes and an array that this version does not have.
inline void write_later_version(const io::CheckpointFile& file, const std::string& path,
                                const std::string& configuration, const io::Attributes& more) {
  io::Attributes attributes = file.attributes();
  std::get<std::string>(attributes["configuration"]) += configuration;
  for (const auto& [name, value] : more) attributes[name] = value;
  std::vector<io::TensorSource> tensors;
  for (const io::CheckpointFile::TensorInfo& info : file.tensors()) {
    const auto read = [&file, name = info.name](std::int64_t begin, std::int64_t end, std::span<float> to) {
      file.read_rows(name, begin, end, to);
    };
    tensors.push_back({info.name, info.rows, info.columns, info.rows == 1, read});
  }
  const std::vector<float> numbers = {1.0F, 2.0F};
  const io::ArraySource array{"future/numbers", std::span<const float>(numbers)};
  const io::DatasetSummary summary = file.dataset();
  io::write_checkpoint(path, attributes, tensors, {&array, 1}, &summary);
}

/// What makes a checkpoint one that this version must refuse.
struct Unknown {
  std::string configuration;  ///< added to the stored one
  io::Attributes attributes;
  std::string message;  ///< part of the error message
};

inline const std::vector<Unknown> unknown_to_this_version = {
    {"model.layer_norm: true\n", {}, "model.layer_norm is not a key"},
    {"model.activation: gelu\n", {}, "model.activation is not a key"},
    {"model.ease.l2: softly\n", {}, "model.ease.l2 must be"},
    {"", {{"interaction_weights", std::string("sigmoid")}}, "its interaction weights are sigmoid"},
    {"", {{"requires", std::string("soft targets")}}, "requires a program that knows soft targets"}};

/// What this version ignores: a key that does not change what the model computes, and an attribute.
inline const Unknown of_no_effect = {"future: {key: 3}\n", {{"future", std::int64_t{3}}}, ""};

}  // namespace vaecf::app
