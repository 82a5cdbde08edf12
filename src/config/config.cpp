#include <vaecf/base/text.hpp>
#include <vaecf/config/schema.hpp>

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "config/keys.hpp"

namespace vaecf::config {
namespace {

/// Returns the number of insertions, deletions, substitutions and transpositions of adjacent characters that
/// turn `a` into `b` (optimal string alignment distance).
int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> table(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      int& least = table[i][j];
      if (i == 0 || j == 0) {
        least = static_cast<int>(i + j);
        continue;
      }
      const int replaced = table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      least = std::min({replaced, table[i - 1][j] + 1, table[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        least = std::min(least, table[i - 2][j - 2] + 1);
    }
  }
  return table[a.size()][b.size()];
}

/// Returns "  batch_size:", indented by its depth, with `mark` before the name.
std::string heading(const std::string& path, const char* mark = "") {
  const auto depth = std::count(path.begin(), path.end(), '.');
  return format("{:{}}{}{}:", "", 2 * depth, mark, path.substr(path.rfind('.') + 1));
}

/// Returns false for an unset key of mutually exclusive ones: it reads 0, which is not a valid value in a
/// file.
bool has_value(const std::vector<Key>& keys, const Key& key, const Config& config) {
  const auto chosen = [&](const Key& other) {
    return other.exclusive_in == key.exclusive_in && other.is_set(config);
  };
  return key.exclusive_in.empty() || key.is_set(config) ||
         (key.section_shorthand && std::none_of(keys.begin(), keys.end(), chosen));
}

/// Returns "type, limits", worded as in error messages.
std::string limits(const Key& key) {
  if (key.rule.empty()) return key.words + key.type_name;
  const bool names_type = key.rule.starts_with("one of ") || key.rule.starts_with("a ");
  return key.words + (names_type ? key.rule : format("{}, {}", key.type_name, key.rule));
}

/// Returns the description of a key with its values.
std::string explain(const Key& key) {
  return format("{}{} ({})", is_experimental(key.path) ? "experimental; " : "", key.doc, limits(key));
}

/// Writes `keys` as YAML. With `explained`, adds descriptions, and keys without a value as comments.
std::string write_keys(const std::vector<Key>& keys, const Config& config, bool explained) {
  constexpr std::size_t comment_column = 44;
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
    out += explained ? format("{:<{}}# {}\n", line, comment_column, explain(key)) : line + "\n";
  }
  return out;
}

/// Returns a node of write_value(), or a section of such nodes, as JSON.
io::Json json_of(const YAML::Node& node) {
  if (node.IsMap()) {
    io::Json section = io::Json::object();
    for (const auto& entry : node) section[entry.first.Scalar()] = json_of(entry.second);
    return section;
  }
  if (node.IsSequence()) {
    io::Json list = io::Json::array();
    for (const auto& element : node) list.push_back(json_of(element));
    return list;
  }
  if (node.IsNull()) return nullptr;
  // Numbers and booleans are written as in JSON; a string that looks like one of them is in quotes.
  if (node.Tag() == "!") return node.Scalar();
  io::Json value = io::Json::parse(node.Scalar(), nullptr, false);
  return value.is_discarded() ? io::Json(node.Scalar()) : value;
}

/// Returns the place of a key or section in the schema.
io::Json::json_pointer schema_place(const std::string& path) {
  io::Json::json_pointer place;
  std::istringstream names(path);
  for (std::string name; std::getline(names, name, '.');) place = place / "properties" / name;
  return place;
}

/// Returns whether the value of this key may change when a run with a model of type `type` is resumed.
bool may_change(const std::string& path, models::ModelType type) {
  if (path.starts_with("model.")) return !describes(path, models::kind_of(type));
  return !must_match_on_resume(path) || !is_used(path, type) || path == "train.epochs" ||
         path == "train.patience" || path == "train.precision" || path == "train.deterministic";
}

}  // namespace

std::string quote(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return "\"" + excerpt(node.Scalar()) + "\"";
    case YAML::NodeType::Map:
      return "a section of keys";
    case YAML::NodeType::Sequence: {
      std::string out = "[";
      // One level only, because a list may contain itself through an alias.
      for (std::size_t i = 0; i < node.size(); ++i)
        out += (i == 0 ? "" : ", ") + (node[i].IsSequence() ? std::string("a list") : quote(node[i]));
      return excerpt(out + "]");
    }
    default:
      return "nothing";
  }
}

