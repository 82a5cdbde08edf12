#include <vaecf/base/aligned_array.hpp>

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace vaecf {

constexpr std::size_t large_page = std::size_t{2} << 20;

static std::align_val_t alignment_of(std::size_t bytes) {
  return std::align_val_t{bytes < 2 * large_page ? 64 : large_page};
}

void* allocate_zeroed(std::size_t bytes) {
  void* memory = ::operator new(bytes, alignment_of(bytes));
#ifdef MADV_HUGEPAGE
  // Only a hint: if it is not granted, pages stay small. Must precede the first access to the memory.
  if (alignment_of(bytes) == std::align_val_t{large_page}) {
    (void)madvise(memory, bytes - bytes % large_page, MADV_HUGEPAGE);
  }
#endif
  std::memset(memory, 0, bytes);
  return memory;
}

void deallocate(void* memory, std::size_t bytes) {
  ::operator delete(memory, alignment_of(bytes));
}

}  // namespace vaecf
