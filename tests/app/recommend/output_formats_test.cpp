#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include "app/recommend/item_names.hpp"
#include "app/recommend/output.hpp"
#include "support/messages.hpp"

namespace vaecf::app {
namespace {

TEST(OutputFormats, FollowTheOptionOrTheEnding) {
  const auto format_of = [](const std::string& output, const std::string& format = "") {
    return output_format(output, format);
  };
  EXPECT_EQ(format_of(""), OutputFormat::tsv);
  EXPECT_EQ(format_of("plain"), OutputFormat::tsv);
  EXPECT_EQ(format_of("a.b/top.csv"), OutputFormat::csv);
  EXPECT_EQ(format_of("top.jsonl"), OutputFormat::jsonl);
  EXPECT_EQ(format_of("top.h5"), OutputFormat::hdf5);
  EXPECT_EQ(format_of("top.hdf5"), OutputFormat::hdf5);
  EXPECT_EQ(format_of("top", "csv"), OutputFormat::csv);
  for (const std::string ending : {".parquet", ".xlsx", ".TSV"}) {
    expect_in(message_of<InputError>([&] { format_of("top" + ending); }), {".h5 or .hdf5, got " + ending});
    EXPECT_EQ(format_of("top" + ending, "tsv"), OutputFormat::tsv);
  }
  expect_in(message_of<InputError>([&] { format_of("", "hdf5"); }), {"requires a file; set --output"});
}

TEST(UnknownNames, TextListsTheFirstFiveNames) {
  UnknownNames unknown;
  for (int i = 0; i < 20; ++i) unknown.add(std::string(1, static_cast<char>('a' + i % 5)));
  EXPECT_EQ(unknown.text(), "a, b, c, d, e");
  unknown.add("f");
  EXPECT_EQ(unknown.text(), "a, b, c, d, e ...");
  EXPECT_EQ(unknown.count(), 21);
  UnknownNames long_named;
  for (int i = 0; i < 2; ++i) long_named.add(std::string(100, 'a'));
  EXPECT_EQ(long_named.text(), std::string(80, 'a')) << "listed once, truncated";
}

}  // namespace
}  // namespace vaecf::app
