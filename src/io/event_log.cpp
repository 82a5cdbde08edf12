#include <vaecf/io/event_log.hpp>

#include "io/file_system.hpp"
#include "io/nlohmann_json.hpp"

#include <vaecf/io/descriptor.hpp>

#include <fcntl.h>

#include <cerrno>
#include <tuple>
#include <type_traits>
#include <utility>

namespace vaecf::io {

std::string to_json(const Event& event) {
  nlohmann::ordered_json line;
  for (const auto& field : event.fields()) {
    std::visit(
        [&](const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, Json>) {
            line[field.first] = to_nlohmann(value);
          } else {
            line[field.first] = value;
          }
        },
        field.second);
  }
  // Bytes that are no UTF-8 (a path, say) become U+FFFD rather than an end of the run.
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

EventLog::EventLog(std::string path) : path_(std::move(path)) {
  append("");
}

void EventLog::write(const Event& event) {
  if (!path_.empty()) append(to_json(event) + "\n");
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

}  // namespace vaecf::io
