#include <vaecf/io/event_log.hpp>

#include "io/staged_file.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>

namespace vaecf::io {
namespace {

/// Whether the last line of an existing file lacks its end, as after a crash in the middle of a write.
bool ends_torn(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return false;
  const bool torn = std::fseek(file, -1, SEEK_END) == 0 && std::fgetc(file) != '\n';
  std::fclose(file);
  return torn;
}

}  // namespace

std::string to_json(const Event& event) {
  nlohmann::ordered_json line;
  for (const auto& field : event.fields()) {
    std::visit([&](const auto& value) { line[field.first] = value; }, field.second);
  }
  // Bytes that are no UTF-8 (a path, say) become U+FFFD rather than an end of the run.
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

struct EventLog::File {
  explicit File(const std::string& name) : path(name) {
    make_parent_folder(path);
    const bool torn = ends_torn(path);
    stream = std::fopen(path.c_str(), "abe");
    if (stream == nullptr) throw_write_error(path, errno);
    if (torn) std::fputc('\n', stream);
  }
  ~File() {
    if (stream != nullptr) std::fclose(stream);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::string path;
  std::FILE* stream = nullptr;
};

EventLog::EventLog() = default;
EventLog::EventLog(const std::string& path) : file_(std::make_unique<File>(path)) {}
EventLog::~EventLog() = default;
EventLog::EventLog(EventLog&&) noexcept = default;
EventLog& EventLog::operator=(EventLog&&) noexcept = default;

void EventLog::write(const Event& event) {
  if (!file_) return;
  const std::string line = to_json(event) + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file_->stream) != line.size() ||
      std::fflush(file_->stream) != 0) {
    throw_write_error(file_->path, errno);
  }
}

}  // namespace vaecf::io
