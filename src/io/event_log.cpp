#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/event_log.hpp>
#include <vaecf/io/output_file.hpp>

#include "io/file_system.hpp"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <tuple>

namespace vaecf::io {
namespace {

[[noreturn]] void throw_read_error(const std::string& path) {
  throw RunError(format("{}: cannot be read: {}; move it away to start a new log", path,
                        std::generic_category().message(errno == 0 ? EIO : errno)));
}

}  // namespace

EventLog::EventLog(std::string path) : path_(std::move(path)) {
  append("");
}

void EventLog::write(const Event& event) {
  if (!path_.empty()) append(to_text(event.fields()) + "\n");
}

void EventLog::append(const std::string& line) {
  make_parent_folder(path_);
  const Descriptor file(::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (!file.is_open()) throw_write_error(path_, errno);
  const off_t size = ::lseek(file.value(), 0, SEEK_END);
  // A last line without its end, as after a crash in the middle of a write, is to stay alone.
  char last = '\n';
  const bool torn = size > 0 && read_at(file.value(), &last, 1, size - 1) == 1 && last != '\n';
  const int code = write_at(file.value(), (torn ? "\n" : "") + line, size);
  if (code == 0) return;
  // Where a torn line cannot be cut off, readers of the log pass over it.
  std::ignore = ::ftruncate(file.value(), size);
  throw_write_error(path_, code);
}

CutEvents cut_events(const std::string& path, const std::function<bool(const Json& event)>& keep) {
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
  if (old.bad() || !old.eof()) throw_read_error(path);
  if (cut.dropped > 0 || cut.unreadable > 0 || !all_ended) file.commit();
  return cut;
}

}  // namespace vaecf::io
