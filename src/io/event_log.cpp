#include <vaecf/io/event_log.hpp>

#include "io/nlohmann_json.hpp"
#include "io/staged_file.hpp"

#include <vaecf/base/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
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

struct EventLog::File {
  explicit File(std::string name) : path(std::move(name)) {}
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void open() {
    make_parent_folder(path);
    descriptor = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) throw_write_error(path, errno);
    // A last line without its end, as after a crash in the middle of a write, is to stay alone.
    const off_t size = ::lseek(descriptor, 0, SEEK_END);
    char last = '\n';
    if (size > 0 && ::pread(descriptor, &last, 1, size - 1) == 1 && last != '\n') append("\n");
  }
  void close() {
    if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
  }
  /// Whether somebody has removed the file: what is written to it would be lost.
  bool vanished() const {
    struct stat status {};
    return descriptor < 0 || (::fstat(descriptor, &status) == 0 && status.st_nlink == 0);
  }
  /// All of `bytes` or nothing.
  void append(std::string_view bytes) {
    const off_t before = ::lseek(descriptor, 0, SEEK_END);
    try {
      write_bytes(descriptor, bytes, path);
    } catch (const RunError&) {
      if (before >= 0 && ::ftruncate(descriptor, before) != 0) {
        // The torn line stays, and whoever reads the log passes over it.
      }
      throw;
    }
  }

  std::string path;
  int descriptor = -1;
};

EventLog::EventLog() = default;
EventLog::EventLog(const std::string& path) : file_(std::make_unique<File>(path)) {
  file_->open();
}
EventLog::~EventLog() = default;
EventLog::EventLog(EventLog&&) noexcept = default;
EventLog& EventLog::operator=(EventLog&&) noexcept = default;

void EventLog::write(const Event& event) {
  if (!file_) return;
  if (file_->vanished()) {
    file_->close();
    file_->open();
  }
  file_->append(to_json(event) + "\n");
}

}  // namespace vaecf::io
