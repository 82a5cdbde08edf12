// Fuzzes the configuration parser. Text must be read or rejected with a message. Dump and parse must
// reproduce what was read.
#include <vaecf/config/config.hpp>

#include "fuzz/support.hpp"

using namespace vaecf;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::refused([&] {
    const std::string dumped = config::dump(config::parse(text, "fuzz.yaml"));
    fuzz::require(config::dump(config::parse(dumped, "dump.yaml")) == dumped, "a dump reads back as itself");
  });
  return 0;
}
