#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include "app/commands.hpp"
#include "app/inspect/describe.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace vaecf::app {
namespace {

bool is_run(const std::string& path) {
  const std::filesystem::path subject(path);
  return subject.extension() == ".jsonl" || std::filesystem::exists(subject / "metrics.jsonl");
}

enum class Kind { dataset, checkpoint };

/// By where the HDF5 signature stands: at 0 in a dataset, behind the 512-byte user block in a checkpoint.
Kind kind_of(const std::string& path) {
  constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
  if (std::filesystem::is_directory(path))
    throw InputError(
        format("{} is a folder without metrics.jsonl: give an HDF5 file or the folder of a run", path));
  std::error_code missing;
  if (std::filesystem::exists(path, missing) && !std::filesystem::is_regular_file(path))
    throw InputError(format("{}: is not a regular file: give an HDF5 file or the folder of a run", path));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(format("cannot read {}: {}", path, std::strerror(errno)));
  std::array<char, 512 + signature.size()> head{};
  file.read(head.data(), head.size());
  const std::string_view seen(head.data(), static_cast<std::size_t>(file.gcount()));
  if (seen.starts_with(signature)) return Kind::dataset;
  if (seen.size() == head.size() && seen.ends_with(signature)) return Kind::checkpoint;
  throw InputError(
      format("{} is neither a dataset nor a checkpoint: it is not an HDF5 file, or it is damaged", path));
}

}  // namespace

void run_inspect(const CommandLine& line) {
  if (is_run(line.subject)) return print(describe_run(line.subject, line.metric));
  if (!line.metric.empty()) {
    throw InputError(
        format("--metric is for a run: {} is no folder of one and no .jsonl file", line.subject));
  }
  const bool dataset = kind_of(line.subject) == Kind::dataset;
  print(dataset ? describe_dataset(line.subject)
                : describe_checkpoint(line.subject, line.verbosity == Verbosity::verbose));
}

}  // namespace vaecf::app
