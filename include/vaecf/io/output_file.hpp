#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::io {

/// InputError where `output`, which `name` names, is a folder or one of the files `read`, whose place it
/// would take.
void check_output(const std::string& output, const std::string& name, const std::vector<std::string>& read);

/// Where a path leads whose last part is a symbolic link: outputs replace the file there, and the link stays
/// what it is. RunError for links that lead nowhere but to each other.
std::string behind_links(const std::string& path);

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
