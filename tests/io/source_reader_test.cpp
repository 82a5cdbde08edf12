#include <vaecf/io/source_reader.hpp>

#include <array>

#include "io/io_fixture.hpp"
#include "support/packing.hpp"

namespace vaecf::io {
namespace {

using testing::packed;

using Files = std::vector<std::pair<std::string, std::string>>;  // file names and contents

class SourceReaderTest : public IoTest {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    put_bytes(file(name), bytes);
    return file(name);
  }
  static Files read_all(SourceReader& reader) {
    Files files;
    while (reader.next()) {
      files.emplace_back(reader.file_name(), "");
      std::array<char, 1000> piece;
      while (const std::size_t got = reader.read(piece)) files.back().second.append(piece.data(), got);
      EXPECT_LE(reader.bytes_read(), reader.total_bytes());
    }
    EXPECT_EQ(reader.bytes_read(), reader.total_bytes());
    return files;
  }
  static Files read_all(const std::vector<std::string>& paths, const std::string& wanted = "") {
    SourceReader reader(paths, [&](const std::string& name) { return wanted.empty() || name == wanted; });
    return read_all(reader);
  }
  static void expect_refused(const std::string& path, const std::vector<std::string>& parts) {
    io::expect_refused<InputError>(parts, [&] { read_all({path}); });
  }

