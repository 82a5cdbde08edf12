#include "io/temporaries.hpp"

#include <vaecf/base/format.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/io/checkpoint_folder.hpp>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

namespace vaecf::io {
namespace {

constexpr std::string_view mark = ".tmp-";
constexpr std::chrono::hours surely_abandoned{1};

/// This host's name with nothing in it that a file's name could not hold.
std::string host_in_names() {
  std::string host = host_name();
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
  };
  std::ranges::replace_if(
      host, [&](char c) { return !plain(c); }, '_');
  return host;
}

struct Owner {
  std::string_view host;
  pid_t process = 0;
};

/// Who made a temporary file of this name; nothing for other names.
std::optional<Owner> owner_of(std::string_view name) {
  const auto begin = name.rfind(mark);
  if (begin == 0 || begin == std::string_view::npos) return std::nullopt;
  const std::string_view who = name.substr(begin + mark.size());
  const auto dash = who.rfind('-');
  if (dash == 0 || dash == std::string_view::npos) return std::nullopt;
  Owner owner;
  owner.host = who.substr(0, dash);
  const std::string_view digits = who.substr(dash + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), owner.process);
  if (error != std::errc{} || end != digits.data() + digits.size() || owner.process <= 0) return std::nullopt;
  return owner;
}

bool is_stale(const std::filesystem::path& file, const Owner& owner, const std::string& host) {
  if (owner.host == host) return ::kill(owner.process, 0) != 0 && errno == ESRCH;
  std::error_code error;
  const auto written = std::filesystem::last_write_time(file, error);
  return !error && std::filesystem::file_time_type::clock::now() - written > surely_abandoned;
}

}  // namespace

std::string temporary_name(const std::string& path) {
  return format("{}{}{}-{}", path, mark, host_in_names(), ::getpid());
}

void remove_stale_temporaries(const std::string& folder, std::string_view prefix) {
  const std::string host = host_in_names();
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  while (!error && entry != std::filesystem::directory_iterator()) {
    const std::filesystem::path path = entry->path();
    const std::string name = path.filename().string();
    const auto owner = name.starts_with(prefix) ? owner_of(name) : std::nullopt;
    std::error_code ignored;
    if (owner && std::filesystem::is_regular_file(std::filesystem::symlink_status(path, ignored)) &&
        is_stale(path, *owner, host)) {
      std::filesystem::remove(path, ignored);
    }
    entry.increment(error);
  }
}

}  // namespace vaecf::io
