#include "data/source/foreign_formats.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <array>
#include <cctype>

namespace vaecf::data {
namespace {

using namespace std::string_view_literals;

struct ForeignFormat {
  std::string_view first_bytes;
  const char* name;
  const char* conversion;  // a shell command; {} is the file
};

constexpr const char* from_excel =
    "python3 -c \"import pandas; pandas.read_excel('{}').to_csv('ratings.csv', index=False)\"";
constexpr const char* from_arrow =
    "python3 -c \"import pandas; pandas.read_feather('{}').to_csv('ratings.csv', index=False)\"";

constexpr std::array foreign_formats = {
    ForeignFormat{
        "PAR1"sv, "a Parquet file",
        "python3 -c \"import pandas; pandas.read_parquet('{}').to_csv('ratings.csv', index=False)\""},
    ForeignFormat{"ARROW1"sv, "an Arrow file", from_arrow},
    ForeignFormat{"FEA1"sv, "an Arrow file (Feather 1)", from_arrow},
    ForeignFormat{"\xFF\xFF\xFF\xFF"sv, "an Arrow stream",
                  "python3 -c \"import pyarrow; "
                  "pyarrow.ipc.open_stream('{}').read_pandas().to_csv('ratings.csv', index=False)\""},
    ForeignFormat{"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"sv, "an Excel file", from_excel},
    ForeignFormat{
        "SQLite format 3\0"sv, "an SQLite database",
        "sqlite3 -header -csv '{}' 'SELECT * FROM ratings' > ratings.csv, with the name of your table"},
    ForeignFormat{"\x93NUMPY"sv, "a NumPy array",
                  "python3 -c \"import numpy; "
                  "numpy.savetxt('ratings.csv', numpy.load('{}'), fmt='%s', delimiter=',')\", "
                  "and set data.source.header: false"},
    ForeignFormat{"\x89HDF\r\n\x1A\n"sv, "an HDF5 file", nullptr},
    ForeignFormat{"\xFF\xFE"sv, "encoded as UTF-16", "iconv -f UTF-16 -t UTF-8 '{}' > ratings.csv"},
    ForeignFormat{"\xFE\xFF"sv, "encoded as UTF-16", "iconv -f UTF-16 -t UTF-8 '{}' > ratings.csv"},
};

// Returns whether `text` begins with a tag of HTML, after blanks and a byte-order mark.
bool begins_html(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  const auto begins = [&](std::string_view tag) {
    return text.size() >= tag.size() && std::equal(tag.begin(), tag.end(), text.begin(), [](char a, char b) {
             return a == std::tolower(static_cast<unsigned char>(b));
           });
  };
  return begins("<!doctype html") || begins("<html");
}

[[noreturn]] void refuse(const std::string& name, const char* what, const char* conversion) {
  std::string command(conversion);
  if (const auto at = command.find("{}"); at != std::string::npos) command.replace(at, 2, name);
  throw InputError(format("{}: is {}, not a text file; convert it: {}", name, what, command));
}

}  // namespace

void refuse_foreign_format(const std::string& name, std::string_view first_bytes) {
  // Text may begin with the same letters, but contains no such control characters.
  const bool binary = std::ranges::any_of(first_bytes.substr(0, 64), [](char c) {
    return static_cast<unsigned char>(c) < '\t' || static_cast<unsigned char>(c) >= 0x80;
  });
  for (const ForeignFormat& each : foreign_formats) {
    if (!binary || !first_bytes.starts_with(each.first_bytes)) continue;
    if (each.conversion != nullptr) refuse(name, each.name, each.conversion);
    throw InputError(format("{}: is {}, not a text file; a dataset of this program is the value of data.file",
                            name, each.name));
  }
  if (begins_html(first_bytes)) {
    throw InputError(format(
        "{}: is a web page (HTML), not a text file; a download probably failed, so fetch the file again",
        name));
  }
}

void refuse_office_file(const std::string& name, std::string_view member) {
  if (member != "[Content_Types].xml") return;
  refuse(name.substr(0, name.size() - std::min(name.size(), member.size() + 1)),
         "an Excel file (or another Office document)", from_excel);
}

}  // namespace vaecf::data
