#include <vaecf/base/utf8.hpp>
#include <vaecf/models/models.hpp>

#include <algorithm>

#include "config/keys.hpp"

namespace vaecf::config {
namespace {

/// Returns "  batch_size:", indented by its depth, with `mark` before the name.
std::string heading(const std::string& path, const char* mark = "") {
  const auto depth = std::count(path.begin(), path.end(), '.');
  return format("{:{}}{}{}:", "", 2 * depth, mark, path.substr(path.rfind('.') + 1));
}

/// Returns false for an unset choice without a default, and for unset keys of mutually exclusive ones;
/// these read 0, which is not a valid value in a file.
bool has_value(const std::vector<Key>& keys, const Key& key, const Config& config) {
  const bool optional = key.path == "data.source.format" || !key.exclusive_in.empty();
  const auto chosen = [&](const Key& other) {
    return other.exclusive_in == key.exclusive_in && other.is_set(config);
  };
  return !optional || key.is_set(config) ||
         (key.section_shorthand && std::none_of(keys.begin(), keys.end(), chosen));
}

/// Returns "type, limits", worded as in error messages.
std::string limits(const Key& key) {
  if (key.rule.empty()) return key.type_name;
  const bool names_type = key.rule.starts_with("one of ") || key.rule.starts_with("a ");
  return names_type ? key.rule : format("{}, {}", key.type_name, key.rule);
}

/// Writes all keys as YAML. With `explained`, adds descriptions, and keys without a value as comments.
std::string write_keys(const Config& config, bool explained) {
  constexpr std::size_t comment_column = 44;
  const std::vector<Key> keys = all_keys();
  std::string out;
  std::string before;
  for (const Key& key : keys) {
    const bool valued = has_value(keys, key, config);
    if (!valued && !explained) continue;
    for (auto dot = key.path.find('.'); dot != std::string::npos; dot = key.path.find('.', dot + 1)) {
      const std::string section = key.path.substr(0, dot);
      if (!before.starts_with(section + ".")) out += heading(section) + "\n";
    }
    before = key.path;
    const std::string line = valued ? heading(key.path) + " " + key.write(config) : heading(key.path, "# ");
    out += explained ? format("{:<{}}# {} ({})\n", line, comment_column, key.doc, limits(key)) : line + "\n";
  }
  return out;
}

/// Returns whether the value of this key may change when a run with a model of type `type` is resumed.
bool may_change(const std::string& path, models::ModelType type) {
  // Other models use these for baselines only.
  for (const auto& [solved, name] : enum_names<models::ModelType>)
    if (models::is_solved(solved) && path.starts_with(format("model.{}.", name))) return type != solved;
  return !must_match_on_resume(path) || !is_used(path, type) || path == "train.epochs" ||
         path == "train.patience" || path == "train.precision" || path == "train.deterministic";
}

}  // namespace

bool must_match_on_resume(const std::string& path) {
  // Only baselines use these.
  if (path.starts_with("model.ease.") || path.starts_with("model.item_knn.")) return false;
  return path == "model" || path.starts_with("model.") || path == "train" || path.starts_with("train.") ||
         path == "data" || path == "data.virtual_shards";
}

std::string dump(const Config& config) {
  return write_keys(config, false);
}

std::string reference_yaml() {
  return "# All configuration keys with their defaults. Any key can be set on the command line:\n"
         "# --set train.epochs=2\n" +
         write_keys(Config{}, true);
}

std::vector<Difference> differences(const Config& first, const Config& second) {
  std::vector<Difference> found;
  for (const Key& key : all_keys()) {
    const std::string a = key.write(first);
    const std::string b = key.write(second);
    if (a != b) found.push_back({key.path, a, b});
  }
  return found;
}

void require_resumable(const Config& config, const std::string& checkpoint, const std::string& its_text,
                       Log& log) {
  Config before;
  try {
    before = parse_stored(its_text, checkpoint);
  } catch (const InputError& error) {
    throw InputError(
        format("{}: this version cannot read the configuration stored in it ({}); "
               "resume with the version that wrote it, or start from scratch with --resume never",
               checkpoint, error.what()));
  }
  for (const std::string& note : before.notes) log.debug("{}", note);
  for (const Difference& difference : differences(config, before)) {
    if (may_change(difference.key, config.options.model.type)) continue;
    throw InputError(format(
        "{}: trained with {} {}, but the configuration has {}; set the old value, or start from scratch with --resume never. "
        "On resume, model.*, train.* and data.virtual_shards must be the same, "
        "except train.epochs, train.patience, train.precision and train.deterministic",
        checkpoint, difference.key, excerpt(difference.second), excerpt(difference.first)));
  }
}

}  // namespace vaecf::config