  const std::string text_ = [] {
    std::string text;
    for (int i = 0; i < 20000; ++i) text += std::to_string(i * 7919 % 100003) + ",5\n";
    return text;
  }();
};

TEST_F(SourceReaderTest, ReadsPlainFilesInOrder) {
  const auto a = write("a.csv", "1,2\n");
  const auto b = write("b.csv", "");
  const auto c = write("c.csv", text_);
  EXPECT_EQ(read_all({a, b, c}), (Files{{"a.csv", "1,2\n"}, {"b.csv", ""}, {"c.csv", text_}}));
  expect_refused(file("none.csv"), {"none.csv: cannot be read"});
  expect_refused(folder_.string(), {"is a folder"});
}

TEST_F(SourceReaderTest, CompressedFilesLoseTheirExtension) {
  if (!testing::has_libarchive) GTEST_SKIP() << testing::without_libarchive;
  for (const auto& [filter, ending] :
       Files{{"gzip", ".gz"}, {"bzip2", ".bz2"}, {"xz", ".xz"}, {"zstd", ".zst"}}) {
    const auto path = write("ratings.csv" + ending, packed({{"x", text_}}, "raw", filter));
    EXPECT_EQ(read_all({path}, "other"), (Files{{"ratings.csv", text_}})) << filter;
  }
  // The type is detected from the first bytes, not from the name.
  EXPECT_EQ(read_all({write("ratings.csv", packed({{"x", text_}}, "raw", "gzip"))}),
            (Files{{"ratings.csv", text_}}));
  EXPECT_EQ(read_all({write("plain.gz", "1,2\n")}), (Files{{"plain.gz", "1,2\n"}}));
  const auto half = packed({{"x", "1,2\n"}}, "raw", "gzip");
  EXPECT_EQ(read_all({write("two.gz", half + half)}), (Files{{"two", "1,2\n1,2\n"}}));
}

TEST_F(SourceReaderTest, ChecksumAndLengthOfEveryGzipMemberAreVerified) {
  if (!testing::has_libarchive) GTEST_SKIP() << testing::without_libarchive;
  const std::string one = packed({{"x", text_}}, "raw", "gzip");
  const std::string tar = packed({{"x", text_}}, "tar", "gzip");
  const auto flipped = [](std::string bytes, std::size_t at) {
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
    return bytes;
  };
  for (const std::size_t from_end : {8u, 5u, 4u, 1u}) {  // checksum, then length
    const std::size_t at = one.size() - from_end;
    const std::string why = from_end > 4 ? "incorrect data check" : "incorrect length check";
    expect_refused(write("a.gz", flipped(one, at)), {"a.gz: is damaged", why});
    expect_refused(write("b.gz", flipped(one, at) + one), {"b.gz: is damaged", why});
    expect_refused(write("c.gz", one + flipped(one, at)), {"c.gz: is damaged", why});
    expect_refused(write("d.tar.gz", flipped(tar, tar.size() - from_end)), {"d.tar.gz: is damaged", why});
    const std::string nested = packed({{"x", flipped(one, at)}}, "raw", "gzip");
    expect_refused(write("e.gz.gz", nested), {"e.gz.gz: is damaged", why});
  }
  EXPECT_EQ(read_all({write("padded.gz", one + std::string(1000, '\0'))}), (Files{{"padded", text_}}));
  expect_refused(write("more.gz", one + "more"), {"more.gz: is damaged"});
  expect_refused(write("cut.gz", one + one.substr(0, 5)),
                 {"cut.gz: is damaged, truncated", "it is truncated"});
}

TEST_F(SourceReaderTest, ReadsSelectedMembersOfArchives) {
  if (!testing::has_libarchive) GTEST_SKIP() << testing::without_libarchive;
  const testing::Members members = {
      {"ml/", ""}, {"ml/README.txt", "read me"}, {"ml/ratings.csv", text_}, {"ml/movies.csv", "1,Heat\n"}};
  for (const auto& [format, filter] :
       Files{{"zip", "none"}, {"tar", "none"}, {"tar", "gzip"}, {"tar", "zstd"}}) {
    const auto path = write("archive." + format, packed(members, format, filter));
    EXPECT_EQ(read_all({path}, "ratings.csv"), (Files{{"ratings.csv", text_}})) << format << filter;
    SourceReader reader({path}, [](const std::string& name) { return name == "movies.csv"; });
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(reader.name(), path + "/ml/movies.csv");
    EXPECT_FALSE(reader.next());
    EXPECT_EQ(reader.skipped_files(), (std::vector<std::string>{"ml/README.txt", "ml/ratings.csv"}));
  }
}

TEST_F(SourceReaderTest, ReadsNestedArchives) {
  if (!testing::has_libarchive) GTEST_SKIP() << testing::without_libarchive;
  const auto inner = packed({{"t/mv_2.txt", "2:\n"}, {"t/mv_1.txt", text_}}, "tar", "none");
  const auto outer = packed({{"d/probe.txt", "no"}, {"d/training_set.tar", inner}}, "tar", "gzip");
  EXPECT_EQ(read_all({write("nf.tar.gz", outer)}, "mv_1.txt"), (Files{{"mv_1.txt", text_}}));
  const auto single = packed({{"x", text_}}, "raw", "gzip");
  const auto zip = packed({{"set/ratings.csv.gz", single}, {"set/other.csv.gz", single}}, "zip", "none");
  EXPECT_EQ(read_all({write("set.zip", zip)}, "ratings.csv"), (Files{{"ratings.csv", text_}}));
}

TEST_F(SourceReaderTest, RejectsDamagedAndTruncatedFiles) {
  if (!testing::has_libarchive) GTEST_SKIP() << testing::without_libarchive;
  for (const auto& [filter, ending] :
       Files{{"gzip", "gz"}, {"bzip2", "bz2"}, {"xz", "xz"}, {"zstd", "zst"}}) {
    const std::string whole = packed({{"x", text_}}, "raw", filter);
    expect_refused(write("cut." + ending, whole.substr(0, whole.size() / 2)),
                   {"cut." + ending + ": is damaged, truncated"});
  }
  for (const auto& [format, filter] : Files{{"zip", "none"}, {"raw", "bzip2"}, {"raw", "xz"}}) {
    std::string flipped = packed({{"x", text_}}, format, filter);
    flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 0x55);
    expect_refused(write("bad." + filter, flipped), {"is damaged"});
  }
  const std::string tar = packed({{"d/set.tar", packed({{"a", text_}}, "tar", "none")}}, "tar", "gzip");
  expect_refused(write("cut.tar.gz", tar.substr(0, tar.size() / 2)), {"is damaged"});
  const std::string zeros("not a tar\0", 10);
  EXPECT_EQ(read_all({write("zeros.tar", zeros)}), (Files{{"zeros.tar", zeros}}));
  std::string header = packed({{"a.txt", "1"}, {"b.txt", "2"}, {"c.txt", "3"}}, "tar", "none");
  header.at(header.find("b.txt") + 20) ^= 1;
  expect_refused(write("x.tar", header),
                 {"is damaged"});  // libarchive alone would skip to the next intact one
}

}  // namespace
}  // namespace vaecf::io
