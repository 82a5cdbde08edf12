#include "app/recommendation_output.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/output_file.hpp>

#include "app/commands.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>

namespace vaecf::app {
namespace {

/// As a field of CSV: in quotes where it must be.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

/// As a field of TSV, which knows no quotes: what would end it becomes a blank.
std::string tsv_field(std::string text) {
  for (char& c : text) {
    if (c == '\t' || c == '\n' || c == '\r') c = ' ';
  }
  return text;
}

class TextOutput : public RecommendationOutput {
 public:
  TextOutput(bool tsv, const std::string& path, io::RecommendationHead head)
      : tsv_(tsv), separator_(tsv ? '\t' : ','), head_(std::move(head)) {
    if (!path.empty()) file_.emplace(path);
    for (std::int64_t i = 0; i < head_.items.size(); ++i) items_.push_back(field(head_.items.text(i)));
    for (std::int64_t i = 0; i < head_.titles.size(); ++i) titles_.push_back(field(head_.titles.text(i)));
    text_ = format("user{0}item{0}score{1}\n", separator_,
                   titles_.empty() ? std::string() : format("{}title", separator_));
  }

  void append(std::span<const std::int32_t> items, std::span<const float> scores) override {
    const auto k = static_cast<std::size_t>(head_.k);
    for (std::size_t row = 0; row < items.size() / k; ++row) {
      const std::string user = field(head_.users.text(next_user_++));
      for (std::size_t place = row * k; place < (row + 1) * k && items[place] >= 0; ++place) {
        add_line(user, static_cast<std::size_t>(items[place]), scores[place]);
      }
    }
    hand_out();
  }

  void commit() override {
    hand_out();
    if (file_) file_->commit();
  }

 private:
  std::string field(const std::string& text) const { return tsv_ ? tsv_field(text) : csv_field(text); }

  void add_line(const std::string& user, std::size_t item, float score) {
    std::array<char, 32> digits;
    const auto end = std::to_chars(digits.begin(), digits.end(), score, std::chars_format::general, 6);
    text_.append(user).append(1, separator_).append(items_[item]).append(1, separator_);
    text_.append(std::isnan(score) ? std::string_view("nan") : std::string_view(digits.begin(), end.ptr));
    if (!titles_.empty()) text_.append(1, separator_).append(titles_[item]);
    text_ += '\n';
  }

  void hand_out() {
    if (file_)
      file_->write(text_);
    else
      print(text_);
    text_.clear();
  }

  bool tsv_;
  char separator_;
  io::RecommendationHead head_;
  std::optional<io::OutputFile> file_;  // else standard output
  std::vector<std::string> items_;
  std::vector<std::string> titles_;
  std::int64_t next_user_ = 0;
  std::string text_;
};

class Hdf5Output : public RecommendationOutput {
 public:
  Hdf5Output(const std::string& path, const io::RecommendationHead& head)
      : k_(static_cast<std::size_t>(head.k)), writer_(path, head) {}

  void append(std::span<const std::int32_t> items, std::span<const float> scores) override {
    std::vector<std::uint8_t> popular(items.size() / k_);
    for (std::size_t row = 0; row < popular.size(); ++row) popular[row] = std::isnan(scores[row * k_]);
    writer_.append(items, scores, popular);
  }
  void commit() override { writer_.commit(); }

 private:
  std::size_t k_;
  io::RecommendationWriter writer_;
};

}  // namespace

OutputFormat output_format(const std::string& wish, const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  std::string name = wish;
  if (name.empty()) {
    if (extension == ".csv") name = "csv";
    if (extension == ".h5" || extension == ".hdf5") name = "hdf5";
    if (extension == ".parquet") {
      throw InputError(
          format("{}: Parquet is not written here; name a .tsv, .csv or .h5 file, which any reader turns "
                 "into Parquet",
                 path));
    }
  }
  if (name == "hdf5" && path.empty()) {
    throw InputError("HDF5 does not go to standard output: name a file with --output");
  }
  if (name == "hdf5") return OutputFormat::hdf5;
  return name == "csv" ? OutputFormat::csv : OutputFormat::tsv;
}

std::unique_ptr<RecommendationOutput> make_output(OutputFormat format, const std::string& path,
                                                  io::RecommendationHead head) {
  if (format == OutputFormat::hdf5) return std::make_unique<Hdf5Output>(path, head);
  return std::make_unique<TextOutput>(format == OutputFormat::tsv, path, std::move(head));
}

}  // namespace vaecf::app
