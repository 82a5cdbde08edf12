#include <vaecf/base/error.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <thread>

#include "io/files/file_system.hpp"
#include "io/io_fixture.hpp"
#include "support/sealed_checkpoint.hpp"

namespace vaecf::io {
namespace {

using Checkpoint = IoTest;

TensorSource counting(std::string name, std::int64_t rows, std::int64_t columns, bool vector = false) {
  return {std::move(name), rows, columns, vector,
          [columns](std::int64_t begin, std::int64_t end, std::span<float> out) {
            ASSERT_EQ(static_cast<std::int64_t>(out.size()), (end - begin) * columns);
            ASSERT_LE(out.size_bytes(), std::size_t{16} << 20);
            for (std::size_t i = 0; i < out.size(); ++i) {
              out[i] = static_cast<float>(begin * columns + static_cast<std::int64_t>(i));
            }
          }};
}

void write_small_checkpoint(const std::string& path, std::int64_t step = 42) {
  const std::vector<TensorSource> tensors = {counting("weights/encoder_1/weight", 7, 3),
                                             counting("weights/encoder_1/bias", 1, 3, true),
                                             counting("optimizer/first_moment/encoder_1/weight", 7, 3)};
  write_checkpoint(path, {{"step", step}, {"best", 0.1}, {"config", std::string("name: x\n")}}, tensors);
}

TEST_F(Checkpoint, ReadsWhatWasWritten) {
  write_small_checkpoint(file("c.h5"));
  EXPECT_EQ(names(), std::vector<std::string>{"c.h5"});
  EXPECT_TRUE(is_checkpoint(file("c.h5")));
  const CheckpointFile checkpoint(file("c.h5"));
  EXPECT_EQ(checkpoint.attribute<std::int64_t>("step"), 42);
  EXPECT_EQ(checkpoint.attribute<double>("best"), 0.1);
  EXPECT_EQ(checkpoint.attribute<std::string>("config"), "name: x\n");
  EXPECT_THROW(checkpoint.attribute<std::int64_t>("best"), InputError);
  EXPECT_THROW(checkpoint.attribute<double>("worst"), InputError);

  ASSERT_EQ(checkpoint.tensors().size(), 3u);
  std::vector<float> rows(6);
  checkpoint.read_rows("weights/encoder_1/weight", 2, 4, rows);
  EXPECT_EQ(rows, (std::vector<float>{6, 7, 8, 9, 10, 11}));
  std::vector<float> bias(3);
  checkpoint.read_rows("weights/encoder_1/bias", 0, 1, bias);
  EXPECT_EQ(bias, (std::vector<float>{0, 1, 2}));
  EXPECT_THROW(checkpoint.read_rows("weights/encoder_1/weight", 6, 8, rows), InputError);
  EXPECT_THROW(checkpoint.read_rows("weights/encoder_1/weight", 0, 1, rows), InputError);
  EXPECT_THROW(checkpoint.read_rows("weights/encoder_9/weight", 0, 1, bias), InputError);
}

TEST_F(Checkpoint, ArraysAreReadBack) {
  const std::vector<std::int64_t> offsets = {0, std::int64_t{1} << 40};
  const std::vector<std::int32_t> columns = {2, 0, 1};
  const std::vector<double> diagonal = {0.1, -1e300};
  const std::vector<float> none;
  const std::vector<ArraySource> arrays = {{"weights/items/indptr", offsets},
                                           {"weights/items/indices", columns},
                                           {"weights/items/diagonal", diagonal},
                                           {"weights/items/data", none}};
  write_checkpoint(file("c.h5"), {}, {}, arrays);
  const CheckpointFile checkpoint(file("c.h5"));
  ASSERT_EQ(checkpoint.tensors().size(), 4u);
  EXPECT_EQ(checkpoint.tensors()[0].name, "weights/items/data");
  EXPECT_EQ(checkpoint.tensors()[1].columns, 2);
  EXPECT_EQ(checkpoint.read_array<std::int64_t>("weights/items/indptr"), offsets);
  EXPECT_EQ(checkpoint.read_array<std::int32_t>("weights/items/indices"), columns);
  EXPECT_EQ(checkpoint.read_array<double>("weights/items/diagonal"), diagonal);
  EXPECT_TRUE(checkpoint.read_array<float>("weights/items/data").empty());

  std::vector<float> row(3);
  expect_refused<InputError>({"weights/items/indices does not contain floating-point values"},
                             [&] { checkpoint.read_rows("weights/items/indices", 0, 1, row); });
  expect_refused<InputError>({"weights/items/diagonal is not an array of integers"},
                             [&] { checkpoint.read_array<std::int64_t>("weights/items/diagonal"); });
  expect_refused<InputError>({"has no tensor weights/items/weight"},
                             [&] { checkpoint.read_array<float>("weights/items/weight"); });
}

TEST_F(Checkpoint, SummaryOfTheDatasetIsReadBack) {
  DatasetSummary summary{
      {{}, {"b", "", "\xff"}}, {{}, {"", "B", "A"}}, {7, 0, 2}, {1, 0x80000000U, 0xffffffffU}};
  const auto write = [&](std::int64_t items) {
    write_checkpoint(file("c.h5"), {{"items", items}}, {}, {}, &summary);
    return CheckpointFile(file("c.h5"));
  };
  const CheckpointFile checkpoint = write(3);
  EXPECT_TRUE(checkpoint.tensors().empty());
  const DatasetSummary read = checkpoint.dataset();
  EXPECT_EQ(read.item_ids.strings, summary.item_ids.strings);
  EXPECT_EQ(read.item_titles.strings, summary.item_titles.strings);
  EXPECT_EQ(read.item_users, summary.item_users);
  EXPECT_EQ(read.user_hashes, summary.user_hashes);
  expect_refused<InputError>({"items/id has 3 elements, but the model has 4 items"},
                             [&] { write(4).dataset(); });
  summary.item_titles.strings.pop_back();
  expect_refused<InputError>({"items/title has 2 elements"}, [&] { write(3).dataset(); });
  summary.item_titles = {};
  summary.item_users.push_back(1);
  expect_refused<InputError>({"items/users has 4 elements"}, [&] { write(3).dataset(); });
  summary = {{{7, -3}, {}}, {}, {1, 1}, {}};
  EXPECT_EQ(write(2).dataset().item_ids.numbers, summary.item_ids.numbers);
  EXPECT_EQ(write(2).dataset().item_titles.size(), 0);
  write_checkpoint(file("c.h5"), {{"items", std::int64_t{2}}}, {});
  expect_refused<InputError>({"items/id is missing"}, [&] { CheckpointFile(file("c.h5")).dataset(); });
}

TEST_F(Checkpoint, EqualContentGivesIdenticalBytes) {
  write_small_checkpoint(file("a.h5"));
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // resolution of HDF5 times: 1 s
  write_small_checkpoint(file("b.h5"));
  EXPECT_EQ(bytes_of(file("a.h5")), bytes_of(file("b.h5")));
}

TEST_F(Checkpoint, AttributesMayBeLongStringsNonFiniteValuesAndLists) {
  const std::string text(200000, 'y');
  const std::vector<double> sums = {0.1, -1e300, std::numeric_limits<double>::infinity()};
  write_checkpoint(file("c.h5"),
                   {{"config", text},
                    {"none", std::string()},
                    {"loss", std::numeric_limits<double>::quiet_NaN()},
                    {"seed", std::numeric_limits<std::int64_t>::min()},
                    {"sums", sums},
                    {"one", std::vector{1.5}},
                    {"no_sums", std::vector<double>()}},
                   {});
  const CheckpointFile checkpoint(file("c.h5"));
  EXPECT_EQ(checkpoint.attribute<std::string>("config"), text);
  EXPECT_EQ(checkpoint.attribute<std::string>("none"), "");
  EXPECT_TRUE(std::isnan(checkpoint.attribute<double>("loss")));
  EXPECT_EQ(checkpoint.attribute<std::int64_t>("seed"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(checkpoint.attribute<std::vector<double>>("sums"), sums);
  EXPECT_EQ(checkpoint.attribute<std::vector<double>>("one"), std::vector{1.5});
  EXPECT_TRUE(checkpoint.attribute<std::vector<double>>("no_sums").empty());
  expect_refused<InputError>({"is not a floating"}, [&] { checkpoint.attribute<double>("one"); });
}

TEST_F(Checkpoint, LargeTensorsAreWrittenInBlocks) {
  write_checkpoint(file("c.h5"), {},
                   std::vector{counting("weights/w", 2100, 3000), counting("weights/none", 0, 5)});  // 25 MB
  const CheckpointFile checkpoint(file("c.h5"));
  std::vector<float> row(3000);
  checkpoint.read_rows("weights/w", 1999, 2000, row);
  EXPECT_EQ(row[0], 1999.0f * 3000.0f);
  EXPECT_EQ(row[2999], 1999.0f * 3000.0f + 2999.0f);
}

TEST_F(Checkpoint, AnyFlippedBitIsDetectedBeforeHdf5ReadsTheFile) {
  write_small_checkpoint(file("c.h5"));
  const std::string bytes = bytes_of(file("c.h5"));
  ASSERT_GT(bytes.size(), 2000u);
  std::vector<std::size_t> bits(600 * 8);  // all of the user block and the HDF5 superblock
  std::iota(bits.begin(), bits.end(), 0);
  std::mt19937 random(7);
  for (int i = 0; i < 4000; ++i) bits.push_back(600 * 8 + random() % ((bytes.size() - 600) * 8));
  std::fstream stream(file("c.h5"), std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](std::size_t at, char byte) {
    stream.seekp(static_cast<std::streamoff>(at)).put(byte).flush();
    ASSERT_TRUE(stream.good());
  };
  for (const std::size_t bit : bits) {
    const std::size_t at = bit / 8;
    put(at, static_cast<char>(bytes[at] ^ (1u << bit % 8)));
    std::string message;
    try {
      CheckpointFile whole(file("c.h5"));
    } catch (const InputError& error) {
      message = error.what();
    }
    EXPECT_TRUE(message.starts_with(file("c.h5") + ": ")) << "bit " << bit << ": " << message;
    EXPECT_EQ(message.find("HDF5"), std::string::npos) << "bit " << bit << ": " << message;
    put(at, bytes[at]);
  }
  EXPECT_EQ(bytes_of(file("c.h5")), bytes);
  EXPECT_NO_THROW(CheckpointFile(file("c.h5")));
}

TEST_F(Checkpoint, TruncationAndExtensionAreDetected) {
  write_small_checkpoint(file("c.h5"));
  const std::string bytes = bytes_of(file("c.h5"));
  for (std::size_t size = 0; size < bytes.size(); size += 61) {
    put_bytes(file("cut.h5"), bytes.substr(0, size));
    EXPECT_THROW(CheckpointFile(file("cut.h5")), InputError) << size;
  }
  put_bytes(file("cut.h5"), bytes + "x");
  expect_refused<InputError>({"were written"}, [&] { CheckpointFile c(file("cut.h5")); });
}

TEST_F(Checkpoint, RejectsOtherFilesAndFormats) {
  write_small_dataset(file("data.h5"));
  // A valid checksum of bytes that are not HDF5, as a deliberate forgery could have.
  put_bytes(file("forged.h5"), testing::sealed_checkpoint(std::string(4000, 'z')));
  for (const auto& [name, says] : std::map<std::string, std::string>{{"data.h5", "is not a checkpoint"},
                                                                     {"forged.h5", "not an HDF5 file"},
                                                                     {"missing.h5", "no such file"},
                                                                     {"", "is a folder"}}) {
    expect_refused<InputError>({says}, [&] { CheckpointFile checkpoint(file(name)); });
  }
  EXPECT_FALSE(is_checkpoint(file("data.h5")));
  EXPECT_FALSE(is_checkpoint(file("missing.h5")));
  for (const std::uint64_t number : {2, 4}) {
    put_bytes(file("c.h5"), testing::sealed_checkpoint("anything", number));
    expect_refused<OtherFormatError>(
        {format(
            "c.h5: is a checkpoint of format {}, but this version reads format 3 only; train again, or use "
            "the version that wrote it",
            number)},
        [&] { CheckpointFile(file("c.h5")); });
  }
}

TEST_F(Checkpoint, FailingSourceKeepsThePreviousCheckpoint) {
  write_small_checkpoint(file("c.h5"), 1);
  TensorSource source = counting("weights/w", 4, 4);
  source.read_rows = [](std::int64_t, std::int64_t, std::span<float>) { throw RunError("device lost"); };
  expect_refused<RunError>({"device lost"}, [&] { write_checkpoint(file("c.h5"), {}, {&source, 1}); });
  EXPECT_EQ(names(), std::vector<std::string>{"c.h5"});
  EXPECT_EQ(CheckpointFile(file("c.h5")).attribute<std::int64_t>("step"), 1);
}

using CheckpointFolder = IoTest;

struct stat status_of(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
  return found;
}

TEST_F(CheckpointFolder, NamesArePaddedWithZeros) {
  EXPECT_EQ(checkpoint_name(CheckpointKind::epoch, 12), "epoch-0012.h5");
  EXPECT_EQ(checkpoint_name(CheckpointKind::epoch, 0), "epoch-0000.h5");
  EXPECT_EQ(checkpoint_name(CheckpointKind::epoch, 123456), "epoch-123456.h5");
  EXPECT_EQ(checkpoint_name(CheckpointKind::step, 1234), "step-00001234.h5");
  EXPECT_EQ(checkpoint_name(CheckpointKind::best), "best.h5");
}

TEST_F(CheckpointFolder, ListsOnlyExactCheckpointNames) {
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  for (const std::string name :
       {"epoch-0010.h5", "epoch-0009.h5", "step-00000100.h5", "best.h5", "epoch-10000.h5", "epoch-1.h5",
        "epoch-00012.h5", "epoch-.h5", "epoch--001.h5", "epoch-+001.h5", "epoch-0001.h5.tmp-host-1-0123abcd",
        "epoch-0x10.h5", "epoch-0001", "step-0001.h5", "best-1.h5", "epoch-99999999999999999999.h5", ".h5"}) {
    put_bytes(file(name), "x");
  }
  put_bytes(file(checkpoint_name(CheckpointKind::step, largest)), "x");
  std::filesystem::create_directory(file("epoch-0011.h5"));

  const auto found = list_checkpoints(folder_.string());
  std::vector<std::int64_t> numbers;
  for (const auto& candidate : found) {
    numbers.push_back(candidate.number);
    EXPECT_EQ(candidate.path, file(checkpoint_name(candidate.kind, candidate.number)));
  }
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{9, 10, 10000, 100, largest, 0}));
}

TEST_F(CheckpointFolder, MissingFolderIsEmptyAndAFileIsAnError) {
  EXPECT_TRUE(list_checkpoints(file("missing")).empty());
  EXPECT_TRUE(list_checkpoints(folder_.string()).empty());
  put_bytes(file("plain"), "x");
  expect_refused<RunError>({"Not a directory"}, [&] { list_checkpoints(file("plain")); });
}

TEST_F(CheckpointFolder, AliasSurvivesRemovalOfTheFile) {
  put_bytes(file("epoch-0001.h5"), "one");
  link_or_copy(file("epoch-0001.h5"), file("best.h5"));
  EXPECT_EQ(status_of(file("best.h5")).st_ino, status_of(file("epoch-0001.h5")).st_ino);
  // Repeated, because rename does nothing between two links to one file. A leftover temporary file is
  // removed.
  put_bytes(temporary_path(file("best.h5")), "left");
  link_or_copy(file("epoch-0001.h5"), file("best.h5"));
  EXPECT_EQ(names().size(), 2u);

  put_bytes(file("epoch-0002.h5"), "two");
  link_or_copy(file("epoch-0002.h5"), file("best.h5"));
  EXPECT_EQ(bytes_of(file("epoch-0001.h5")), "one");
  std::filesystem::remove(file("epoch-0002.h5"));
  EXPECT_EQ(bytes_of(file("best.h5")), "two");
  EXPECT_EQ(names().size(), 2u);
}

TEST_F(CheckpointFolder, AliasOnAnotherFileSystemIsACopy) {
  put_bytes(file("epoch-0001.h5"), std::string(3000000, 'y'));
  const testing::TemporaryFolder other("/dev/shm");
  if (status_of(other.path().string()).st_dev == status_of(folder_.string()).st_dev) {
    GTEST_SKIP() << "this machine has one file system only";
  }
  const std::string alias = (other.path() / "run/best.h5").string();
  link_or_copy(file("epoch-0001.h5"), alias);
  EXPECT_EQ(status_of(alias).st_nlink, 1u);
  EXPECT_EQ(bytes_of(alias), bytes_of(file("epoch-0001.h5")));
  put_bytes(file("epoch-0002.h5"), "two");
  link_or_copy(file("epoch-0002.h5"), alias);
  EXPECT_EQ(bytes_of(alias), "two");
}

TEST_F(CheckpointFolder, FailedAliasKeepsThePreviousOne) {
  put_bytes(file("best.h5"), "old");
  expect_refused<RunError>({file("best.h5"), file("missing.h5"), "No such file"},
                           [&] { link_or_copy(file("missing.h5"), file("best.h5")); });
  EXPECT_THROW(link_or_copy(folder_.string(), file("best.h5")), RunError);
  EXPECT_EQ(bytes_of(file("best.h5")), "old");

  put_bytes(file("epoch-0001.h5"), "new");
  std::filesystem::create_directory(file("folder"));
  EXPECT_THROW(link_or_copy(file("epoch-0001.h5"), file("folder")), RunError);
  EXPECT_THROW(link_or_copy(file("epoch-0001.h5"), file("best.h5/below")), RunError);
  EXPECT_EQ(names().size(), 3u);
}

}  // namespace
}  // namespace vaecf::io
