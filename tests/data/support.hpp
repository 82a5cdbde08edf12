#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/data/prepare_options.hpp>
#include <vaecf/data/prepare_report.hpp>
#include <vaecf/data/source_options.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/source/source_formats.hpp"
#include "support/messages.hpp"
#include "support/packing.hpp"
#include "support/temporary_folder.hpp"

namespace vaecf::data {

using Texts = std::vector<std::string>;
using Numbers = std::vector<std::int32_t>;
using Integers = std::vector<std::int64_t>;
using Items = std::set<std::string>;
using ItemsOf = std::map<std::string, Items>;  ///< items of each user, both by id

namespace test {

/// Temporary folder, removed with its contents at the end of the test.
class TempFolder {
 public:
  std::string path(const std::string& name) const { return (path_ / name).string(); }
  /// Writes a file, in a folder that is created if necessary.
  std::string write(const std::string& name, std::string_view text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream file(path_ / name, std::ios::binary);
    file << text;
    if (!file.flush()) throw std::runtime_error("cannot write " + name);
    return path(name);
  }
  /// Writes an archive of the format that its name ends in: .zip, .tar, .tar.gz or .gz.
  std::string pack(const std::string& name, const vaecf::testing::Members& members) const {
    const bool gzip = name.ends_with(".gz");
    const char* const format = name.ends_with(".zip")                                ? "zip"
                               : name.ends_with(".tar") || name.ends_with(".tar.gz") ? "tar"
                                                                                     : "raw";
    return write(name, vaecf::testing::packed(members, format, gzip ? "gzip" : "none"));
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  vaecf::testing::TemporaryFolder folder_;
  const std::filesystem::path& path_ = folder_.path();
};

class DataTest : public ::testing::Test {
 protected:
  DataTest() {
    source_.user_column = "0";
    source_.item_column = "1";
  }
  TempFolder folder_;
  Log log_;
  Progress progress_;
  SourceOptions source_;
};

/// Events of a source, column by column and in their defined order.
struct ReadSource : RawRatings {
  struct Columns {
    std::vector<double> time{};
    std::vector<SplitPart> part{};
    Integers index{};
  };
  Columns columns{};
  Texts pairs{};  ///< "user/item", with the prefix "-" if the rating is too low

  /// Returns "file:line" of event `e`.
  std::string location(std::size_t e) const { return locations.location_of(columns.index[e]); }
  /// Returns what each issue says.
  Texts problems() const {
    Texts all;
    for (const DataIssue& issue : issues.list()) all.push_back(issue.what);
    return all;
  }
};

/// Returns zlib's CRC-32 of little-endian int32 values.
inline std::uint32_t crc32(std::span<const std::int32_t> values) {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const std::int32_t value : values) {
    for (int shift = 0; shift < 32; shift += 8) {
      crc ^= (static_cast<std::uint32_t>(value) >> shift) & 0xFFu;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
    }
  }
  return ~crc;
}

inline Texts texts_of(const io::IdList& ids) {
  Texts all;
  for (std::int64_t i = 0; i < ids.size(); ++i) all.push_back(ids.text(i));
  return all;
}

/// Fixture that reads ratings; those of at least 4 are positive by default.
class SourceTest : public DataTest {
 protected:
  SourceTest() { wanted_.min_rating = 4.0; }
  ReadSource read(const std::string& format, const std::string& path) {
    source_.format = format;
    source_.path = path;
    return read();
  }
  ReadSource read() {
    ReadSource read{read_ratings(source_, wanted_, log_, progress_)};
    std::vector<Event> events;
    read.events.each_user({"reading"}, progress_, [&](std::span<const Event> of_user) {
      events.insert(events.end(), of_user.begin(), of_user.end());
    });
    std::ranges::sort(events, {}, [&](const Event& e) {
      return std::pair(read.ordered_by_item ? read.item_ids.numbers[static_cast<std::size_t>(e.item)] : 0,
                       std::int64_t{e.index});
    });
    for (const Event& event : events) {
      read.columns.time.push_back(event.time);
      read.columns.part.push_back(event.part);
      read.columns.index.push_back(event.index);
      read.pairs.push_back((event.positive ? "" : "-") + read.user_ids.text(event.user) + "/" +
                           read.item_ids.text(event.item));
    }
    return read;
  }
  ReadSource read_text(std::string_view text, const std::string& format = "delimited") {
    return read(format, folder_.write("table.csv", text));
  }
  std::string refusal(const std::string& format, const std::string& path) {
    return message_of<InputError>([&] { read(format, path); });
  }
  std::string refusal_of(std::string_view text, const std::string& format = "delimited") {
    return refusal(format, folder_.write("table.csv", text));
  }
  void use(const std::string& user, const std::string& item, const std::string& rating = "") {
    source_.user_column = user;
    source_.item_column = item;
    source_.rating_column = rating;
  }

