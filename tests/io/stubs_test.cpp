// The files that replace optional libraries, in a program of their own, since vaecf_io has only one of each
// pair.
#include <vaecf/io/source_reader.hpp>

#include <array>

#include "io/io_fixture.hpp"

namespace vaecf::io {
namespace {

using WithoutLibarchive = IoTest;

bool all(const std::string&) {
  return true;
}

TEST_F(WithoutLibarchive, CompressedFilesAndArchivesAreErrorsWithAWayOut) {
  std::string tar(512, '\0');
  tar.replace(257, 5, "ustar");
  for (const auto& [name, bytes] : {std::pair<std::string, std::string>{"ratings.csv.gz", "\x1f\x8b\x08"},
                                    {"ml-20m.zip", "PK\x03\x04"},
                                    {"download.tar", tar},
                                    {"no_extension", tar}}) {
    put_bytes(file(name), bytes);
    const std::vector<std::string> parts = {file(name) + ": is compressed or an archive",
                                            "built without libarchive", "unpack it", "docs/INSTALL.md"};
    expect_refused<InputError>(parts, [&] { is_archive(file(name)); });
    expect_refused<InputError>(parts, [&] { SourceReader({file(name)}, all).next(); });
  }
}

TEST_F(WithoutLibarchive, PlainFilesAreRead) {
  put_bytes(file("plain.gz"), "1,2\n");
  EXPECT_FALSE(is_archive(file("plain.gz")));
  SourceReader reader({file("plain.gz")}, all);
  ASSERT_TRUE(reader.next());
  std::array<char, 10> bytes{};
  EXPECT_EQ(reader.read(bytes), 4U);
  EXPECT_FALSE(reader.next());
}

TEST(WithoutLibbson, BsonIsAnErrorWithAWayOut) {
  expect_refused<InputError>({"boards.bson: is BSON", "built without libbson", "docs/INSTALL.md"},
                             [] { BsonReader("boards.bson", [](std::span<char>) { return 0U; }); });
}

}  // namespace
}  // namespace vaecf::io
