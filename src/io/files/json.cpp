#include <vaecf/base/failure.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/descriptor.hpp>
#include <vaecf/io/json.hpp>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <tuple>

#include "io/files/file_system.hpp"

namespace vaecf::io {
namespace {

/// Throws unless `path` is a regular file or does not exist, since opening a pipe would block.
void refuse_pipe(const std::string& path) {
  std::error_code missing;
  if (std::filesystem::exists(path, missing) && !std::filesystem::is_regular_file(path))
    throw InputError(format("{}: is not a regular file; move it away", path));
}

std::string why() {
  return std::generic_category().message(errno == 0 ? EIO : errno);
}

std::ifstream open_text(const std::string& path) {
  refuse_pipe(path);
  std::ifstream file(path);
  if (!file) throw InputError(format("{}: cannot be read: {}", path, why()));
  return file;
}

// Replaces NaN, Infinity and -Infinity outside of strings by null, at most with blanks of the same length.
// Returns the places in `text` behind which the result is longer by one character: those of NaN.
std::vector<std::size_t> replace_non_json_numbers(std::string& text) {
  std::vector<std::size_t> longer;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      for (const std::string_view number : {"NaN", "-Infinity", "Infinity"}) {
        if (!std::string_view(text).substr(i).starts_with(number)) continue;
        std::string null = "null";
        if (number.size() > null.size()) null.resize(number.size(), ' ');
        if (number.size() < null.size()) longer.push_back(i);
        text.replace(i, number.size(), null);
        i += null.size() - 1;
        break;
      }
    }
  }
  return longer;
}

}  // namespace

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

double get_number(const Json& json, std::string_view key, double default_value) {
  const auto field = json.find(key);
  return field != json.end() && field->is_number() ? field->get<double>() : default_value;
}

std::string get_string(const Json& json, std::string_view key, const std::string& default_value) {
  const auto field = json.find(key);
  return field != json.end() && field->is_string() ? field->get<std::string>() : default_value;
}

Json parse_line(std::string_view line, std::string& problem, int max_depth) {
  using Parsed = Json::parse_event_t;
  // Tables of many lines have no limit, and are parsed without a call for each value.
  Json::parser_callback_t require_shallow = nullptr;
  if (max_depth < std::numeric_limits<int>::max()) {
    require_shallow = [max_depth](int depth, Parsed parsed, const Json& /*value*/) {
      if ((parsed == Parsed::array_start || parsed == Parsed::object_start) && depth >= max_depth)
        throw InputError(format("lists and objects are nested more than {} deep", max_depth));
      return true;
    };
  }
  problem.clear();
  Json json = Json::parse(line, require_shallow, /*allow_exceptions=*/false);
  if (!json.is_discarded()) return json;
  std::string text(line);
  const std::vector<std::size_t> longer = replace_non_json_numbers(text);
  try {
    return Json::parse(text, require_shallow);
  } catch (const Json::parse_error& error) {
    const std::string_view reason = error.what();
    const std::size_t column = reason.find(": ");
    const auto before = std::ranges::count_if(longer, [&](std::size_t at) { return at + 1 < error.byte; });
    problem = format("column {}: {}", error.byte - before,
                     excerpt(reason.substr(column == std::string_view::npos ? 0 : column + 2), 200));
  } catch (const Json::exception& error) {  // a number that no type can represent
    problem = excerpt(error.what(), 200);
  }
  return json;
}

Json read_json(const std::string& path) {
  std::ifstream file = open_text(path);
  try {
    return Json::parse(file);
  } catch (const Json::exception& error) {
    throw InputError(format("{}: is not JSON: {}", path, excerpt(error.what(), 200)));
  }
}

std::vector<Json> read_json_lines(const std::string& path) {
  std::ifstream file = open_text(path);
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) {
    Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) lines.push_back(std::move(json));
  }
  return lines;
}

std::optional<EventKind> event_kind(const Json& line) {
  return parse_enum<EventKind>(get_string(line, "event"));
}

Event::Event(EventKind kind) {
  set("event", to_string(kind));
}

EventLog::EventLog(std::string path) : path_(std::move(path)) {
  append("");
}

void EventLog::write(const Event& event) {
  if (!path_.empty()) append(dump(event.fields()) + "\n");
}

void EventLog::append(const std::string& line) {
  make_parent_folder(path_);
  const Descriptor file = open_for_writing(path_, O_APPEND);
  if (!file.is_open()) throw_write_error(path_, errno);
  const off_t size = ::lseek(file.value(), 0, SEEK_END);
  // An unterminated last line, as after a crash during a write, must not be joined with this one.
  char last = '\n';
  const bool torn = size > 0 && read_at(file.value(), &last, 1, size - 1) == 1 && last != '\n';
  const int code = write_at(file.value(), (torn ? "\n" : "") + line, size);
  if (code == 0) return;
  // If truncation fails, readers of the log skip the partial line.
  std::ignore = ::ftruncate(file.value(), size);
  throw_write_error(path_, code);
}

FilterResult filter_event_log(const std::string& path, const std::function<bool(const Json& event)>& keep) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown) && !unknown) return {};
  refuse_pipe(path);
  AtomicOutputFile file(path);
  if (file.path() != path) throw InputError(format("{}: is a symbolic link; move it away", path));
  errno = 0;
  std::ifstream old(path, std::ios::binary);
  FilterResult cut;
  bool all_ended = true;
  for (std::string line; std::getline(old, line);) {
    all_ended = !old.eof();
    const Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object() || !event.contains("event") || !event["event"].is_string()) {
      ++cut.unreadable;
    } else if (!keep(event)) {
      ++cut.dropped;
    } else {
      file.write(line + '\n');
    }
  }
  if (!old.eof())
    throw CausedError(FailureCode::disk,
                      format("{}: cannot be read: {}; move it away to start a new log", path, why()));
  if (cut.dropped > 0 || cut.unreadable > 0 || !all_ended) file.commit();
  return cut;
}

}  // namespace vaecf::io
