#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/output_file.hpp>

#include "io/bad_disk.hpp"
#include "io/io_fixture.hpp"

#include <numeric>

namespace vaecf::io {
namespace {

void write_dataset_of(const std::string& path, std::int64_t entries) {
  std::vector<std::int32_t> row(1000);
  std::iota(row.begin(), row.end(), 0);
  DatasetWriter writer(path);
  for (std::int64_t done = 0; done < entries; done += 1000) writer.append_row("train", row);
  writer.set_attribute("items", std::int64_t{1000});
  writer.commit();
}

void write_checkpoint_of(const std::string& path, std::int64_t rows) {
  const TensorSource source{
      "weights/w", rows, 1000, false,
      [](std::int64_t, std::int64_t, std::span<float> out) { std::fill(out.begin(), out.end(), 1.0f); }};
  write_checkpoint(path, {{"step", std::int64_t{1}}, {"config", std::string(100000, 'c')}}, {&source, 1});
}

using FullDisk = IoTest;

// The limits let the write fail in its middle, near its end, and in the file's first bytes.
TEST_F(FullDisk, DatasetWriterLeavesNothing) {
  for (const rlim_t limit : {100, 3000, 600000, 2400000, 4000000}) {
    const FileSizeLimit full(limit);
    const std::string message = message_of<RunError>([&] { write_dataset_of(file("d.h5"), 1000000); });
    EXPECT_TRUE(message.starts_with(file("d.h5") + ": ")) << message;
    EXPECT_NE(message.find("File too large"), std::string::npos) << message;
    EXPECT_TRUE(names().empty()) << limit;
  }
  write_dataset_of(file("d.h5"), 1000000);
  EXPECT_EQ(DatasetFile(file("d.h5")).entries("train"), 1000000);
}

TEST_F(FullDisk, WhatIsPutAsideIsNamedAndGone) {
  const std::vector<std::byte> bytes(5000, std::byte{7});
  {
    const FileSizeLimit full(12000);
    SpillFile spill(file("d.h5"));
    spill.append(bytes);
    spill.append(bytes);
    const std::string message = message_of<RunError>([&] { spill.append(bytes); });
    EXPECT_TRUE(message.starts_with(file("d.h5.spill") + ": ")) << message;
    EXPECT_NE(message.find("File too large"), std::string::npos) << message;
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(FullDisk, WhatIsPutAsideComesBack) {
  SpillFile spill(file("d.h5"));
  std::vector<std::byte> bytes(100000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
  const std::int64_t first = spill.append(bytes);
  const std::int64_t second = spill.append(std::span(bytes).subspan(7));
  EXPECT_EQ(second, 100000);
  spill.discard(first, 100000);
  spill.discard(0, 0);
  std::vector<std::byte> back(99993);
  spill.read(second, back);
  EXPECT_TRUE(std::equal(back.begin(), back.end(), bytes.begin() + 7));
  EXPECT_THROW(spill.read(second + 1, back), RunError);  // beyond the end
}

TEST_F(FullDisk, CheckpointWriterLeavesTheOldOne) {
  write_checkpoint_of(file("c.h5"), 10);
  for (const rlim_t limit : {100, 1000, 90000, 1000000, 4000000}) {
    const FileSizeLimit full(limit);
    const std::string message = message_of<RunError>([&] { write_checkpoint_of(file("c.h5"), 1000); });
    EXPECT_NE(message.find("File too large"), std::string::npos) << message;
    EXPECT_EQ(names(), std::vector<std::string>{"c.h5"}) << limit;
  }
  EXPECT_EQ(CheckpointFile(file("c.h5")).tensors().at(0).rows, 10);
}

TEST_F(FullDisk, NoSpaceLeftIsSaid) {
  const int status = on_small_disk(folder_, [&] {
    for (const bool dataset : {true, false}) {
      try {
        if (dataset) {
          write_dataset_of(file("f.h5"), 1000000);
        } else {
          write_checkpoint_of(file("f.h5"), 1000);
        }
        return 1;
      } catch (const RunError& error) {
        const std::string message = error.what();
        if (message.find("No space left") == std::string::npos) return 2;
        if (message.find(file("f.h5")) == std::string::npos) return 3;
      }
      if (!names().empty()) return 4;
    }
    // The space is free again, and the library still works.
    write_dataset_of(file("f.h5"), 1000);
    return DatasetFile(file("f.h5")).entries("train") == 1000 ? 0 : 5;
  });
  if (status == -1) GTEST_SKIP() << "this machine does not let us mount a small file system";
  EXPECT_EQ(status, 0);
}

TEST_F(FullDisk, UnwritablePlacesAreRunErrors) {
  put_bytes(file("plain"), "x");
  std::filesystem::create_directory(file("folder"));
  const auto message = [&](const std::string& path) {
    return message_of<RunError>([&] { DatasetWriter writer(path); });
  };
  EXPECT_NE(message(file("plain/d.h5")).find("cannot be written"), std::string::npos);
  EXPECT_NE(message(file("folder")).find("Is a directory"), std::string::npos);
  EXPECT_NE(message("/proc/none/d.h5").find("/proc/none/d.h5: cannot be written"), std::string::npos);
  if (::geteuid() != 0) {
    std::filesystem::permissions(file("folder"), std::filesystem::perms::owner_read);
    EXPECT_NE(message(file("folder/d.h5")).find("Permission denied"), std::string::npos);
    std::filesystem::permissions(file("folder"), std::filesystem::perms::owner_all);
  }
}

}  // namespace
}  // namespace vaecf::io
