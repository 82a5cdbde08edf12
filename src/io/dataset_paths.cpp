#include <vaecf/io/dataset_paths.hpp>

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace vaecf::io {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_files = 500;  // all are open while they are written
constexpr std::string_view five_digits = "[0-9][0-9][0-9][0-9][0-9]";

bool is_pattern(const std::string& path) {
  return path.find_first_of("*?[{") != std::string::npos;
}

std::vector<std::string> matching(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found{};
  if (::glob(pattern.c_str(), GLOB_BRACE | GLOB_NOSORT | GLOB_TILDE, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  std::sort(paths.begin(), paths.end());
  return paths;
}

// What means something to glob, taken as it is.
std::string escaped(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("*?[]{}\\~").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

struct Name {
  std::string stem;  // with the folder: "data/ml20m"
  std::string ending;
};

Name name_of(const std::string& path) {
  std::string stem = path;
  const std::string ending = fs::path(path).extension().string();
  stem.resize(stem.size() - ending.size());
  for (const std::string_view numbers : {"-*-of-*", "-*"}) {
    if (!stem.ends_with(numbers)) continue;
    stem.resize(stem.size() - numbers.size());
    break;
  }
  if (is_pattern(stem) || is_pattern(ending)) {
    throw InputError(
        format("{}: a dataset is to be written, and this pattern does not tell how its files are called: "
               "let it be like data/NAME-*-of-*.h5",
               path));
  }
  return {stem, ending};
}

std::vector<std::string> numbered_files(const Name& name) {
  return matching(
      format("{}-{}-of-{}{}", escaped(name.stem), five_digits, five_digits, escaped(name.ending)));
}

}  // namespace

std::vector<std::string> dataset_paths(const std::string& path) {
  std::error_code error;
  if (path.empty() || fs::exists(path, error)) return {path};
  auto paths = is_pattern(path) ? matching(path) : numbered_files(name_of(path));
  if (paths.empty()) return {path};
  return paths;
}

std::vector<std::string> new_dataset_paths(const std::string& path, std::int64_t files) {
  if (files < 1 || files > most_files) {
    throw InputError(
        format("{}: {} files cannot be made: give a number from 1 to {}", path, files, most_files));
  }
  if (files == 1 && !is_pattern(path)) return {path};
  const Name name = name_of(path);
  std::vector<std::string> paths;
  for (std::int64_t file = 0; file < files; ++file) {
    paths.push_back(format("{}-{:05}-of-{:05}{}", name.stem, file, files, name.ending));
  }
  return paths;
}

std::vector<std::string> replaced_dataset_paths(const std::string& path,
                                                const std::vector<std::string>& new_paths) {
  if (new_paths.size() == 1 && new_paths.front() == path) return {};  // read before any others
  std::vector<std::string> replaced = numbered_files(name_of(path));
  std::error_code error;
  if (!is_pattern(path) && fs::exists(path, error)) replaced.push_back(path);
  std::erase_if(replaced, [&](const std::string& each) {
    return std::find(new_paths.begin(), new_paths.end(), each) != new_paths.end() ||
           !fs::is_regular_file(each);
  });
  return replaced;
}

}  // namespace vaecf::io
