#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace vaecf::io {

/// A file written from front to back in bounded memory, which has its name once it is whole: destroyed before
/// commit() it leaves nothing. Makes the folder where need be. RunError where the disk is full or not
/// writable.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;

  void write(std::string_view bytes);
  /// Bytes written so far.
  std::int64_t size() const;
  /// Nothing may be written afterwards.
  void commit();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace vaecf::io
