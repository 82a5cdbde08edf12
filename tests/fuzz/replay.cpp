// Main program of a fuzz target without libFuzzer: runs the inputs in the given folders and a fixed set of
// damaged ones. A failing target ends the process; the last line of output names the input.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
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

/// Arguments: number of damaged inputs, and a folder of inputs.
int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int damaged = std::atoi(argv[1]);
  std::map<std::string, Bytes> corpus;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) {
    std::ifstream file(entry.path(), std::ios::binary);
    corpus[entry.path().string()].assign(std::istreambuf_iterator<char>(file), {});
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "nothing to replay\n");
    return 1;
  }
  for (const auto& [name, bytes] : corpus) run(bytes, name);
  run({}, "empty");
  for (int i = 0; i < damaged; ++i) {
    std::mt19937 random(static_cast<unsigned>(i));
    Bytes bytes = std::next(corpus.begin(), static_cast<std::ptrdiff_t>(random() % corpus.size()))->second;
    damage(bytes, random);
    run(bytes, "damaged " + std::to_string(i));
  }
  std::printf("replayed %zu inputs and %d damaged ones\n", corpus.size(), damaged);
}
