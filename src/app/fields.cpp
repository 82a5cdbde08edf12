#include "app/fields.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/source_reader.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

namespace vaecf::app {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

/// Reads a field in quotes from `at`, which stands on the first quote, and moves it behind the last one. A
/// quote within is written twice. Without a closing quote the field ends with the line.
std::string quoted_field(std::string_view line, std::size_t& at) {
  std::string field;
  for (++at; at < line.size(); ++at) {
    if (line[at] != '"') {
      field += line[at];
    } else if (at + 1 < line.size() && line[at + 1] == '"') {
      field += line[at++];
    } else {
      ++at;
      break;
    }
  }
  return field;
}

}  // namespace

/// What a file holds, be it compressed or the only one of an archive.
class FieldReader::Unpacked : public std::streambuf {
 public:
  explicit Unpacked(const std::string& path) : files_({path}, [](const std::string&) { return true; }) {
    if (!files_.next()) throw InputError(format("{}: holds no file: give a TSV or CSV file", path));
    name_ = files_.name();
  }

 protected:
  int_type underflow() override {
    if (ended_) return traits_type::eof();
    const std::size_t got = files_.read(piece_);
    setg(piece_.data(), piece_.data(), piece_.data() + got);
    if (got > 0) return traits_type::to_int_type(piece_.front());
    if (files_.next()) {
      throw InputError(
          format("{} and {}: this archive holds several files: unpack it and give the one that is meant",
                 name_, files_.name()));
    }
    ended_ = true;
    return traits_type::eof();
  }

 private:
  io::SourceReader files_;
  std::string name_;
  std::vector<char> piece_ = std::vector<char>(1 << 16);
  bool ended_ = false;
};

FieldReader::FieldReader(const std::string& path, std::string separator, bool quotes)
    : path_(path), file_(nullptr), expected_(std::move(separator)), quotes_(quotes) {
  if (std::filesystem::is_directory(path))
    throw InputError(format("{} is a folder: give a TSV or CSV file", path));
  auto plain = std::make_unique<std::filebuf>();
  if (plain->open(path, std::ios::in | std::ios::binary) == nullptr)
    throw InputError(format("cannot read {}: {}", path, std::strerror(errno)));
  // A pipe can be looked at only once.
  if (std::filesystem::is_regular_file(path))
    bytes_ = std::make_unique<Unpacked>(path);
  else
    bytes_ = std::move(plain);
  file_.rdbuf(bytes_.get());
  file_.exceptions(std::ios::badbit);  // or what went wrong would be lost
}

FieldReader::~FieldReader() = default;

bool FieldReader::next() {
  while (std::getline(file_, line_)) {
    if (++number_ == 1 && line_.starts_with("\xEF\xBB\xBF")) line_.erase(0, 3);
    if (trimmed(line_).empty()) continue;
    if (++lines_ == 1) {
      const bool as_expected = !expected_.empty() && line_.find(expected_) != std::string::npos;
      separator_ = line_.find('\t') != std::string::npos ? "\t" : as_expected ? expected_ : ",";
      if (separator_ != expected_) quotes_ = separator_ == ",";
    }
    split();
    return true;
  }
  return false;
}

std::string FieldReader::place() const {
  return format("{}:{}", path_, number_);
}

std::string FieldReader::rest(std::size_t index) const {
  return std::string(trimmed(line_).substr(begins_[index]));
}

void FieldReader::split() {
  fields_.clear();
  begins_.clear();
  const std::string_view line = trimmed(line_);
  std::size_t at = 0;
  while (true) {
    while (at < line.size() && line[at] == ' ') ++at;
    begins_.push_back(at);
    std::string field;
    if (quotes_ && at < line.size() && line[at] == '"') field = quoted_field(line, at);
    const std::size_t end = std::min(line.find(separator_, at), line.size());
    field += trimmed(line.substr(at, end - at));
    fields_.push_back(std::move(field));
    if (end == line.size()) return;
    at = end + separator_.size();
  }
}

bool names_a_column(std::string_view text, std::string_view what) {
  std::string word;
  for (const char c : text) {
    if (c != '_' && c != ' ') word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  constexpr std::array kinds = {"item", "movie", "track", "song", "product", "book"};
  const auto heads = [&](std::string_view name) { return word == name || word == std::string(name) + "id"; };
  if (what == "user") return heads("user") || word == "uid";
  return std::ranges::any_of(kinds, heads) || word == "iid" || word == "id" || word == "title";
}

}  // namespace vaecf::app
