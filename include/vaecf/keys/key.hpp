#pragma once

#include <vaecf/io/json.hpp>
#include <vaecf/keys/constraints.hpp>
#include <vaecf/keys/values.hpp>

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace vaecf::keys {

/// One key of a configuration whose values are members of `Options`: the only definition of its name, type,
/// description and limits.
template <class Options>
struct Key {
  std::string path;       ///< dotted: "train.batch_size"
  std::string doc;        ///< description, one line
  std::string type_name;  ///< name of its type: "an integer"
  std::string rule;       ///< limits of its value: "at least 1", "one of a, b"; empty: none
  std::string words;      ///< words that are values, too: "auto or all or "; empty: none
  io::Json schema;        ///< type and limits of its value as JSON Schema
  /// Stores the node's value. Throws WrongType or OutOfRange, and then leaves the configuration unchanged.
  std::function<void(Options&, const YAML::Node&)> read;
  std::function<std::string(const Options&)> write;
  std::function<bool(const Options&)> is_set;  ///< returns whether the value is neither 0 nor empty
  std::function<void(Options&)> reset;         ///< sets the value to 0 or empty
  /// The section of mutually exclusive keys that this key belongs to: "run.checkpoint_every."; empty: none. A
  /// layer sets at most one of them, which clears the others of the layer below. 0 means not set.
  std::string exclusive_in = {};
  bool section_shorthand = false;  ///< a scalar value of that section sets this key
  std::string former_path = {};    ///< name before 1.0, for messages; empty: the same
};

/// Makes a key of the member that `field`, a pointer to a member or a function, selects in the options.
template <class Options, class Field, class Accepts>
Key<Options> make_key(std::string path, Field field, Constraint<Accepts> constraint, std::string doc) {
  using T = std::remove_cvref_t<std::invoke_result_t<Field, Options&>>;
  // The cast is safe because the member is only read; one accessor serves both directions.
  const auto member = [field](const Options& options) -> const T& {
    return std::invoke(field, const_cast<Options&>(options));
  };
  io::Json schema = type_schema<T>();
  schema.merge_patch(constraint.schema);
  return {.path = std::move(path),
          .doc = std::move(doc),
          .type_name = type_name<T>(),
          .rule = constraint.description,
          .words = {},
          .schema = std::move(schema),
          .read =
              [=](Options& options, const YAML::Node& node) {
                T value = read_value<T>(node);
                if (!constraint.accepts(value)) throw OutOfRange{constraint.description};
                std::invoke(field, options) = std::move(value);
              },
          .write = [=](const Options& options) { return write_value(member(options)); },
          .is_set = [=](const Options& options) { return member(options) != T{}; },
          .reset = [=](Options& options) { std::invoke(field, options) = T{}; }};
}

/// Makes a key that accepts every value of its type.
template <class Options, class Field>
Key<Options> make_key(std::string path, Field field, std::string doc) {
  using T = std::remove_cvref_t<std::invoke_result_t<Field, Options&>>;
  std::string names;
  if constexpr (NamedEnum<T>) names = "one of " + names_of<T>();
  return make_key<Options>(std::move(path), field, Constraint{names, [](const T&) { return true; }},
                           std::move(doc));
}

/// Makes `key` one of the mutually exclusive keys of its section. `plain`: a scalar value of the section sets
/// it.
template <class Options>
Key<Options> exclusive(Key<Options> key, bool plain = false) {
  key.exclusive_in = key.path.substr(0, key.path.rfind('.') + 1);
  key.section_shorthand = plain;
  return key;
}

/// States the name that a key had before 1.0: messages about it contain the new name.
template <class Options>
Key<Options> formerly(std::string path, Key<Options> key) {
  key.former_path = std::move(path);
  return key;
}

/// Adds `word` to the values of a key. `set` stores it, and `is_word` returns whether it is stored.
template <class Options>
Key<Options> with_word(Key<Options> key, const char* word, std::function<void(Options&)> set,
                       std::function<bool(const Options&)> is_word) {
  key.words = format("{} or {}", word, key.words);
  if (!key.schema.contains("anyOf")) key.schema = {{"anyOf", io::Json::array({key.schema})}};
  key.schema["anyOf"].push_back({{"const", schema_of_word(word)}});
  key.read = [=, read = std::move(key.read)](Options& options, const YAML::Node& node) {
    is_word_node(node, word) ? set(options) : read(options, node);
  };
  key.write = [=, write = std::move(key.write)](const Options& options) {
    return is_word(options) ? word : write(options);
  };
  return key;
}

/// Adds `word`, for example "null", to the values of a key; it is stored as 0 or as an empty value, which
/// must not be valid without it.
template <class Options>
Key<Options> or_word(Key<Options> key, const char* word) {
  // No structured binding: clang 14 cannot capture one.
  const auto reset = key.reset;
  const auto is_set = key.is_set;
  return with_word<Options>(std::move(key), word, reset,
                            [=](const Options& options) { return !is_set(options); });
}

/// Adds `word` to the values of `member(options)`, which then is `value`.
template <class Options, class Value, class Member>
Key<Options> or_word(Key<Options> key, const char* word, Value value, Member member) {
  return with_word<Options>(
      std::move(key), word, [=](Options& options) { std::invoke(member, options) = value; },
      [=](const Options& options) { return std::invoke(member, options) == value; });
}

/// Makes a single integer a value of a list of integers, which needs brackets otherwise.
template <class Options>
Key<Options> or_single(Key<Options> key) {
  key.type_name = "an integer or " + key.type_name;
  key.schema["type"].push_back("integer");
  key.read = [read = std::move(key.read)](Options& options, const YAML::Node& node) {
    read_as_list(node, [&](const YAML::Node& list) { read(options, list); });
  };
  return key;
}

/// Makes a key of a part of the options a key of the whole: its name begins with `prefix`. part(whole)
/// returns the part, of a constant whole, too.
template <class Whole, class Part, class Select>
Key<Whole> within(const Key<Part>& key, Select part, const std::string& prefix = "") {
  const auto in = [part](const Whole& whole) -> const Part& { return part(whole); };
  return {.path = prefix + key.path,
          .doc = key.doc,
          .type_name = key.type_name,
          .rule = key.rule,
          .words = key.words,
          .schema = key.schema,
          .read = [=, read = key.read](Whole& whole, const YAML::Node& node) { read(part(whole), node); },
          .write = [=, write = key.write](const Whole& whole) { return write(in(whole)); },
          .is_set = [=, is_set = key.is_set](const Whole& whole) { return is_set(in(whole)); },
          .reset = [=, reset = key.reset](Whole& whole) { reset(part(whole)); },
          .exclusive_in = key.exclusive_in.empty() ? "" : prefix + key.exclusive_in,
          .section_shorthand = key.section_shorthand,
          .former_path = key.former_path.empty() ? "" : prefix + key.former_path};
}

}  // namespace vaecf::keys
