#include <vaecf/base/error.hpp>
#include <vaecf/io/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iomanip>
#include <sstream>
#include <utility>

#include "app/console.hpp"
#include "app/recommend/recommend.hpp"

namespace vaecf::app {
namespace {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return (std::ostringstream() << std::quoted(text, '"', '"')).str();
}

/// Throws InputError if a string of `list` is not UTF-8; `what`: "user", "item".
void require_utf8(const io::IdList& list, const char* what) {
  const auto odd = std::ranges::find_if_not(list.strings, is_utf8);
  if (odd == list.strings.end()) return;
  throw InputError(
      format("--output: {} {} is not UTF-8, which JSON requires; choose a .tsv, .csv or .h5 file", what,
             excerpt(*odd)));
}

std::string score_text(float score, const char* none) {
  return std::isnan(score) ? none : format("{:g}", score);
}

}  // namespace

std::string tsv_field(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return text;
}

OutputFormat output_format(const RecommendArguments& arguments) {
  const std::string ending = std::filesystem::path(arguments.output).extension().string();
  const auto found = !arguments.format.empty() ? parse_enum<OutputFormat>(arguments.format)
                     : ending.empty()          ? OutputFormat::tsv
                     : ending == ".h5"         ? OutputFormat::hdf5
                                               : parse_enum<OutputFormat>(ending.substr(1));
  if (!found) {
    throw InputError(format(
        "--output {}: must end in .tsv, .csv, .jsonl, .json, .h5 or .hdf5, got {}; rename it, or set --format",
        arguments.output, ending));
  }
  if (found == OutputFormat::hdf5 && arguments.output.empty())
    throw InputError("--format hdf5: requires a file; set --output");
  return *found;
}

RecommendationOutput::RecommendationOutput(OutputFormat chosen, const std::string& path,
                                           io::RecommendationHeader header)
    : format_(chosen), separator_(chosen == OutputFormat::csv ? ',' : '\t'), head_(std::move(header)) {
  if (format_ == OutputFormat::hdf5) {
    hdf5_.emplace(path, head_);
    return;
  }
  if (is_json()) {
    require_utf8(head_.users, "user");
    require_utf8(head_.items, "item");
    require_utf8(head_.titles, "title");
  }
  if (!path.empty()) file_.emplace(path);
  for (std::int64_t i = 0; i < head_.items.size(); ++i) items_.push_back(value(head_.items, i));
  for (std::int64_t i = 0; i < head_.titles.size(); ++i) titles_.push_back(value(head_.titles, i));
  if (format_ == OutputFormat::json) text_ = "[\n";
  if (is_json()) return;
  text_ = format("user{0}item{0}score", separator_);
  text_ += titles_.empty() ? "\n" : format("{}title\n", separator_);
}

void RecommendationOutput::append(std::span<const std::int32_t> items, std::span<const float> scores) {
  const auto k = static_cast<std::size_t>(head_.k);
  if (hdf5_) {
    std::vector<std::uint8_t> popular(items.size() / k);
    for (std::size_t row = 0; row < popular.size(); ++row) popular[row] = std::isnan(scores[row * k]);
    return hdf5_->append(items, scores, popular);
  }
  for (std::size_t row = 0; row < items.size() / k; ++row) {
    const auto list = items.subspan(row * k, k);
    const auto length = static_cast<std::size_t>(std::ranges::find(list, -1) - list.begin());
    const std::string user = value(head_.users, next_user_);
    if (is_json())
      add_object(user, list.first(length), scores.subspan(row * k, length));
    else
      add_lines(user, list.first(length), scores.subspan(row * k, length));
    ++next_user_;
  }
  hand_out();
}

void RecommendationOutput::commit() {
  if (hdf5_) return hdf5_->commit();
  if (format_ == OutputFormat::json) text_ += "\n]\n";
  hand_out();
  if (file_) file_->commit();
}

std::string RecommendationOutput::value(const io::IdList& list, std::int64_t i) const {
  if (is_json() && !list.numeric()) return io::dump(io::Json(list.text(i)));
  return format_ == OutputFormat::csv   ? csv_field(list.text(i))
         : format_ == OutputFormat::tsv ? tsv_field(list.text(i))
                                        : list.text(i);
}

void RecommendationOutput::add_lines(const std::string& user, std::span<const std::int32_t> items,
                                     std::span<const float> scores) {
  for (std::size_t slot = 0; slot < items.size(); ++slot) {
    const auto item = static_cast<std::size_t>(items[slot]);
    text_ += user + separator_ + items_[item] + separator_ + score_text(scores[slot], "nan");
    text_ += titles_.empty() ? "\n" : separator_ + titles_[item] + '\n';
  }
}

void RecommendationOutput::add_object(const std::string& user, std::span<const std::int32_t> items,
                                      std::span<const float> scores) {
  const auto joined = [&](const std::vector<std::string>& texts) {
    std::string list;
    for (const std::int32_t item : items) list += (list.empty() ? "" : ",") + texts[item];
    return "[" + list + "]";
  };
  std::string numbers;
  for (const float score : scores) numbers += (numbers.empty() ? "" : ",") + score_text(score, "null");
  if (format_ == OutputFormat::json && next_user_ > 0) text_ += ",\n";
  text_ += "{\"user\":" + user + ",\"items\":" + joined(items_) + ",\"scores\":[" + numbers + "]";
  if (!titles_.empty()) text_ += ",\"titles\":" + joined(titles_);
  text_ += format_ == OutputFormat::json ? "}" : "}\n";
}

void RecommendationOutput::hand_out() {
  if (file_)
    file_->write(text_);
  else
    print(text_);
  text_.clear();
}

}  // namespace vaecf::app
