#include <vaecf/base/error.hpp>
#include <vaecf/config/config.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/keys.hpp"
#include "config/other_value.hpp"
#include "support/messages.hpp"

namespace vaecf::config {
namespace {

const Key& key_of(const std::vector<Key>& keys, const std::string& path) {
  for (const Key& key : keys) {
    if (key.path == path) return key;
  }
  throw std::logic_error(path + " is not a key");
}

TEST(RenamedKeys, OldNamesAreReadWithOneWarning) {
  const std::vector<Key> keys = all_keys();
  EXPECT_EQ(renamed_keys.size(), 5U);
  for (const auto& [old_name, new_name] : renamed_keys) {
    const std::string value = other_value(key_of(keys, new_name));
    const Config expected = parse("", "c.yaml", std::vector{new_name + "=" + value});
    EXPECT_TRUE(expected.notes.empty());

    const Config file = parse(old_name + ": " + value, "c.yaml", std::vector{old_name + "=" + value});
    EXPECT_TRUE(differences(file, expected).empty()) << old_name;
    EXPECT_EQ(file.notes, std::vector{"c.yaml:1: " + old_name + " is now named " + new_name +
                                      "; the old name is still read"});
    EXPECT_EQ(dump(file), dump(expected));

    const Config overridden = parse("", "c.yaml", std::vector{old_name + "=" + value});
    EXPECT_TRUE(differences(overridden, expected).empty()) << old_name;
    ASSERT_EQ(overridden.notes.size(), 1U);
    EXPECT_TRUE(overridden.notes[0].starts_with("--set " + old_name + "=")) << overridden.notes[0];
  }
}

TEST(RenamedKeys, BothNamesInOneFileAreAnError) {
  EXPECT_EQ(
      message_of<InputError>([] { parse("distributed:\n  wire: bf16\n  comm_dtype: bf16\n", "c.yaml"); }),
      "c.yaml:3: distributed.comm_dtype and distributed.wire (at c.yaml:2) are the old and the new name "
      "of one key; keep distributed.comm_dtype");
  const std::vector<std::string> both = {"distributed.comm_dtype=bf16", "distributed.wire=bf16"};
  EXPECT_NE(message_of<InputError>([&] { parse("", "c.yaml", both); }).find("keep distributed.comm_dtype"),
            std::string::npos);
}

TEST(RenamedKeys, TheCommandLineReplacesTheFileUnderEitherName) {
  const std::vector<std::string> by_new = {"distributed.comm_dtype=fp32"};
  EXPECT_EQ(parse("distributed: {wire: bf16}", "c.yaml", by_new).session.distributed.comm_dtype,
            comm::CommDtype::fp32);
  const std::vector<std::string> by_old = {"distributed.wire=fp32"};
  EXPECT_EQ(parse("distributed: {comm_dtype: bf16}", "c.yaml", by_old).session.distributed.comm_dtype,
            comm::CommDtype::fp32);
}

TEST(RenamedKeys, ARunResumesFromACheckpointWithOldNames) {
  const std::string text =
      "train: {batch_size: 7}\n"
      "backend: {graph: off}\n"
      "distributed: {wire: bf16, warn_after: 5, loading_timeout: 50}\n";
  const Config stored = parse_stored(text, "best.h5");
  EXPECT_EQ(stored.backend.cuda_graph, Toggle::off);
  EXPECT_EQ(stored.session.distributed.comm_dtype, comm::CommDtype::bf16);
  EXPECT_EQ(stored.session.distributed.stall_warning, 5.0);
  EXPECT_EQ(stored.session.distributed.startup_timeout, 50.0);
  EXPECT_EQ(stored.notes.size(), 4U);
  Log log;
  EXPECT_NO_THROW(require_resumable(parse("train: {batch_size: 7}", "c.yaml"), "best.h5", text, log));
}

TEST(RenamedKeys, TheReferenceNamesNewKeysOnly) {
  const std::string reference = reference_yaml();
  for (const auto& [old_name, new_name] : renamed_keys) {
    const std::string leaf = old_name.substr(old_name.rfind('.') + 1);
    EXPECT_EQ(reference.find("  " + leaf + ":"), std::string::npos) << old_name;
    EXPECT_NE(reference.find("  " + new_name.substr(new_name.rfind('.') + 1) + ":"), std::string::npos)
        << new_name;
  }
}

}  // namespace
}  // namespace vaecf::config
