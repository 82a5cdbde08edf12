#include <sys/random.h>

/// Returns 32 random bits, as glibc does since 2.36, to std::random_device of a libstdc++ that is linked
/// statically.
extern "C" unsigned arc4random() noexcept {
  unsigned value = 0;
  while (::getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}
