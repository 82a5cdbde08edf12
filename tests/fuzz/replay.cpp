// Main program of a fuzz target without libFuzzer: runs the inputs in the given folders and a fixed set of
// damaged ones. A failing target ends the process; the last line of output names the input.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

void run(const Bytes& bytes, const std::string& name) {
  std::printf("%s: %zu bytes\n", name.c_str(), bytes.size());
  std::fflush(stdout);
  // Exact capacity, so that sanitizers detect reads beyond the end.
  const Bytes exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

std::vector<std::filesystem::path> inputs_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// Damages `bytes`. Uses only std::mt19937, whose output does not depend on the platform.
void damage(Bytes& bytes, std::mt19937& random) {
  for (unsigned n = 1 + random() % 4; n > 0; --n) {
    const std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
    const auto position = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (bytes.empty() ? 0 : random() % 4) {
      case 0:
        bytes.insert(position, 1 + random() % 16, static_cast<std::uint8_t>(random()));
        break;
      case 1:
        bytes.erase(position, position + static_cast<std::ptrdiff_t>(
                                             std::min<std::size_t>(bytes.size() - at, 1 + random() % 16)));
        break;
      case 2:
        bytes[at] = static_cast<std::uint8_t>(random());
        break;
      default:
        bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ (1u << random() % 8));
    }
  }
}

}  // namespace

/// Arguments: number of damaged inputs, then folders of inputs.
int main(int argc, char** argv) {
  const int damaged = argc > 1 ? std::atoi(argv[1]) : -1;
  std::vector<Bytes> corpus;
  for (int i = 2; i < argc; ++i) {
    for (const auto& path : inputs_in(argv[i])) {
      std::ifstream file(path, std::ios::binary);
      corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
      run(corpus.back(), path.string());
    }
  }
  if (damaged < 0 || corpus.empty()) {
    std::fprintf(stderr, "nothing to replay; pass a count and folders that contain inputs\n");
    return 1;
  }
  run({}, "empty");
  for (int i = 0; i < damaged; ++i) {
    std::mt19937 random(static_cast<unsigned>(i));
    Bytes bytes = corpus[random() % corpus.size()];
    damage(bytes, random);
    run(bytes, "damaged " + std::to_string(i));
  }
  std::printf("replayed %zu inputs and %d damaged ones\n", corpus.size(), damaged);
}
