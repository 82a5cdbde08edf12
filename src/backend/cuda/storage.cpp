#include <vaecf/backend/cuda/storage.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace vaecf::cuda {

void Generation::require_free(const char* what) const {
  if (recording) {
    throw std::logic_error(std::string(what) +
                           ": memory cannot grow while work is recorded; it must have run before");
  }
}

void* Scratch::bytes(Slot slot, std::int64_t bytes, const char* what) {
  DeviceArray<std::byte>& memory = memory_[slot];
  grow(gpu_, generation_, bytes, what, memory);
  return memory.data();
}

void Activations::set_rows(std::int64_t rows) {
  if (rows < 0 || rows > max_rows_) {
    throw std::logic_error("activations made for " + std::to_string(max_rows_) + " rows cannot hold " +
                           std::to_string(rows));
  }
  rows_ = rows;
}

void Batch::reserve(std::int64_t users, std::int64_t entries, std::int64_t item_count, bool with_transpose) {
  constexpr const char* what = "the batch";
  grow(gpu_, generation_, users, what, user_numbers);
  grow(gpu_, generation_, users + 1, what, offsets);
  grow(gpu_, generation_, entries, what, columns);
  if (!with_transpose) return;
  grow(gpu_, generation_, item_count + 1, what, item_begin);
  for (DeviceArray<std::uint32_t>* array : {&item_users, &keys, &sorted_keys, &entry_users}) {
    grow(gpu_, generation_, entries, what, *array);
  }
}

}  // namespace vaecf::cuda
