#include <vaecf/base/text.hpp>
#include <vaecf/models/kind.hpp>

#include <yaml-cpp/eventhandler.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <system_error>

#include "config/keys.hpp"

namespace vaecf::config {
namespace {

namespace fs = std::filesystem;

std::string leaf(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

class Nothing : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}
};

/// Returns whether the text contains more than one YAML document. YAML::LoadAll would not terminate on some
/// inputs, such as repeated ": :", for which it creates empty documents.
bool holds_several_documents(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Nothing nothing;
  return parser.HandleNextDocument(nothing) && parser.HandleNextDocument(nothing);
}

/// Returns whether this line, counted from 0, begins with a tab, possibly after spaces.
bool begins_with_tab(const std::string& text, int number) {
  std::istringstream lines(text);
  std::string line;
  for (int i = 0; i <= number; ++i) std::getline(lines, line);
  return line.substr(std::min(line.find_first_not_of(' '), line.size())).starts_with('\t');
}

/// Applies layers (the file, then the overrides) to the defaults. Every error names location and expected
/// value.
class Reader {
 public:
  /// `stored`: the configuration comes from a checkpoint.
  explicit Reader(bool stored = false) : stored_(stored) {}

  void read_file_text(const std::string& text, const std::string& name) {
    file_ = name;
    YAML::Node document;
    try {
      if (holds_several_documents(text))
        throw InputError(format("{}: contains several YAML documents; use one per file", file_));
      document = YAML::Load(text);
    } catch (const YAML::Exception& error) {
      const bool tab = begins_with_tab(text, error.mark.line);
      throw InputError(format("{}:{}: not valid YAML: {}", file_, error.mark.line + 1,
                              tab ? "a tab before the key; use spaces" : excerpt(error.msg)));
    }
    visit_section("", document);
    resolve_exclusive_keys();
  }

  /// Sets name and run.directory to the folder of the configuration at `path` if it is that of a run, moved
  /// or not: if it contains the run's metrics.jsonl.
  void read_run_folder(const fs::path& path) {
    std::error_code unknown;
    fs::path folder = path.parent_path() / "";
    if (path.filename() != "config.yaml" || !fs::exists(folder / "metrics.jsonl", unknown)) return;
    if (fs::equivalent(config_.options.run_folder(), folder / ".", unknown)) return;
    folder = folder.lexically_normal().parent_path();
    if (folder.empty() || folder.filename() == "." || folder.filename() == "..")
      folder = fs::canonical(fs::absolute(path).parent_path());
    layer_.clear();
    visit("run.directory", YAML::Node("run.directory"),
          YAML::Node(folder.has_parent_path() ? folder.parent_path().string() : "."));
    visit("name", YAML::Node("name"), YAML::Node(folder.filename().string()));
  }

  /// Reads all overrides of a command line, in order, as one layer.
  void read_overrides(std::span<const std::string> overrides) {
    layer_.clear();
    for (const std::string& text : overrides) {
      override_ = text;
      const auto equals = text.find('=');
      if (equals == std::string::npos || equals == 0) {
        throw InputError(
            format("--set {}: must be KEY=VALUE, for example --set train.epochs=2", excerpt(text)));
      }
      const std::string path = text.substr(0, equals);
      const std::string given = text.substr(equals + 1);
      YAML::Node value;
      try {
        // Punctuation only, such as the separator of a file, and the empty string are strings; YAML would
        // read null or a list, or fail.
        const bool plain = given.find_first_not_of(" \t!#$%&*+,-./:;<=>?@\\^_`|~") == std::string::npos;
        value = plain ? YAML::Node(given) : YAML::Load(given);
      } catch (const YAML::Exception& error) {
        throw InputError(
            format("--set {}: the value is not valid YAML: {}", excerpt(text), excerpt(error.msg)));
      }
      visit(path, YAML::Node(path), value);
    }
    resolve_exclusive_keys();
  }

  /// Replaces values of keys of models that stand for others. Throws InputError if some contradict each
  /// other.
  void resolve_models() {
    const auto is_set = [&](std::string_view key) { return places_.contains(std::string(key)); };
    for (const models::Kind* kind : models::all_kinds()) {
      try {
        kind->resolve(config_.options.model, is_set);
      } catch (const models::Kind::KeyError& error) {
        fail(error.key, error.problem);
      }
    }
  }

  /// Checks the constraints between keys. Throws InputError if one is violated.
  void check() const {
    const auto& validation = config_.options.validation;
    const auto& metrics = validation.metrics;
    if (validation.select != "last" &&
        std::find(metrics.begin(), metrics.end(), validation.select) == metrics.end()) {
      const char* culprit =
          places_.contains("validation.select") ? "validation.select" : "evaluation.metrics";
      fail(culprit, format("validation.select must be last or one of evaluation.metrics ({}), got {}",
                           excerpt(join(metrics)), excerpt(validation.select)));
    }
    if (config_.options.train.patience == 0) return;
    if (validation.every == 0)
      fail("train.patience", "train.patience counts validations; set validation.every to at least 1");
    if (validation.select == "last") {
      fail("train.patience",
           "train.patience compares a metric, but validation.select is last; set it to a metric");
    }
  }

