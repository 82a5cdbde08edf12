#include "config/reader.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>

#include "config/suggest.hpp"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace vaecf::config {
namespace {

struct UnknownKey : InputError {
  using InputError::InputError;
};

std::string leaf(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

/// Takes no notice of what a document holds.
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

/// Not by YAML::LoadAll, which never ends on some texts (": :" over and over, say): it makes documents of
/// nothing.
bool holds_several_documents(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Nothing nothing;
  return parser.HandleNextDocument(nothing) && parser.HandleNextDocument(nothing);
}

/// The first line that begins with a tab, perhaps after blanks; 0 where there is none.
int line_with_tab(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto first = line.find_first_not_of(' ');
    if (first != std::string::npos && line[first] == '\t') return number;
  }
  return 0;
}

}  // namespace

bool decides_run(const std::string& path) {
  const std::string section = path + ".";
  return section.starts_with("model.") || section.starts_with("train.") || path == "data" ||
         path == "data.virtual_shards";
}

std::string Reader::place(const YAML::Node& node) const {
  if (!override_.empty()) return "--set " + excerpt(override_);
  return node.Mark().is_null() ? file_ : format("{}:{}", file_, node.Mark().line + 1);
}

void Reader::read_file_text(const std::string& text, const std::string& name) {
  file_ = name;
  layer_.clear();
  YAML::Node document;
  try {
    if (holds_several_documents(text)) {
      throw InputError(format("{}: holds several YAML documents; give one", file_));
    }
    document = YAML::Load(text);
  } catch (const YAML::Exception& error) {
    if (const int line = line_with_tab(text); line > 0) {
      throw InputError(
          format("{}:{}: not valid YAML: a tab before the key; put blanks there instead", file_, line));
    }
    throw InputError(format("{}:{}: not valid YAML: {}", file_, error.mark.line + 1, excerpt(error.msg)));
  }
  visit_section("", document);
  settle_alternatives();
}

void Reader::read_overrides(std::span<const std::string> overrides) {
  layer_.clear();
  for (const std::string& text : overrides) {
    override_ = text;
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw InputError(format("--set {}: wants KEY=VALUE, for example --set train.epochs=2", excerpt(text)));
    }
    YAML::Node value;
    try {
      // Punctuation alone is text, such as the separator of a file, and so is nothing at all: YAML would make
      // null, a list or an error of it.
      const std::string given = text.substr(equals + 1);
      const bool plain = given.find_first_not_of(" \t!#$%&*+,-./:;<=>?@\\^_`|~") == std::string::npos;
      value = plain ? YAML::Node(given) : YAML::Load(given);
    } catch (const YAML::Exception& error) {
      throw InputError(
          format("--set {}: the value is not valid YAML: {}", excerpt(text), excerpt(error.msg)));
    }
    const std::string path = text.substr(0, equals);
    visit(path, YAML::Node(path), value);
  }
  settle_alternatives();
}

void Reader::visit_section(const std::string& prefix, const YAML::Node& section) {
  if (section.IsNull()) return;  // "train:" with everything below commented out
  if (!section.IsMap()) {
    if (prefix.empty()) {
      throw InputError(
          format("{}: not a configuration, which has keys and values, but {}; give a YAML file such as "
                 "configs/ml1m.yaml",
                 place(section), quote(section)));
    }
    throw InputError(format("{}: {} wants keys with values below it, got {}", place(section),
                            prefix.substr(0, prefix.size() - 1), quote(section)));
  }
  std::set<std::string> seen;
  for (const auto& pair : section) {
    if (!pair.first.IsScalar()) throw InputError(format("{}: a key must be a word", place(pair.first)));
    const std::string& name = pair.first.Scalar();
    if (!seen.insert(name).second) {
      throw InputError(format("{}: {} is given twice; keep one", place(pair.first), excerpt(prefix + name)));
    }
    visit(prefix + name, pair.first, pair.second);
  }
}

void Reader::visit(const std::string& path, const YAML::Node& key, const YAML::Node& value) {
  if (const auto renamed = renames_.find(path); renamed != renames_.end()) {
    config_.notes.push_back(format("{}: {} is called {} now", place(key), path, renamed->second));
    return visit(renamed->second, key, value);
  }
  try {
    visit_known(path, key, value);
  } catch (const UnknownKey& error) {
    if (!stored_) throw;
    config_.notes.push_back(format("{}; ignored", error.what()));
  } catch (const InputError& error) {
    if (!stored_ || decides_run(path)) throw;
    config_.notes.push_back(format("{}; ignored", error.what()));
  }
}

