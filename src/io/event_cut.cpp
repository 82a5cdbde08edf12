#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/event_log.hpp>
#include <vaecf/io/output_file.hpp>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>

namespace vaecf::io {

struct EventView::Line {
  nlohmann::json fields;
};

std::string EventView::name() const {
  return line_->fields.at("event").get<std::string>();
}

std::optional<std::int64_t> EventView::integer(const std::string& key) const {
  const auto found = line_->fields.find(key);
  if (found == line_->fields.end() || !found->is_number_integer()) return std::nullopt;
  const auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (found->is_number_unsigned() && found->get<std::uint64_t>() > most) return std::nullopt;
  return found->get<std::int64_t>();
}

namespace {

bool is_event(const nlohmann::json& line) {
  if (!line.is_object()) return false;
  const auto name = line.find("event");
  return name != line.end() && name->is_string();
}

[[noreturn]] void throw_read_error(const std::string& path) {
  throw RunError(format("{}: cannot be read: {}; move it away to start a new log", path,
                        std::generic_category().message(errno == 0 ? EIO : errno)));
}

}  // namespace

CutEvents cut_events(const std::string& path, const std::function<bool(const EventView&)>& keep) {
  std::error_code missing;
  if (!std::filesystem::exists(path, missing) && !missing) return {};
  // A pipe would keep whoever opens it waiting.
  if (!missing && !std::filesystem::is_regular_file(path))
    throw InputError(format("{}: is not a regular file; move it away to start a new log", path));
  errno = 0;
  std::ifstream old(path, std::ios::binary);
  if (!old) throw_read_error(path);

  OutputFile file(path);
  CutEvents cut;
  std::string text;
  bool all_ended = true;
  EventView::Line line;
  while (std::getline(old, text)) {
    all_ended = !old.eof();
    line.fields = nlohmann::json::parse(text, nullptr, false);
    if (!is_event(line.fields)) {
      ++cut.unreadable;
    } else if (!keep(EventView(line))) {
      ++cut.dropped;
    } else {
      file.write(text + '\n');
    }
  }
  if (old.bad() || !old.eof()) throw_read_error(path);
  if (cut.dropped > 0 || cut.unreadable > 0 || !all_ended) file.commit();
  return cut;
}

}  // namespace vaecf::io
