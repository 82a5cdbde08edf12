#pragma once

#if VAECF_HAS_LIBARCHIVE
#include <archive.h>
#include <archive_entry.h>
#endif

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vaecf::testing {

/// Whether the program can read archives. Tests that need it begin with
/// `if (!has_libarchive) GTEST_SKIP() << without_libarchive;`.
inline constexpr bool has_libarchive = VAECF_HAS_LIBARCHIVE != 0;
inline constexpr const char* without_libarchive = "built without libarchive";

/// Names and contents of the members of an archive.
using Members = std::vector<std::pair<std::string, std::string>>;

#if VAECF_HAS_LIBARCHIVE
/// Returns an archive of `members`. `format`: tar, zip or raw (a single member, whose name is lost);
/// `filter`: none, gzip, bzip2, xz or zstd.
inline std::string packed(const Members& members, const std::string& format, const std::string& filter) {
  const std::unique_ptr<archive, int (*)(archive*)> writer(archive_write_new(), archive_write_free);
  const auto check = [&](la_ssize_t result) {
    if (result < ARCHIVE_OK) throw std::runtime_error(archive_error_string(writer.get()));
  };
  check(archive_write_set_format_by_name(writer.get(), format == "tar" ? "ustar" : format.c_str()));
  if (filter != "none") check(archive_write_add_filter_by_name(writer.get(), filter.c_str()));
  std::string bytes(std::size_t{16} << 20, '\0');
  std::size_t used = 0;
  check(archive_write_open_memory(writer.get(), bytes.data(), bytes.size(), &used));
  for (const auto& [name, text] : members) {
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                         archive_entry_free);
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(text.size()));
    archive_entry_set_filetype(entry.get(), name.ends_with('/') ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    check(archive_write_header(writer.get(), entry.get()));
    check(archive_write_data(writer.get(), text.data(), text.size()));
  }
  check(archive_write_close(writer.get()));
  bytes.resize(used);
  return bytes;
}
#else
inline std::string packed(const Members&, const std::string&, const std::string&) {
  throw std::logic_error(without_libarchive);
}
#endif

}  // namespace vaecf::testing