void Reader::visit_known(const std::string& path, const YAML::Node& key, const YAML::Node& value) {
  const std::string section = path + ".";
  for (const Key& known : keys_) {
    if (known.path == path) return read_key(known, value, place(key));
    if (!known.path.starts_with(section)) continue;
    if (value.IsScalar()) {
      const auto plain = std::find_if(keys_.begin(), keys_.end(), [&](const Key& other) {
        return other.stands_for_section && other.one_of_section == section;
      });
      if (plain != keys_.end()) return read_key(*plain, value, place(key));
    }
    return visit_section(section, value);
  }
  throw UnknownKey(format("{}: {}", place(key), unknown_key(path)));
}

void Reader::read_key(const Key& key, const YAML::Node& node, const std::string& where) {
  // Once with its section around it and once with dots, say. Of --set the last one counts.
  if (override_.empty() && layer_.contains(key.path)) {
    throw InputError(
        format("{}: {} is given twice, here and at {}; keep one", where, key.path, places_.at(key.path)));
  }
  try {
    key.read(config_, node);
  } catch (const WrongType&) {
    throw InputError(format("{}: {} wants {}, got {}", where, key.path, key.wants, quote(node)));
  } catch (const OutOfRange& error) {
    throw InputError(format("{}: {} must be {}, got {}", where, key.path, error.limit, quote(node)));
  }
  places_[key.path] = where;
  layer_.insert(key.path);
}

std::string Reader::unknown_key(const std::string& path) const {
  const auto dot = path.rfind('.');
  const std::string prefix = dot == std::string::npos ? "" : path.substr(0, dot + 1);
  std::vector<std::string> siblings;  // keys and sections beside it
  std::vector<std::string> elsewhere;
  std::vector<std::string> paths;
  for (const Key& key : keys_) {
    paths.push_back(key.path);
    if (key.path.starts_with(prefix)) {
      const std::string rest = key.path.substr(prefix.size());
      const std::string name = rest.substr(0, rest.find('.'));
      if (siblings.empty() || siblings.back() != name) siblings.push_back(name);
    }
    if (leaf(key.path) == leaf(path)) elsewhere.push_back(key.path);
  }
  const std::string message = excerpt(path) + " is not a key";
  const std::string near = nearest(leaf(path), siblings);
  if (!near.empty()) return message + format(" (did you mean {}?)", near);
  if (const std::string alike = nearest(path, paths); siblings.empty() && !alike.empty())
    return message + format(" (did you mean {}?)", alike);
  if (!elsewhere.empty()) return message + format(" (did you mean {}?)", elsewhere.front());
  if (siblings.empty()) return message + "; --help-config lists all keys";
  return message +
         format("; {} takes {}", prefix.empty() ? "the file" : prefix.substr(0, dot), joined(siblings));
}

void Reader::settle_alternatives() {
  std::map<std::string, const Key*> given;  // by section
  for (const Key& key : keys_) {
    if (key.one_of_section.empty() || !layer_.contains(key.path)) continue;
    const auto [other, first] = given.emplace(key.one_of_section, &key);
    if (first) continue;
    const std::string section = key.one_of_section.substr(0, key.one_of_section.size() - 1);
    std::vector<std::string> choices;
    for (const Key& choice : keys_) {
      if (choice.one_of_section == key.one_of_section) choices.push_back(leaf(choice.path));
    }
    throw InputError(format("{}: {} takes exactly one of {}; got {} and {}", places_.at(key.path), section,
                            joined(choices), leaf(other->second->path), leaf(key.path)));
  }
  for (const Key& key : keys_) {
    const auto found = given.find(key.one_of_section);
    if (found != given.end() && found->second != &key) key.clear(config_);
  }
}

void Reader::fail(const std::string& path, const std::string& problem) const {
  const auto found = places_.find(path);
  throw InputError(format("{}: {}", found == places_.end() ? file_ : found->second, problem));
}

Config Reader::read_stored(const std::string& text, const std::string& checkpoint) {
  stored_ = true;
  read_file_text(text, checkpoint);
  return std::move(config_);
}

Config Reader::finish() {
  const auto& validation = config_.session.validation;
  const bool listed = std::find(validation.metrics.begin(), validation.metrics.end(), validation.select) !=
                      validation.metrics.end();
  if (validation.select != "last" && !listed) {
    const char* culprit = places_.contains("validation.select") ? "validation.select" : "validation.metrics";
    fail(culprit, format("validation.select must be last or one of validation.metrics ({}), got {}",
                         joined(validation.metrics), validation.select));
  }
  if (config_.session.train.patience > 0 && validation.every == 0) {
    fail("train.patience", "train.patience counts validations, but validation.every is 0: there are none");
  }
  if (config_.session.train.patience > 0 && validation.select == "last") {
    fail("train.patience",
         "train.patience waits for a better metric, but validation.select is last: name a metric");
  }
  return std::move(config_);
}

}  // namespace vaecf::config
