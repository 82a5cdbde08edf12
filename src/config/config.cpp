#include <vaecf/config/config.hpp>

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include "config/reader.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace vaecf::config {
namespace {

/// The section that `path` stands in, with its dot: "train.optimizer."
std::string section_of(const std::string& path) {
  return path.substr(0, path.rfind('.') + 1);
}

/// Writes the section lines that lead from the section `from` to that of `path`.
std::string open_sections(const std::string& from, const std::string& path) {
  std::string out;
  std::size_t begin = 0;
  int depth = 0;
  for (auto dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    if (!from.starts_with(path.substr(0, dot + 1))) {
      out += format("{:{}}{}:\n", "", 2 * depth, path.substr(begin, dot - begin));
    }
    begin = dot + 1;
    ++depth;
  }
  return out;
}

/// "  batch_size: 500", indented for its depth.
std::string key_line(const Key& key, const Config& config) {
  const auto depth = std::count(key.path.begin(), key.path.end(), '.');
  return format("{:{}}{}: {}", "", 2 * depth, key.path.substr(key.path.rfind('.') + 1), key.write(config));
}

/// One of several ways to give an amount, and not the chosen one: reads 0, which no file may say. Where none
/// is given, the first stands for it.
bool is_unused(const std::vector<Key>& keys, const Key& key, const Config& config) {
  if (key.one_of_section.empty() || key.given(config)) return false;
  const auto same = [&](const Key& other) { return other.one_of_section == key.one_of_section; };
  const bool any = std::any_of(keys.begin(), keys.end(),
                               [&](const Key& other) { return same(other) && other.given(config); });
  return any || &*std::find_if(keys.begin(), keys.end(), same) != &key;
}

/// A choice without a default, as yet unmade; a machine that nobody described.
bool is_unset(const Key& key, const Config& config) {
  if (key.path.starts_with("machine.")) return config.machine.name.empty();
  return key.path == "data.source.format" && config.source.format.empty();
}

std::string read_text(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    throw InputError(format("{} is a folder: give the path of a YAML configuration", path));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw InputError(format("cannot read the configuration {}: {}", path, std::strerror(errno)));
  }
  constexpr std::size_t longest = std::size_t{1} << 20;
  std::string text(longest + 1, '\0');
  text.resize(static_cast<std::size_t>(file.read(text.data(), longest + 1).gcount()));
  if (text.size() > longest || text.find('\0') != std::string::npos) {
    throw InputError(format("{} is not a configuration: it is {}; give a YAML file such as configs/ml1m.yaml",
                            path, text.size() > longest ? "larger than 1 MiB" : "binary"));
  }
  return text;
}

}  // namespace

Config parse(const std::string& text, const std::string& name, std::span<const std::string> overrides,
             const Renames& renames) {
  Reader reader(renames);
  reader.read_file_text(text, name);
  reader.read_overrides(overrides);
  Config config = reader.finish();
  config.session.configuration_text = dump(config);
  return config;
}

Config parse_stored(const std::string& text, const std::string& checkpoint, const Renames& renames) {
  return Reader(renames).read_stored(text, checkpoint);
}

Config load(const std::string& path, std::span<const std::string> overrides) {
  return parse(read_text(path), path, overrides);
}

std::string dump(const Config& config) {
  std::string out;
  std::string section;
  const std::vector<Key> keys = all_keys();
  for (const Key& key : keys) {
    if (is_unused(keys, key, config) || is_unset(key, config)) continue;
    out += open_sections(section, key.path) + key_line(key, config) + "\n";
    section = section_of(key.path);
  }
  return out;
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

namespace {

/// What a run may change when it goes on: not the model, nor how its weights move.
bool may_change(const std::string& path) {
  if (!decides_run(path)) return true;
  return path == "train.epochs" || path == "train.patience" || path == "train.precision" ||
         path == "train.deterministic";
}

}  // namespace

void require_same_run(const Config& config, const std::string& checkpoint, const std::string& its_text,
                      Log& log) {
  Config before;
  try {
    before = parse_stored(its_text, checkpoint);
  } catch (const InputError& error) {
    throw InputError(
        format("{}: the configuration in it is not one of this version ({}); go on with the version that "
               "wrote it, or start anew with --resume never",
               checkpoint, error.what()));
  }
  for (const std::string& note : before.notes) log.debug("{}", note);
  for (const Difference& difference : differences(config, before)) {
    if (may_change(difference.key)) continue;
    throw InputError(format(
        "{}: it was trained with {} {}, and the configuration says {}. A run goes on with the same model.*, "
        "train.* and data.virtual_shards; what may change is train.epochs, train.patience, train.precision, "
        "train.deterministic, data.file (for the same data), validation.*, run.*, name, device, backend.* "
        "and "
        "distributed.*. Give the old value, or start anew with --resume never",
        checkpoint, difference.key, difference.second, difference.first));
  }
}

std::string reference() {
  constexpr std::size_t comment_column = 44;
  std::string out =
      "# Every key of the configuration with its default. Any of them can be set on the command line:\n"
      "# --set train.epochs=2\n";
  const Config defaults;
  std::string section;
  const std::vector<Key> keys = all_keys();
  for (const Key& key : keys) {
    std::string line = key_line(key, defaults);
    if (is_unused(keys, key, defaults) || is_unset(key, defaults)) {
      const auto indent = line.find_first_not_of(' ');
      line = line.substr(0, indent) + "# " + line.substr(indent, line.find(':') + 1 - indent);
    }
    const bool says_all = key.rule.starts_with("one of ") || key.rule.starts_with("a ");
    const std::string rule =
        key.rule.empty() ? key.wants : (says_all ? key.rule : format("{}, {}", key.wants, key.rule));
    out +=
        open_sections(section, key.path) + format("{:<{}}# {} ({})\n", line, comment_column, key.doc, rule);
    section = section_of(key.path);
  }
  return out;
}

}  // namespace vaecf::config
