#include "app/recommend/output.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/io/json.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iomanip>
#include <sstream>
#include <utility>

#include "app/command_line.hpp"
#include "app/console.hpp"

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
  return std::isnan(score) ? none : format("{:.9g}", score);
}

/// Returns a string as a field of TSV, which has no quotes: separators are replaced by spaces.
std::string tsv_field(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return text;
}

}  // namespace

OutputFormat output_format(const std::string& output, const std::string& format) {
  const std::string ending = std::filesystem::path(output).extension().string();
  const auto found = !format.empty()   ? parse_enum<OutputFormat>(format)
                     : ending.empty()  ? OutputFormat::tsv
                     : ending == ".h5" ? OutputFormat::hdf5
                                       : parse_enum<OutputFormat>(ending.substr(1));
  if (!found) {
    throw InputError(vaecf::format(
        "--output {}: must end in .tsv, .csv, .jsonl, .json, .h5 or .hdf5, got {}; rename it, or set --format",
        output, ending));
  }
  if (found == OutputFormat::hdf5 && output.empty())
    throw InputError("--format hdf5: requires a file; set --output");
  return *found;
}

void add_output_format(CLI::App& command, std::string& output, std::string& format) {
  add_output(command, output,
             "a .tsv, .csv, .jsonl, .json, .h5 or .hdf5 file; default: -, TSV on standard output");
  std::vector<std::string> formats;
  for (const auto& [each, name] : enum_names<OutputFormat>) formats.emplace_back(name);
  command
      .add_option("--format", format, "output format; default: by the ending of --output, tsv without one")
      ->check(CLI::IsMember(formats));
}

io::Attributes list_attributes(const io::CheckpointFile& checkpoint) {
  return {{"format_version", std::int64_t{1}},
          {"checkpoint", checkpoint.path()},
          {"dataset_checksum", checkpoint.attribute<std::string>("dataset_checksum")}};
}

std::string json_id(const io::IdList& list, std::int64_t i) {
  return list.numeric() ? list.text(i) : io::dump(io::Json(list.text(i)));
}

std::string list_fields(const char* places, const Recommendations& list, std::int64_t reasons,
                        const std::vector<std::string>& items, const std::vector<std::string>& titles) {
  // Returns a JSON list of the texts of elements [begin, end).
  const auto joined = [](Range elements, const auto& text) {
    std::string all;
    for (std::int64_t i = elements.begin; i < elements.end; ++i)
      all += (i == elements.begin ? "" : ",") + text(i);
    return "[" + all + "]";
  };
  const Range slots{0, std::ssize(list.items)};
  const auto id = [&](std::int64_t slot) { return items[list.items[slot]]; };
  const auto score = [&](std::int64_t slot) { return score_text(list.scores[slot], "null"); };
  const auto title = [&](std::int64_t slot) { return titles[list.items[slot]]; };
  std::string text = format("\"{}\":{},\"scores\":{}", places, joined(slots, id), joined(slots, score));
  if (!titles.empty()) text += ",\"titles\":" + joined(slots, title);
  if (reasons > 0) {
    const auto of_slots = [&](const auto& text_of) {
      return joined(slots, [&](std::int64_t slot) {
        const auto because = list.because.subspan(slot * reasons, reasons);
        const std::int64_t count = std::ranges::find(because, -1) - because.begin();
        return joined({slot * reasons, slot * reasons + count}, text_of);
      });
    };
    text += ",\"because\":" + of_slots([&](std::int64_t n) { return items[list.because[n]]; });
    text += ",\"contribution\":" +
            of_slots([&](std::int64_t n) { return score_text(list.contributions[n], "null"); });
    if (!titles.empty())
      text += ",\"because_titles\":" + of_slots([&](std::int64_t n) { return titles[list.because[n]]; });
  }
  return text;
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
  text_ = format("{1}{0}{2}{0}score", separator_, owner_name(), places_name());
  if (!titles_.empty()) text_ += format("{}title", separator_);
  for (std::int64_t n = 1; n <= head_.reasons; ++n) {
    text_ += format("{0}because_{1}{0}contribution_{1}", separator_, n);
    if (!titles_.empty()) text_ += format("{}because_title_{}", separator_, n);
  }
  text_ += '\n';
}

void RecommendationOutput::append(const Recommendations& users) {
  const std::int64_t k = head_.k;
  const std::int64_t count = std::ssize(users.items) / k;
  if (hdf5_) {
    std::vector<std::uint8_t> popular(count);
    for (std::int64_t row = 0; row < count; ++row) popular[row] = std::isnan(users.scores[row * k]);
    return hdf5_->append(users.items, users.scores, popular, users.because, users.contributions);
  }
  for (std::int64_t row = 0; row < count; ++row) {
    const auto all = users.items.subspan(row * k, k);
    const std::int64_t length = std::ranges::find(all, -1) - all.begin();
    const Recommendations list = users.subset({row * k, row * k + length}, head_.reasons);
    const std::string owner =
        is_similar() ? items_[head_.similar_to[next_list_]] : value(head_.users, next_list_);
    if (is_json())
      add_object(owner, list);
    else
      add_lines(owner, list);
    ++next_list_;
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
  if (is_json()) return json_id(list, i);
  return format_ == OutputFormat::csv   ? csv_field(list.text(i))
         : format_ == OutputFormat::tsv ? tsv_field(list.text(i))
                                        : list.text(i);
}

void RecommendationOutput::add_lines(const std::string& owner, const Recommendations& list) {
  const auto add = [&](const std::string& field) { text_ += separator_ + field; };
  auto because = list.because.begin();
  auto contribution = list.contributions.begin();
  for (std::size_t slot = 0; slot < list.items.size(); ++slot) {
    const std::int32_t item = list.items[slot];
    text_ += owner;
    add(items_[item]);
    add(score_text(list.scores[slot], "nan"));
    if (!titles_.empty()) add(titles_[item]);
    for (std::int64_t n = 0; n < head_.reasons; ++n, ++because, ++contribution) {
      add(*because < 0 ? "" : items_[*because]);
      add(*because < 0 ? "" : score_text(*contribution, "nan"));
      if (!titles_.empty()) add(*because < 0 ? "" : titles_[*because]);
    }
    text_ += '\n';
  }
}

void RecommendationOutput::add_object(const std::string& owner, const Recommendations& list) {
  if (format_ == OutputFormat::json && next_list_ > 0) text_ += ",\n";
  text_ += format("{{\"{}\":{},{}", owner_name(), owner,
                  list_fields(is_similar() ? "similar" : "items", list, head_.reasons, items_, titles_));
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
