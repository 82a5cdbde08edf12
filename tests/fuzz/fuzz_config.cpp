// Any text as a configuration: read, or refused with a message; what is read survives dump and parse.
#include "fuzz/support.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/config/config.hpp>

using namespace vaecf;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const config::Config read = config::parse(text, "fuzz.yaml");
    const std::string dumped = config::dump(read);
    fuzz::require(config::dump(config::parse(dumped, "dump.yaml")) == dumped, "a dump reads back as itself");
  } catch (const InputError& error) {
    fuzz::require_message(error);
  }
  return 0;
}
