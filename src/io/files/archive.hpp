#pragma once

// libarchive behind one class. Only src/io includes this.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct archive;
struct archive_entry;

namespace vaecf::io {

/// Whether the first bytes of a file are those of something compressed or of an archive, or its name says tar
/// (old ones have no mark).
bool is_packed(std::span<const char> first_bytes, const std::string& name);

/// Whether a name is that of an archive, or of one compressed file; `bare` is then the name without that.
bool names_archive(const std::string& name);
bool names_compressed(const std::string& name, std::string& bare);

/// An archive, or one compressed file, opened for reading. InputError (with its name) where it is damaged.
class Archive {
 public:
  explicit Archive(const std::string& path);
  /// The current file of `outer`, which is an archive itself and must outlive this one.
  Archive(Archive& outer, const std::string& name);
  ~Archive();
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  /// Moves on to the next regular file.
  bool next();
  const std::string& name() const { return name_; }
  /// The current file's path within the archive; empty where this is one compressed file.
  const std::string& member() const { return member_; }
  std::size_t read(std::span<char> to);
  /// Bytes of the packed file that were used.
  std::int64_t bytes_read() const;

 private:
  struct Close {
    void operator()(archive* opened) const;
  };
  static std::ptrdiff_t read_outer(archive* opened, void* self, const void** bytes);
  void prepare();
  /// Throws for results below `lowest`.
  void check(std::ptrdiff_t result, int lowest = 0);

  std::string name_;
  std::string member_;
  Archive* outer_ = nullptr;
  std::vector<char> piece_;  // of the outer archive's file
  std::string outer_error_;
  std::unique_ptr<archive, Close> archive_;
};

}  // namespace vaecf::io
