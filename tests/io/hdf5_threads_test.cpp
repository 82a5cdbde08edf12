#include <vaecf/base/error.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>

#include "support/temporary_folder.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

// HDF5 without thread safety must never be entered by two threads at once. The functions below take the place
// of HDF5's own in this program: each notes if another thread is inside, waits a moment, and calls the
// library.
namespace {

std::atomic<std::thread::id> inside{};
std::atomic<int> calls = 0;
std::atomic<int> overlaps = 0;

/// Marks the calling thread as inside the library.
class Entry {
 public:
  Entry() {
    const std::thread::id self = std::this_thread::get_id();
    const std::thread::id other = inside.exchange(self);
    first_ = other == std::thread::id{};
    if (!first_ && other != self) ++overlaps;
    ++calls;
    if (first_) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  ~Entry() {
    if (first_) inside = std::thread::id{};
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  bool first_ = false;
};

template <class Function, class... Arguments>
auto enter(const char* name, Arguments... arguments) {
  const Entry entry;
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name))(arguments...);
}

}  // namespace

extern "C" {
hid_t H5Fopen(const char* name, unsigned flags, hid_t access) {
  return enter<decltype(&H5Fopen)>("H5Fopen", name, flags, access);
}
hid_t H5Fcreate(const char* name, unsigned flags, hid_t creation, hid_t access) {
  return enter<decltype(&H5Fcreate)>("H5Fcreate", name, flags, creation, access);
}
herr_t H5Fflush(hid_t object, H5F_scope_t scope) {
  return enter<decltype(&H5Fflush)>("H5Fflush", object, scope);
}
htri_t H5Fis_hdf5(const char* name) {
  return enter<decltype(&H5Fis_hdf5)>("H5Fis_hdf5", name);
}
hid_t H5Gopen2(hid_t place, const char* name, hid_t access) {
  return enter<decltype(&H5Gopen2)>("H5Gopen2", place, name, access);
}
htri_t H5Lexists(hid_t place, const char* name, hid_t access) {
  return enter<decltype(&H5Lexists)>("H5Lexists", place, name, access);
}
hid_t H5Dopen2(hid_t place, const char* name, hid_t access) {
  return enter<decltype(&H5Dopen2)>("H5Dopen2", place, name, access);
}
hid_t H5Dcreate2(hid_t place, const char* name, hid_t type, hid_t space, hid_t links, hid_t creation,
                 hid_t access) {
  return enter<decltype(&H5Dcreate2)>("H5Dcreate2", place, name, type, space, links, creation, access);
}
herr_t H5Dread(hid_t dataset, hid_t type, hid_t memory, hid_t file, hid_t transfer, void* out) {
  return enter<decltype(&H5Dread)>("H5Dread", dataset, type, memory, file, transfer, out);
}
herr_t H5Dwrite(hid_t dataset, hid_t type, hid_t memory, hid_t file, hid_t transfer, const void* data) {
  return enter<decltype(&H5Dwrite)>("H5Dwrite", dataset, type, memory, file, transfer, data);
}
herr_t H5Aread(hid_t attribute, hid_t type, void* out) {
  return enter<decltype(&H5Aread)>("H5Aread", attribute, type, out);
}
herr_t H5Awrite(hid_t attribute, hid_t type, const void* data) {
  return enter<decltype(&H5Awrite)>("H5Awrite", attribute, type, data);
}
hid_t H5Dget_create_plist(hid_t dataset) {
  return enter<decltype(&H5Dget_create_plist)>("H5Dget_create_plist", dataset);
}
hid_t H5Pcreate(hid_t type) {
  return enter<decltype(&H5Pcreate)>("H5Pcreate", type);
}
int H5Idec_ref(hid_t id) {
  return enter<decltype(&H5Idec_ref)>("H5Idec_ref", id);
}
herr_t H5Eset_auto2(hid_t stack, H5E_auto2_t function, void* data) {
  return enter<decltype(&H5Eset_auto2)>("H5Eset_auto2", stack, function, data);
}
}

namespace vaecf::io {
namespace {

void write_a_dataset(const std::string& path) {
  DatasetWriter writer(path);
  writer.set_attribute("items", std::int64_t{50});
  const std::vector<std::int32_t> row{1, 7, 30};
  for (int user = 0; user < 20; ++user) writer.append_row("train", row);
  writer.write_ids("items/id", {std::vector<std::int64_t>(50, 4), {}});
  writer.commit();
}

TEST(Hdf5Threads, NeverTwoInTheLibrary) {
  const testing::TemporaryFolder folder;
  const auto path = [&](const std::string& name) { return (folder.path() / name).string(); };
  write_a_dataset(path("data.h5"));
  const auto checkpoint = [&](const std::string& name) {
    const TensorSource tensor{
        "weights/encoder_1/weight", 30, 8, false,
        [](std::int64_t, std::int64_t, std::span<float> out) { std::ranges::fill(out, 1.0F); }};
    write_checkpoint(path(name), {{"step", std::int64_t{3}}, {"seed", 1.0}}, {&tensor, 1});
  };
  checkpoint("old.h5");
  const DatasetFile shared(path("data.h5"));
  // As in a run: one thread writes checkpoints, ranks or threads read data sets and checkpoints, and a file
  // is damaged.
  const std::vector<std::function<void(int)>> works{
      [&](int) { checkpoint("new.h5"); },
      [&](int i) { write_a_dataset(path("made" + std::to_string(i % 2) + ".h5")); },
      [&](int) {
        const DatasetFile file(path("data.h5"));
        EXPECT_EQ(file.read_ids("items/id").size(), 50);
        EXPECT_FALSE(file.fingerprint().empty());
        EXPECT_EQ(file.compression(), 0);
      },
      [&](int) {
        EXPECT_EQ(shared.read_rows("train", {0, 20}).columns.size(), 60U);
      },
      [&](int) { EXPECT_TRUE(shared.has_ids("items/id")); },
      [&](int) {
        const CheckpointFile file(path("old.h5"));
        std::vector<float> values(240);
        file.read_rows("weights/encoder_1/weight", 0, 30, values);
        EXPECT_EQ(values.back(), 1.0F);
      },
      [&](int) { EXPECT_THROW(DatasetFile(path("old.h5")), InputError); },
  };
  calls = 0;
  std::vector<std::thread> threads;
  for (const auto& work : works) {
    threads.emplace_back([&work] {
      for (int i = 0; i < 10; ++i) work(i);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(overlaps, 0);
  EXPECT_GT(calls, 1000) << "the library is called past this test";
}

}  // namespace
}  // namespace vaecf::io