  Config take() {
    config_.places = places_;
    return std::move(config_);
  }

 private:
  /// Returns the location of a node for error messages: "file:line" or the override.
  std::string place(const YAML::Node& node) const {
    if (!override_.empty()) return "--set " + excerpt(override_);
    return node.Mark().is_null() ? file_ : format("{}:{}", file_, node.Mark().line + 1);
  }

  [[noreturn]] void fail(const std::string& path, const std::string& problem) const {
    const auto found = places_.find(path);
    throw InputError(format("{}: {}", found == places_.end() ? file_ : found->second, problem));
  }

  void visit_section(const std::string& prefix, const YAML::Node& section) {
    if (section.IsNull()) return;  // "train:" with everything below commented out
    if (!section.IsMap()) {
      if (prefix.empty()) {
        throw InputError(
            format("{}: not a configuration: must contain keys with values, got {}; "
                   "use a YAML file such as configs/ml1m.yaml",
                   place(section), quote(section)));
      }
      throw InputError(format("{}: {} must be a section of keys, got {}", place(section),
                              prefix.substr(0, prefix.size() - 1), quote(section)));
    }
    std::set<std::string> seen;
    for (const auto& pair : section) {
      if (!pair.first.IsScalar()) throw InputError(format("{}: a key must be a string", place(pair.first)));
      const std::string& name = pair.first.Scalar();
      if (!seen.insert(name).second) {
        throw InputError(
            format("{}: {} is set twice; remove one", place(pair.first), excerpt(prefix + name)));
      }
      visit(prefix + name, pair.first, pair.second);
    }
  }

  void visit(const std::string& path, const YAML::Node& key, const YAML::Node& value) {
    const std::string section = path + ".";
    const auto known = std::find_if(keys_.begin(), keys_.end(), [&](const Key& one) {
      return one.path == path || (value.IsScalar() && one.section_shorthand && one.exclusive_in == section);
    });
    const bool is_section = std::any_of(keys_.begin(), keys_.end(),
                                        [&](const Key& one) { return one.path.starts_with(section); });
    try {
      if (known != keys_.end()) {
        read_key(*known, value, place(key));
      } else if (is_section) {
        visit_section(section, value);
      } else {
        throw InputError(format("{}: {}", place(key), unknown_key(path)));
      }
    } catch (const InputError& error) {
      const bool is_key = known != keys_.end() || is_section;
      if (!stored_ || (is_key && must_match_on_resume(path))) throw;
      if (path.starts_with("model.")) {
        throw InputError(format("{}; a later version wrote the checkpoint: use that version", error.what()));
      }
      config_.notes.push_back(format("{}; ignored", error.what()));
    }
  }

  void read_key(const Key& key, const YAML::Node& node, const std::string& where) {
    // For example once nested in its section and once dotted. Repeated --set options are allowed; the last
    // one wins.
    if (override_.empty() && layer_.contains(key.path)) {
      throw InputError(
          format("{}: {} is set twice, here and at {}; remove one", where, key.path, places_.at(key.path)));
    }
    try {
      key.read(config_, node);
    } catch (const keys::WrongType&) {
      throw InputError(
          format("{}: {} must be {}{}, got {}", where, key.path, key.words, key.type_name, quote(node)));
    } catch (const keys::OutOfRange& error) {
      throw InputError(
          format("{}: {} must be {}{}, got {}", where, key.path, key.words, error.limit, quote(node)));
    }
    places_[key.path] = where;
    layer_.insert(key.path);
  }

  /// Returns the error message for `path`, which is not a key.
  std::string unknown_key(const std::string& path) const {
    for (const Key& key : keys_)
      if (!path.empty() && key.former_path == path)
        return format("{} is not a key; it is {}", path, key.path);
    const auto dot = path.rfind('.');
    const std::string prefix = dot == std::string::npos ? "" : path.substr(0, dot + 1);
    std::vector<std::string> siblings;  // names at the same level
    std::vector<std::string> paths;
    std::string elsewhere;
    for (const Key& key : keys_) {
      paths.push_back(key.path);
      if (key.path.starts_with(prefix)) {
        const std::string rest = key.path.substr(prefix.size());
        const std::string name = rest.substr(0, rest.find('.'));
        if (siblings.empty() || siblings.back() != name) siblings.push_back(name);
      }
      if (elsewhere.empty() && leaf(key.path) == leaf(path)) elsewhere = key.path;
    }
    std::string meant = closest_match(leaf(path), siblings);
    if (!meant.empty()) meant = prefix + meant;
    if (meant.empty() && siblings.empty()) meant = closest_match(path, paths);
    if (meant.empty()) meant = elsewhere;
    const std::string message = excerpt(path) + " is not a key";
    if (!meant.empty()) return message + format(" (did you mean {}?)", meant);
    if (siblings.empty()) return message + "; --help-config lists all keys";
    return message +
           format("; keys of {}: {}", prefix.empty() ? "the file" : prefix.substr(0, dot), join(siblings));
  }

