// The files that replace optional libraries, in a program of their own, since vaecf_io has only one of each
// pair.
#include <vaecf/base/error.hpp>
#include <vaecf/io/source_reader.hpp>

#include <gtest/gtest.h>

#include <array>
#include <fstream>

#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace vaecf::io {
namespace {

class WithoutLibarchive : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_.path() / name, std::ios::binary) << bytes;
    return (folder_.path() / name).string();
  }
  testing::TemporaryFolder folder_;
};

TEST_F(WithoutLibarchive, CompressedFilesAndArchivesAreErrorsWithAWayOut) {
  std::string tar(512, '\0');
  tar.replace(257, 5, "ustar");
  for (const auto& [name, bytes] : {std::pair<std::string, std::string>{"ratings.csv.gz", "\x1f\x8b\x08"},
                                    {"ml-20m.zip", "PK\x03\x04"},
                                    {"download.tar", tar},
                                    {"no_extension", tar}}) {
    const std::string path = write(name, bytes);
    for (const std::string& message :
         {message_of<InputError>([&] { is_archive(path); }), message_of<InputError>([&] {
            SourceReader reader({path}, [](const std::string&) { return true; });
            reader.next();
          })}) {
      expect_in(message, {path + ": is compressed or an archive", "built without libarchive", "unpack it",
                          "docs/CLUSTERS.md"});
    }
  }
}

TEST_F(WithoutLibarchive, PlainFilesAreRead) {
  const std::string path = write("plain.gz", "1,2\n");
  EXPECT_FALSE(is_archive(path));
  SourceReader reader({path}, [](const std::string&) { return true; });
  ASSERT_TRUE(reader.next());
  std::array<char, 10> bytes{};
  EXPECT_EQ(reader.read(bytes), 4U);
  EXPECT_FALSE(reader.next());
}

TEST(WithoutLibbson, BsonIsAnErrorWithAWayOut) {
  expect_in(message_of<InputError>([] { BsonReader("boards.bson", [](std::span<char>) { return 0U; }); }),
            {"boards.bson: is BSON", "built without libbson", "docs/CLUSTERS.md"});
}

}  // namespace
}  // namespace vaecf::io
