#include <vaecf/base/format.hpp>

#include <algorithm>
#include <array>

#include "app/inspect/describe.hpp"

namespace vaecf::app {

std::string text_of(const io::Attribute& attribute) {
  if (const auto* number = std::get_if<std::int64_t>(&attribute)) return format("{}", *number);
  if (const auto* number = std::get_if<double>(&attribute)) return format("{}", *number);
  if (const auto* list = std::get_if<std::vector<double>>(&attribute)) {
    std::string text;
    for (const double number : *list) text += format("{}{}", text.empty() ? "" : ", ", number);
    return text;
  }
  return std::get<std::string>(attribute);
}

std::string describe_checkpoint(const std::string& path, bool verbose) {
  const io::CheckpointFile file(path);
  const auto text = [&](const char* name) {
    const auto found = file.attributes().find(name);
    return found == file.attributes().end() ? std::string("unknown") : text_of(found->second);
  };
  std::string out = format("checkpoint {}: whole, its checksum is right\n", path);
  out += format("  model: {}, hidden layers [{}], latent {}, {} items\n", text("model_type"),
                text("model_hidden"), text("model_latent"), text("items"));
  out += format("  trained: {} epochs, {} steps, and {} steps of the next epoch; {} users seen\n",
                text("epoch"), text("step"), text("step_in_epoch"), text("users_seen"));
  out += text("select") == "last" ? std::string("  best: whichever epoch is the last\n")
                                  : format("  best so far: {} {} in epoch {}\n", text("select"),
                                           text("best_metric"), text("best_epoch"));
  out += format("  dataset checksum: {}\ntensors\n", text("dataset_checksum"));
  std::int64_t weights = 0;
  std::int64_t others = 0;
  for (const auto& tensor : file.tensors()) {
    const bool weight = tensor.name.starts_with("weights/");
    (weight ? weights : others) += tensor.rows * tensor.columns;
    if (weight || verbose) {
      out += format("  {:<44}{:>10} x {}\n", tensor.name, tensor.rows, tensor.columns);
    }
  }
  out += format("  {} weights, {} numbers of the optimiser's state\n", weights, others);
  if (!verbose) return out + "-v shows all tensors, all attributes and the configuration\n";
  out += "attributes\n";
  for (const auto& [name, value] : file.attributes()) {
    const std::string all = text_of(value);
    if (all.find('\n') == std::string::npos) {
      out += format("  {}: {}\n", name, all);
      continue;
    }
    out += format("  {}:\n", name);
    for (std::size_t begin = 0; begin < all.size();) {
      const auto end = std::min(all.find('\n', begin), all.size());
      out += format("    {}\n", all.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return out;
}

}  // namespace vaecf::app
