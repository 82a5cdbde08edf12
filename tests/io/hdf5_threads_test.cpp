#include <vaecf/io/checkpoint.hpp>

#include <hdf5.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "io/io_fixture.hpp"

// HDF5 without thread safety must never be entered by two threads at once. The linker (--wrap) replaces calls
// of some functions by those below. While they are watched, each records whether another thread is inside,
// waits briefly, and calls the library.
namespace {

std::recursive_mutex inside;
std::atomic<bool> watched = false;
std::atomic<int> entries = 0;
std::atomic<int> overlaps = 0;
std::atomic<bool> without_deflate = false;

/// Marks the calling thread as inside the library during the lifetime of the result.
std::unique_lock<std::recursive_mutex> enter() {
  if (!watched) return {};
  ++entries;
  std::unique_lock entry(inside, std::try_to_lock);
  if (!entry) ++overlaps;
  std::this_thread::sleep_for(std::chrono::microseconds(20));
  return entry;
}

}  // namespace

#define WATCH(function, parameters, arguments)                               \
  decltype(function) __real_##function;                                      \
  auto __wrap_##function parameters->decltype(__real_##function arguments) { \
    const auto entry = enter();                                              \
    return __real_##function arguments;                                      \
  }

extern "C" {
WATCH(H5Fopen, (const char* name, unsigned flags, hid_t access), (name, flags, access))
WATCH(H5Gopen2, (hid_t place, const char* name, hid_t access), (place, name, access))
WATCH(H5Dread, (hid_t set, hid_t type, hid_t memory, hid_t file, hid_t transfer, void* out),
      (set, type, memory, file, transfer, out))
WATCH(H5Dwrite, (hid_t set, hid_t type, hid_t memory, hid_t file, hid_t transfer, const void* data),
      (set, type, memory, file, transfer, data))
WATCH(H5Idec_ref, (hid_t id), (id))
WATCH(H5Eset_auto2, (hid_t stack, H5E_auto2_t handler, void* data), (stack, handler, data))

decltype(H5Zfilter_avail) __real_H5Zfilter_avail;
htri_t __wrap_H5Zfilter_avail(H5Z_filter_t filter) {
  return without_deflate ? 0 : __real_H5Zfilter_avail(filter);
}
}
#undef WATCH

namespace vaecf::io {
namespace {

using Hdf5Library = IoTest;

TEST_F(Hdf5Library, IsEnteredByOneThreadAtATime) {
  write_small_dataset(file("data.h5"));
  const auto checkpoint = [&](const std::string& name) {
    const TensorSource tensor{
        "weights/encoder_1/weight", 30, 8, false,
        [](std::int64_t, std::int64_t, std::span<float> out) { std::ranges::fill(out, 1.0F); }};
    write_checkpoint(file(name), {{"step", std::int64_t{3}}, {"seed", 1.0}}, {&tensor, 1});
  };
  checkpoint("old.h5");
  const DatasetFile shared(file("data.h5"));
  // As in a run: a thread writes checkpoints, others read datasets and checkpoints, and one file is no
  // dataset.
  const std::vector<std::function<void(int)>> works{
      [&](int) { checkpoint("new.h5"); },
      [&](int i) { write_small_dataset(file("made" + std::to_string(i % 2) + ".h5")); },
      [&](int) {
        const DatasetFile data(file("data.h5"));
        EXPECT_EQ(data.read_ids("items/id").size(), 6);
        EXPECT_FALSE(data.fingerprint().empty());
      },
      [&](int) {
        EXPECT_EQ(shared.read_rows("train", {0, 4}).columns.size(), 10U);
      },
      [&](int) { EXPECT_TRUE(shared.has_ids("items/id")); },
      [&](int) {
        const CheckpointFile old(file("old.h5"));
        std::vector<float> values(240);
        old.read_rows("weights/encoder_1/weight", 0, 30, values);
        EXPECT_EQ(values.back(), 1.0F);
      },
      [&](int) { EXPECT_THROW(DatasetFile(file("old.h5")), InputError); },
  };
  watched = true;
  std::vector<std::thread> threads;
  for (const auto& work : works) {
    threads.emplace_back([&work] {
      for (int i = 0; i < 10; ++i) work(i);
    });
  }
  for (auto& thread : threads) thread.join();
  watched = false;
  EXPECT_EQ(overlaps, 0);
  EXPECT_GT(entries, 1000) << "the library is called without this test's functions";
}

TEST_F(Hdf5Library, WithoutDeflateIsNamed) {
  const auto fill = [](DatasetWriter& writer) { writer.append_row("train", Row{1, 2}); };
  write_dataset(file("packed.h5"), 3, fill, 1);
  write_small_dataset(file("plain.h5"));
  without_deflate = true;
  expect_refused<InputError>({"packed.h5: train/indptr is compressed", "HDF5 was built without zlib"},
                             [&] { DatasetFile packed(file("packed.h5")); });
  expect_refused<InputError>({"new.h5: this program's HDF5 was built without zlib", "compression to 0"},
                             [&] { DatasetWriter writer(file("new.h5"), 1); });
  EXPECT_EQ(DatasetFile(file("plain.h5")).compression(), 0);
  without_deflate = false;
  EXPECT_EQ(DatasetFile(file("packed.h5")).compression(), 1);
}

}  // namespace
}  // namespace vaecf::io