  /// Clears the other ones of mutually exclusive keys if the layer sets one. Throws InputError if it sets
  /// two.
  void resolve_exclusive_keys() {
    for (const Key& given : keys_) {
      if (given.exclusive_in.empty() || !layer_.contains(given.path)) continue;
      std::vector<std::string> ways;
      const Key* also = nullptr;
      for (const Key& key : keys_) {
        if (key.exclusive_in != given.exclusive_in) continue;
        ways.push_back(leaf(key.path));
        if (&key == &given) continue;
        if (also == nullptr && layer_.contains(key.path)) also = &key;
        key.reset(config_);
      }
      if (also == nullptr) continue;
      fail(also->path, format("{} must have exactly one of {}, got {} and {}",
                              given.path.substr(0, given.path.rfind('.')), join(ways), leaf(given.path),
                              leaf(also->path)));
    }
  }

  const std::vector<Key> keys_ = all_keys();
  const bool stored_;
  Config config_;
  std::string file_;
  std::string override_;                       // empty while the file is read
  std::map<std::string, std::string> places_;  // location of every key that was set
  std::set<std::string> layer_;                // keys set in the current layer
};

bool is_map(const std::string& text) {
  try {
    const YAML::Node document = YAML::Load(text);
    return document.IsMap() || document.IsNull();
  } catch (const YAML::Exception&) {
    return false;
  }
}

/// Returns the contents of a configuration file. Throws InputError if it cannot be read, is larger than 1
/// MiB, contains a zero byte, or is rather a file of events, by its name and content.
std::string file_text(const std::string& path) {
  constexpr std::size_t max_bytes = std::size_t{1} << 20;
  std::string text(max_bytes + 1, '\0');
  std::ifstream file(path, std::ios::binary);
  text.resize(file.read(text.data(), max_bytes + 1).gcount());
  if (!file.is_open() || file.bad()) {
    const int error = errno;
    const fs::path installed = installed_folder();
    if (error == ENOENT && !installed.empty() && fs::path(path).is_relative()) {
      throw InputError(
          format("cannot read the configuration {}: it is neither in the current folder nor in {}", path,
                 installed.string()));
    }
    throw InputError(format("cannot read the configuration {}: {}", path,
                            error == EISDIR ? "it is a folder; that of a run is " + path + "/config.yaml"
                                            : std::strerror(error)));
  }
  const bool large = text.size() > max_bytes, binary = text.find('\0') != std::string::npos;
  const fs::path end = fs::path(path).extension();
  const bool table = end == ".csv" || end == ".tsv" || end == ".jsonl" || end == ".ndjson";
  if (end != ".yaml" && end != ".yml" && !binary && (table || large || !is_map(text))) {
    throw InputError(format(
        "{0}: is not a configuration; to prepare a file of events: vaecf_dist prepare {0} --file data/{1}.h5",
        path, fs::path(path).stem().string()));
  }
  if (large || binary) {
    throw InputError(format("{}: not a configuration ({}); use a YAML file such as configs/ml1m.yaml", path,
                            large ? "larger than 1 MiB" : "binary"));
  }
  return text;
}

/// Returns the configuration that was read, changed by `overrides`.
Config resolve(Reader& reader, std::span<const std::string> overrides) {
  reader.read_overrides(overrides);
  reader.resolve_models();
  reader.check();
  Config config = reader.take();
  config.text = dump(config);
  return config;
}

}  // namespace

fs::path installed_folder() {
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown);
  fs::path folder = program.parent_path().parent_path() / "share" / "vaecf_dist";
  return fs::is_directory(folder, unknown) ? folder : fs::path();
}

std::string find(const std::string& path, const fs::path& installed) {
  std::error_code unknown;
  if (path.empty() || installed.empty() || fs::path(path).is_absolute() || fs::exists(path, unknown))
    return path;
  const fs::path found = installed / path;
  return fs::is_regular_file(found, unknown) ? found.string() : path;
}

Config parse(const std::string& text, const std::string& name, std::span<const std::string> overrides) {
  Reader reader;
  reader.read_file_text(text, name);
  return resolve(reader, overrides);
}

Config parse_stored(const std::string& text, const std::string& checkpoint) {
  Reader reader(true);
  reader.read_file_text(text, checkpoint);
  return reader.take();
}

Config parse_served(const std::string& text, const std::string& checkpoint,
                    std::span<const std::string> overrides) {
  Config stored = parse_stored(text, checkpoint);
  stored.backend = {.precision = stored.backend.precision};
  stored.options.distributed = {};
  return parse(dump(stored), checkpoint, overrides);
}

Config load(const std::string& path, std::span<const std::string> overrides) {
  Reader reader;
  reader.read_file_text(file_text(path), path);
  reader.read_run_folder(path);
  return resolve(reader, overrides);
}

}  // namespace vaecf::config
