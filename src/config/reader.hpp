#pragma once

#include "config/keys.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace vaecf::config {

/// Returns true if `path` is compared when a run goes on, or is a section with such a key.
bool decides_run(const std::string& path);

/// Reads layers (the file, then overrides) over the defaults. Every error says where and what is wanted.
class Reader {
 public:
  explicit Reader(const Renames& renames) : keys_(all_keys()), renames_(renames) {}

  void read_file_text(const std::string& text, const std::string& name);
  /// All overrides of a command line: one layer, in their order.
  void read_overrides(std::span<const std::string> overrides);
  /// The configuration inside a checkpoint: see parse_stored.
  Config read_stored(const std::string& text, const std::string& checkpoint);
  /// The configuration after the checks that look at several keys.
  Config finish();

 private:
  /// Where a node stands, for errors: "file:line" or the override.
  std::string place(const YAML::Node& node) const;
  void visit(const std::string& path, const YAML::Node& key, const YAML::Node& value);
  void visit_known(const std::string& path, const YAML::Node& key, const YAML::Node& value);
  void visit_section(const std::string& prefix, const YAML::Node& section);
  void read_key(const Key& key, const YAML::Node& node, const std::string& where);
  /// What to say about `path`, which is no key.
  std::string unknown_key(const std::string& path) const;
  /// Where the layer gives an amount in one of several ways, forgets the others.
  void settle_alternatives();
  [[noreturn]] void fail(const std::string& path, const std::string& problem) const;

  std::vector<Key> keys_;
  const Renames& renames_;
  bool stored_ = false;  // what is read comes from a checkpoint
  Config config_;
  std::string file_;
  std::string override_;                       // empty while the file is read
  std::map<std::string, std::string> places_;  // of every key that was given
  std::set<std::string> layer_;                // keys given in the layer at hand
};

}  // namespace vaecf::config
