#include "config/keys.hpp"

#include <algorithm>

namespace vaecf::config {
namespace {

/// Returns "  batch_size:", indented for its depth; `mark` stands before the name.
std::string heading(const std::string& path, const char* mark = "") {
  const auto depth = std::count(path.begin(), path.end(), '.');
  return format("{:{}}{}{}:", "", 2 * depth, mark, path.substr(path.rfind('.') + 1));
}

/// Returns false for a choice without a default, as yet unmade, for a machine that nobody described, and for
/// the ways to give an amount that were not chosen: those read 0, which no file may say.
bool has_value(const std::vector<Key>& keys, const Key& key, const Config& config) {
  if (key.path.starts_with("machine.")) return !config.machine.name.empty();
  const bool optional = key.path == "data.source.format" || !key.one_of_section.empty();
  const auto chosen = [&](const Key& other) {
    return other.one_of_section == key.one_of_section && other.given(config);
  };
  return !optional || key.given(config) ||
         (key.stands_for_section && std::none_of(keys.begin(), keys.end(), chosen));
}

/// Returns "type, limits" in the words of errors.
std::string limits(const Key& key) {
  if (key.rule.empty()) return key.wants;
  const bool says_all = key.rule.starts_with("one of ") || key.rule.starts_with("a ");
  return says_all ? key.rule : format("{}, {}", key.wants, key.rule);
}

/// `explained`: also says what each key means, and names those without a value in comments.
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

/// Returns true for what a run may change when it goes on: not the model, nor how its weights move.
bool may_change(const std::string& path) {
  return !decides_run(path) || path == "train.epochs" || path == "train.patience" ||
         path == "train.precision" || path == "train.deterministic";
}

}  // namespace

bool decides_run(const std::string& path) {
  return path == "model" || path.starts_with("model.") || path == "train" || path.starts_with("train.") ||
         path == "data" || path == "data.virtual_shards";
}

std::string dump(const Config& config) {
  return write_keys(config, false);
}

std::string reference() {
  return "# Every key of the configuration with its default. Any of them can be set on the command line:\n"
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

void require_same_run(const Config& config, const std::string& checkpoint, const std::string& its_text,
                      Log& log) {
  Config before;
  try {
    before = parse_stored(its_text, checkpoint);
  } catch (const InputError& error) {
    throw InputError(
        format("{}: the configuration in it is not one of this version ({}); "
               "go on with the version that wrote it, or start anew with --resume never",
               checkpoint, error.what()));
  }
  for (const std::string& note : before.notes) log.debug("{}", note);
  for (const Difference& difference : differences(config, before)) {
    if (may_change(difference.key)) continue;
    throw InputError(format(
        "{}: it was trained with {} {}, and the configuration says {}. "
        "A run goes on with the same model.*, train.* and data.virtual_shards; "
        "what may change is train.epochs, train.patience, train.precision, train.deterministic, data.file (for the same data), validation.*, run.*, name, device, backend.* and distributed.*. "
        "Give the old value, or start anew with --resume never",
        checkpoint, difference.key, difference.second, difference.first));
  }
}

}  // namespace vaecf::config
