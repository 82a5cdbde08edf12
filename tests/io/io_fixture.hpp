#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/temporary_folder.hpp"

namespace vaecf::io {

/// Fixture with a temporary folder per test.
class IoTest : public ::testing::Test {
 protected:
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      found.push_back(entry.path().filename().string());
    }
    return found;
  }

  testing::TemporaryFolder temporary_;
  const std::filesystem::path& folder_ = temporary_.path();
};

inline std::string bytes_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void put_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Returns the message of the E that `work` throws. Fails the test if it throws none, or if HDF5 prints to
/// stderr.
template <class E, class Work>
std::string message_of(Work&& work) {
  ::testing::internal::CaptureStderr();
  std::string message;
  try {
    work();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const E& error) {
    message = error.what();
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  return message;
}

/// Expects `work` to throw an E whose message contains all of `parts`.
template <class E, class Work>
void expect_refused(const std::vector<std::string>& parts, Work&& work) {
  const std::string message = message_of<E>(work);
  for (const auto& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
}

/// Writes a dataset with the rows, ids and attributes that `fill` adds.
template <class Fill>
void write_dataset(const std::string& path, std::int64_t items, Fill&& fill, std::int64_t compression = 0) {
  DatasetWriter writer(path, compression);
  fill(writer);
  writer.set_attribute("items", items);
  writer.commit();
}

using Row = std::vector<std::int32_t>;

/// Writes a dataset of 4 train users, 2 validation users and 1 test user over 6 items.
inline void write_small_dataset(const std::string& path) {
  write_dataset(path, 6, [](DatasetWriter& writer) {
    for (const Row& row : {Row{0, 2, 5}, Row{}, Row{1}, Row{0, 1, 2, 3, 4, 5}})
      writer.append_row("train", row);
    for (const Row& row : {Row{0, 1}, Row{4}}) writer.append_row("validation/fold_in", row);
    for (const Row& row : {Row{2}, Row{}}) writer.append_row("validation/held_out", row);
    writer.append_row("test/fold_in", Row{3});
    writer.append_row("test/held_out", Row{5});
    writer.write_ids("items/id", {{}, {"a", "bb", "", "\xc3\xa4", "e e", "f"}});
    writer.write_ids("train/user_id", {{7, -3, std::int64_t{1} << 40, 0}, {}});
    writer.set_attribute("name", std::string("small"));
    writer.set_attribute("users", std::int64_t{7});
    writer.set_attribute("min_rating", 3.5);
    writer.set_attribute("source", std::string());
  });
}

/// Writes a dataset like that of write_small_dataset(), with weights.
inline void write_weighted_dataset(const std::string& path) {
  const auto fill = [](DatasetWriter& writer) {
    const auto append = [&](const char* matrix, const Row& row, const std::vector<float>& weights) {
      writer.append_row(matrix, {row, weights});
    };
    append("train", {0, 2, 5}, {0.5F, 1.0F, 1.5F});
    append("train", {}, {});
    append("train", {1}, {1.0F});
    append("train", {0, 1, 2, 3, 4, 5}, {0.25F, 0.25F, 0.5F, 1.0F, 2.0F, 2.0F});
    append("validation/fold_in", {0, 1}, {0.75F, 1.25F});
    append("validation/fold_in", {4}, {1.0F});
    append("test/fold_in", {3}, {1.0F});
    for (const Row& row : {Row{2}, Row{}}) writer.append_row("validation/held_out", row);
    writer.append_row("test/held_out", Row{5});
    writer.set_attribute("interaction_weights", std::string("rating"));
  };
  write_dataset(path, 6, fill);
}

/// Writes a dataset of 3 train users and 1 validation user over 4 items, with 6 features.
inline void write_known_users(const std::string& path) {
  write_dataset(path, 4, [](DatasetWriter& writer) {
    for (const Row& row : {Row{0, 3}, Row{}, Row{2}}) writer.append_row("train", row);
    for (const Row& row : {Row{0, 5}, Row{1, 2, 4}, Row{}}) writer.append_row("train/user_features", row);
    writer.append_row("validation/fold_in", Row{1});
    writer.append_row("validation/held_out", Row{2});
    writer.append_row("validation/user_features", Row{3});
    writer.set_attribute("user_features", std::int64_t{6});
  });
}

/// Writes a dataset of 2 train users and 1 test user over 3 items with 5 features. Item 2 is new.
inline void write_known_items(const std::string& path) {
  write_dataset(path, 3, [](DatasetWriter& writer) {
    for (const Row& row : {Row{0, 1}, Row{1}}) writer.append_row("train", row);
    for (const Row& row : {Row{0, 4}, Row{}, Row{3}}) writer.append_row("items/features", row);
    writer.append_row("test/fold_in", Row{0});
    writer.append_row("test/held_out", Row{1, 2});
    writer.set_attribute("item_features", std::int64_t{5});
    writer.set_attribute("new_items", std::int64_t{1});
  });
}

}  // namespace vaecf::io
