// What a fuzz target does where there is no libFuzzer: replays the inputs in the folders it is given, and a
// fixed choice of damaged ones. What breaks a target ends the process; the last line says with which input.
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
  // Just as large as it is: a sanitizer sees a read beyond its end.
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

/// Of the standard's generator only, whose numbers are the same everywhere.
void damage(Bytes& bytes, std::mt19937& random) {
  for (unsigned n = 1 + random() % 4; n > 0; --n) {
    const std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (bytes.empty() ? 0 : random() % 4) {
      case 0:
        bytes.insert(place, 1 + random() % 16, static_cast<std::uint8_t>(random()));
        break;
      case 1:
        bytes.erase(place, place + static_cast<std::ptrdiff_t>(
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

/// Arguments: how many damaged inputs, then folders of inputs.
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
    std::fprintf(stderr, "nothing to replay: name a number and folders that hold inputs\n");
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