  ReadOptions wanted_;
};

/// Fixture of the tests that make archives.
template <class Fixture>
class WithArchives : public Fixture {
 protected:
  void SetUp() override {
    if (!vaecf::testing::has_libarchive) GTEST_SKIP() << vaecf::testing::without_libarchive;
  }
};

/// Returns the options of the paper's split, whose numbers of held-out users are automatic.
inline PrepareOptions paper_options() {
  PrepareOptions options;
  options.min_rating = 4.0;
  options.min_user_items = 5;
  options.split = SplitMethod::liang2018;
  return options;
}

/// Fixture that prepares the dataset tiny.h5 with these options by default.
class PrepareTest : public DataTest {
 protected:
  const PrepareReport& run() {
    report_ = prepare(source_, options_, "tiny", output_, mode_, log_, progress_);
    return report_;
  }
  /// Prepares a file with this text.
  const PrepareReport& run(std::string_view text) {
    source_.path = folder_.write("events.csv", text);
    return run();
  }
  std::string refusal() {
    return message_of<InputError>([&] { run(); });
  }
  std::string refusal(std::string_view text) {
    source_.path = folder_.write("events.csv", text);
    return refusal();
  }
  /// Returns a stage of the last report.
  StageCounts stage(const std::string& name) const {
    for (const StageCounts& counts : report_.stages)
      if (counts.stage == name) return counts;
    ADD_FAILURE() << "no stage " << name;
    return {};
  }
  io::DatasetFile file() const { return io::DatasetFile(output_); }
  Csr rows(const std::string& matrix) const { return file().read_rows(matrix, {0, file().rows(matrix)}); }
  /// Returns the ids of the users of a part: train, validation or test.
  io::IdList users(const std::string& part) const {
    return file().has_ids(part + "/user_id") ? file().read_ids(part + "/user_id") : io::IdList{};
  }
  Texts items() const { return texts_of(file().read_ids("items/id")); }
  /// Returns the rows of a matrix by id.
  ItemsOf items_of(const std::string& matrix) const {
    const io::DatasetFile file(output_);
    const Texts item_ids = texts_of(file.read_ids("items/id"));
    const std::string part = matrix.substr(0, matrix.find('/')) + "/user_id";
    const io::IdList user_ids = file.has_ids(part) ? file.read_ids(part) : io::IdList{};
    const Csr csr = file.read_rows(matrix, {0, file.rows(matrix)});
    ItemsOf all;
    for (std::int64_t r = 0; r < csr.rows(); ++r) {
      Items& of_user = all[user_ids.text(r)];
      for (const std::int32_t column : csr.view().row(r))
        EXPECT_TRUE(of_user.insert(item_ids.at(static_cast<std::size_t>(column))).second);
    }
    return all;
  }

  PrepareOptions options_ = paper_options();
  PrepareFlags mode_;
  PrepareReport report_;
  std::string output_ = folder_.path("tiny.h5");
};

/// Fixture for splits of a table without a header that keep every user with an event and may be repeated.
class SplitTest : public PrepareTest {
 protected:
  SplitTest() {
    source_.format = "delimited";
    source_.header = false;
    options_.min_user_items = 1;
    mode_.force = true;
  }
};

}  // namespace test
}  // namespace vaecf::data
