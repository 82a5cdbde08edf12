#include "data/prepare/provenance.hpp"

#include <vaecf/data/prepare.hpp>
#include <vaecf/data/source_options.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/other_value.hpp"
#include "data/source/source_formats.hpp"
#include "support/temporary_folder.hpp"

namespace vaecf::config {
namespace {

using Overrides = std::vector<std::string>;

// Keys that are not among the provenance attributes, with the reason.
const std::map<std::string, std::string> not_recorded{
    {"data.source.path", "names and digests of the source's files are compared"},
    {"data.source.users.path", "as for data.source.path; users_member records the file of an archive"},
    {"data.source.items.path", "as for data.source.path; items_member records the file of an archive"},
    {"data.prepare.compression", "compared with the compression of the file"},
    {"data.prepare.memory_gib", "does not change the dataset"}};

class Provenance : public ::testing::Test {
 protected:
  Provenance() { std::ofstream(path_) << "1 2 3\n"; }

  io::Attributes of(Overrides overrides) const {
    overrides.push_back("data.source.path=" + path_);
    const Config config = parse("", "c.yaml", overrides);
    return data::provenance_attributes(config.source, config.prepare);
  }

  /// Returns whether the recipes under `context` with and without the other value of `key` differ.
  bool tells(const Key& key, const Overrides& context) const {
    Overrides other = context;
    other.push_back(key.path + "=" + other_value(key));
    const io::Attributes without = of(context);
    const io::Attributes with = of(other);
    return !data::made_by(without, with) && !data::made_by(with, without);
  }

 private:
  testing::TemporaryFolder folder_;
  std::string path_ = (folder_.path() / "train.txt").string();
};

TEST_F(Provenance, EveryKeyOfSourceAndPrepareChangesItOrIsExempt) {
  std::vector<Overrides> contexts{{"data.source.format=delimited", "data.prepare.split=given"},
                                  {"data.source.format=delimited", "data.prepare.split=time"},
                                  {"data.source.format=delimited", "data.prepare.split=stable"},
                                  {"data.source.format=delimited", "data.prepare.user_features=[country]"},
                                  {"data.source.format=delimited", "data.prepare.item_features=[genres]"}};
  for (const std::string& format : data::source_formats())
    contexts.push_back({"data.source.format=" + format});
  for (const Key& key : all_keys()) {
    if (!key.path.starts_with("data.source.") && !key.path.starts_with("data.prepare.")) continue;
    if (not_recorded.contains(key.path)) continue;
    EXPECT_TRUE(std::ranges::any_of(contexts, [&](const auto& context) { return tells(key, context); }))
        << key.path
        << " is not in data::provenance_attributes, or its attribute is not among the optional ones; "
        << "add it, or state the reason in not_recorded";
  }
}

TEST_F(Provenance, FormatsWithAGivenLayoutRecordTheLayoutKeys) {
  for (const data::SourceFormat& format : data::formats()) {
    if (format.given_layout == nullptr) continue;
    for (const Key& key : all_keys()) {
      if (!key.path.starts_with("data.source.")) continue;
      if (std::ranges::find(format.options, key.path.substr(12)) == format.options.end()) continue;
      EXPECT_TRUE(tells(key, {"data.source.format=" + format.name})) << format.name << " " << key.path;
    }
  }
}

}  // namespace
}  // namespace vaecf::config