std::string closest_match(const std::string& word, const std::vector<std::string>& candidates) {
  const int limit = std::max(1, static_cast<int>(word.size()) / 3);
  const auto distance = [&](const std::string& candidate) {
    // A lower bound of the edit distance.
    const int longer = std::abs(static_cast<int>(word.size()) - static_cast<int>(candidate.size()));
    return longer > limit ? longer : edit_distance(word, candidate);
  };
  const auto best = std::min_element(candidates.begin(), candidates.end(),
                                     [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  return best != candidates.end() && distance(*best) <= limit ? *best : "";
}

bool must_match_on_resume(const std::string& path) {
  // Only baselines use these.
  for (const models::Kind* kind : models::all_kinds())
    if (models::is_solved(kind->type()) && path.starts_with(section_of(*kind))) return false;
  return path == "model" || path.starts_with("model.") || path == "train" || path.starts_with("train.") ||
         path == "data" || path == "data.virtual_shards";
}

bool is_experimental(std::string_view path) {
  std::vector<std::string_view> sections = {"backend.", "benchmark.", "distributed.parameter_server."};
  for (const models::Kind* kind : models::all_kinds())
    std::ranges::copy(kind->experimental_keys(), std::back_inserter(sections));
  return std::ranges::any_of(sections, [&](std::string_view section) { return path.starts_with(section); });
}

std::string dump(const Config& config) {
  return write_keys(all_keys(), config, false);
}

std::string stored_text(const std::string& text) {
  const Config config = parse(text, "the configuration");
  std::vector<Key> keys = all_keys();
  std::erase_if(keys, [&](const Key& key) {
    return key.path.starts_with("model.") && !describes(key.path, models::kind_of(config.options.model.type));
  });
  return write_keys(keys, config, false);
}

std::string reference_yaml() {
  return "# All configuration keys with their defaults. Any key can be set on the command line:\n"
         "# --set train.epochs=2\n" +
         write_keys(all_keys(), Config{}, true);
}

std::string schema_json() {
  // A section may be empty.
  const io::Json section{{"type", {"object", "null"}}, {"additionalProperties", false}};
  io::Json schema{{"$schema", "http://json-schema.org/draft-07/schema#"},
                  {"title", "configuration of vaecf_dist"}};
  schema.update(section);
  const std::vector<Key> keys = all_keys();
  for (const Key& key : keys) {
    for (auto dot = key.path.find('.'); dot != std::string::npos; dot = key.path.find('.', dot + 1)) {
      const auto place = schema_place(key.path.substr(0, dot));
      if (!schema.contains(place)) schema[place] = section;
    }
    io::Json& entry = schema[schema_place(key.path)];
    entry["description"] = explain(key);
    entry.update(key.schema);
    if (has_value(keys, key, Config{})) entry["default"] = json_of(YAML::Load(key.write(Config{})));
  }
  for (const Key& key : keys) {
    if (key.exclusive_in.empty()) continue;
    const std::string& prefix = key.exclusive_in;
    io::Json& its_section = schema[schema_place(prefix)];
    for (const Key& other : keys) {
      if (other.exclusive_in != prefix || other.path == key.path) continue;
      const auto name = [&](const Key& one) { return one.path.substr(prefix.size()); };
      its_section["dependencies"][name(key)]["properties"][name(other)] = false;
    }
  }
  for (const Key& key : keys) {
    if (!key.section_shorthand) continue;
    io::Json& its_section = schema[schema_place(key.exclusive_in)];
    its_section = {{"anyOf", {schema[schema_place(key.path)], its_section}}};
  }
  return io::dump(schema, 1) + "\n";
}

io::Json to_json(const std::string& text) {
  return json_of(YAML::Load(text));
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
