#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/output_file.hpp>

#include <filesystem>
#include <system_error>

#include "io/staged_file.hpp"

namespace vaecf::io {
namespace {

constexpr std::size_t buffered_bytes = std::size_t{1} << 20;

}  // namespace

void check_output(const std::string& output, const std::string& name, const std::vector<std::string>& read) {
  std::error_code unknown;
  if (output.ends_with('/') || std::filesystem::is_directory(output, unknown))
    throw InputError(format("{} is {}, a folder; name a file", name, output));
  for (const std::string& path : read) {
    std::error_code ignored;
    if (!std::filesystem::equivalent(output, path, ignored)) continue;
    throw InputError(
        format("{} is {}, which is read, and would be replaced; name another file", name, output));
  }
}

struct OutputFile::File {
  explicit File(const std::string& path) : staged(path) {}

  void flush() {
    write_bytes(staged.descriptor(), buffer, staged.path());
    buffer.clear();
  }

  StagedFile staged;
  std::string buffer;
  std::int64_t size = 0;
};

OutputFile::OutputFile(const std::string& path) : file_(std::make_unique<File>(path)) {}
OutputFile::~OutputFile() = default;
OutputFile::OutputFile(OutputFile&&) noexcept = default;
OutputFile& OutputFile::operator=(OutputFile&&) noexcept = default;

void OutputFile::write(std::string_view bytes) {
  file_->size += static_cast<std::int64_t>(bytes.size());
  file_->buffer += bytes;
  if (file_->buffer.size() >= buffered_bytes) file_->flush();
}

std::int64_t OutputFile::size() const {
  return file_->size;
}

void OutputFile::commit() {
  file_->flush();
  file_->staged.publish();
}

}  // namespace vaecf::io
