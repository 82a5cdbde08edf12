// Datasets in several files, and packed ones.
#include <vaecf/base/format.hpp>
#include <vaecf/io/dataset_paths.hpp>

#include "io/io_fixture.hpp"
#include "support/bad_hdf5.hpp"

#include <algorithm>
#include <random>

namespace vaecf::io {
namespace {

using Names = std::vector<std::string>;
using Row = std::vector<std::int32_t>;

constexpr std::int64_t part_users = 103;
const Names all_matrices = {"train",         "validation/fold_in", "validation/held_out",
                            "test/fold_in",  "test/held_out",      "train/features",
                            "test/features", "validation/features"};

class SeveralFiles : public IoTest {
 protected:
  /// Validation shows what was learned from, as weak splits do; the test does not.
  void write(const std::string& path, const DatasetLayout& layout, unsigned seed = 1,
             std::int64_t announced = part_users) const {
    std::mt19937 draw(seed);
    const auto row = [&](std::int32_t width) {
      Row columns;
      for (auto c = static_cast<std::int32_t>(draw() % 5); c < width; c += 1 + static_cast<int>(draw() % 9)) {
        columns.push_back(c);
      }
      return draw() % 7 == 0 ? Row{} : columns;
    };
    DatasetWriter writer(path, layout);
    writer.set_train_rows(announced);
    for (std::int64_t u = 0; u < part_users; ++u) {
      writer.append_row("train", row(40));
      writer.append_row("validation/held_out", row(40));
      writer.append_row("train/features", row(12));
    }
    for (int u = 0; u < 9; ++u) {
      writer.append_row("test/fold_in", row(40));
      writer.append_row("test/held_out", row(40));
      writer.append_row("test/features", row(12));
    }
    writer.link("validation/fold_in", "train");
    writer.link("validation/features", "train/features");
    IdList users;
    for (std::int64_t u = 0; u < part_users; ++u) users.numbers.push_back(1000 - u);
    writer.write_ids("train/user_id", users);
    writer.set_attribute("items", std::int64_t{40});
    writer.set_attribute("features", std::int64_t{12});
    writer.set_attribute("name", std::string("several"));
    writer.set_attribute("source", std::string("a test"));
    writer.set_attribute("report", std::string("all\nwell\n"));
    writer.commit();
  }
  Names sorted_names() const {
    Names found = names();
    std::sort(found.begin(), found.end());
    return found;
  }
  std::string part(int number, int of = 4) const { return file(format("d-{:05}-of-{:05}.h5", number, of)); }
  /// What reading all of `path` says.
  std::string refused(const std::string& path) const {
    return message_of<InputError>([&] {
      const DatasetFile dataset(path);
      dataset.read_rows("train", {0, dataset.rows("train")});
    });
  }
  void expect_same(const DatasetFile& one, const DatasetFile& other) const {
    EXPECT_EQ(one.fingerprint(), other.fingerprint());
    EXPECT_EQ(one.attributes(), other.attributes());
    EXPECT_EQ(one.read_ids("train/user_id").numbers, other.read_ids("train/user_id").numbers);
    for (const std::string& matrix : all_matrices) {
      SCOPED_TRACE(matrix);
      EXPECT_EQ(one.rows(matrix), other.rows(matrix));
      EXPECT_EQ(one.entries(matrix), other.entries(matrix));
      for (const Range rows : {Range{0, one.rows(matrix)}, Range{1, one.rows(matrix) - 1}, Range{3, 3}}) {
        const Csr expected = one.read_rows(matrix, rows);
        const Csr found = other.read_rows(matrix, rows);
        EXPECT_EQ(expected.offsets, found.offsets);
        EXPECT_EQ(expected.columns, found.columns);
      }
    }
  }
};

TEST_F(SeveralFiles, HoldWhatOneFileHolds) {
  write(file("one.h5"), {});
  const DatasetFile one(file("one.h5"));
  EXPECT_EQ(one.layout(), (DatasetLayout{1, 0}));
  for (const std::int64_t files : {2, 5}) {
    SCOPED_TRACE(files);
    write(file("d.h5"), {files, 0});
    const DatasetFile several(file("d-*-of-*.h5"));
    EXPECT_EQ(several.layout(), (DatasetLayout{files, 0}));
    expect_same(one, several);
    expect_same(one, DatasetFile(file("d.h5")));  // as long as no such file is there
    EXPECT_EQ(names().size(), static_cast<std::size_t>(files) + 1);
  }
}

TEST_F(SeveralFiles, EveryRangeOfRowsIsFound) {
  write(file("one.h5"), {});
  write(file("d.h5"), {6, 0});
  const DatasetFile one(file("one.h5"));
  const DatasetFile several(file("d.h5"));
  for (std::int64_t begin = 0; begin <= part_users; begin += 3) {
    for (std::int64_t end = begin; end <= part_users; ++end) {
      const Csr expected = one.read_rows("train", {begin, end});
      const Csr found = several.read_rows("train", {begin, end});
      ASSERT_EQ(expected.offsets, found.offsets) << begin << " to " << end;
      ASSERT_EQ(expected.columns, found.columns) << begin << " to " << end;
      EXPECT_EQ(found.columns.capacity(), found.columns.size());  // never held twice
    }
  }
  EXPECT_THROW(several.read_rows("train", {0, part_users + 1}), InputError);
}

TEST_F(SeveralFiles, MayBeMoreThanUsers) {
  {
    DatasetWriter writer(file("few.h5"), {7, 0});
    writer.set_train_rows(3);
    for (const std::int32_t column : {0, 1, 2}) writer.append_row("train", Row{column});
    writer.set_attribute("items", std::int64_t{3});
    writer.commit();
  }
  const DatasetFile dataset(file("few.h5"));
  dataset.open_all();
  EXPECT_EQ(dataset.read_rows("train", {0, 3}).columns, (Row{0, 1, 2}));
  EXPECT_EQ(dataset.read_rows("train", {2, 3}).columns, Row{2});
  EXPECT_EQ(dataset.entries("validation/held_out"), 0);
}

TEST_F(SeveralFiles, AreOpenedWhenTheirRowsAreRead) {
  write(file("d.h5"), {4, 0});
  put_bytes(part(2), "not HDF5");
  const DatasetFile dataset(file("d-*-of-*.h5"));
  dataset.read_rows("train", {0, 51});    // the first two
  dataset.read_rows("train", {77, 103});  // the last
  dataset.read_rows("test/held_out", {0, 9});
  dataset.fingerprint();
  EXPECT_NE(message_of<InputError>([&] {
              dataset.read_rows("train", {50, 52});
            }).find(part(2)),
            std::string::npos);
  EXPECT_THROW(dataset.open_all(), InputError);
}

TEST_F(SeveralFiles, AreRefusedUnlessTheyAreAllThereInOrderAndOfOneDataset) {
  const auto says = [&](const std::string& path, const Names& all) {
    const std::string message = refused(path);
    for (const std::string& text : all) EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  const std::string pattern = file("d-*-of-*.h5");
  namespace fs = std::filesystem;
  write(file("d.h5"), {4, 0});
  const auto restore = [&] { write(file("d.h5"), {4, 0}); };

  says(part(1), {"part 1 of a dataset in 4 files", "-*-of-00004.h5"});
  for (const int missing : {0, 2, 3}) {
    fs::remove(part(missing));
    says(pattern, {"3 only", format("-{:05}-of-00004.h5 is missing", missing)});
    restore();
  }
  fs::rename(part(1), file("x"));
  fs::rename(part(2), part(1));
  fs::rename(file("x"), part(2));
  says(pattern, {part(1), "is part 2", "in place 1"});
  restore();
  fs::rename(part(0), file("x"));
  fs::rename(part(3), part(0));
  fs::rename(file("x"), part(3));
  says(pattern, {"is part 3", "comes first"});
  restore();

  write(file("e.h5"), {4, 0}, 2);  // other users, as many of them
  fs::rename(file("e-00002-of-00004.h5"), part(2));
  says(pattern, {part(2), "of another dataset"});
  restore();
  write(file("f.h5"), {});
  fs::copy(file("f.h5"), part(1), fs::copy_options::overwrite_existing);
  says(pattern, {part(1), "of another dataset"});
  restore();
  fs::copy(part(0), file("d-00000-of-00003.h5"));
  says(pattern, {"one of 4 files", "5 files"});
  says(file("e-*.h5"), {"3 only", "-00002-of-00004.h5 is missing"});
  write(file("g.h5"), {});
  says(file("[fg].h5"), {"is a dataset by itself", "2 files"});
  says(file("h-*.h5"), {"no such file"});
}

TEST_F(SeveralFiles, AreCheckedAgainstTheFirst) {
  write(file("d.h5"), {4, 0});
  {
    test::Hdf5Editor editor(part(2));
    editor.remove("/train/indptr");
    editor.put_integers("/train/indptr", std::vector<std::int64_t>{0, 0}, H5T_STD_I64LE);
    editor.remove("/train/indices");
    editor.put_integers("/train/indices", std::vector<std::int64_t>{}, H5T_STD_I64LE);
  }
  EXPECT_NE(refused(file("d.h5")).find("has 1 and 0"), std::string::npos) << refused(file("d.h5"));
  write(file("d.h5"), {4, 0});
  for (const char* const table : {"/parts/train_rows", "/parts/train_entries", "/parts/features_entries"}) {
    for (const std::vector<std::int64_t>& values :
         {std::vector<std::int64_t>{0, 1, 2}, {0, 7, 6, 8, 9}, {1, 25, 51, 77, 103}, {0, 1, 1, 1, 1}}) {
      {
        test::Hdf5Editor editor(part(0));
        editor.remove(table);
        editor.put_integers(table, values, H5T_STD_I64LE);
      }
      EXPECT_NE(refused(file("d.h5")).find(std::string(table).substr(1)), std::string::npos);
    }
    write(file("d.h5"), {4, 0});
  }
}

TEST_F(SeveralFiles, ReplaceWhatTheDatasetLayInBefore) {
  write(file("d.h5"), {});
  write(file("other.h5"), {});
  write(file("d.h5"), {2, 0});
  EXPECT_EQ(sorted_names(), (Names{"d-00000-of-00002.h5", "d-00001-of-00002.h5", "other.h5"}));
  write(file("d-*-of-*.h5"), {3, 0});
  EXPECT_EQ(sorted_names(),
            (Names{"d-00000-of-00003.h5", "d-00001-of-00003.h5", "d-00002-of-00003.h5", "other.h5"}));
  write(file("d-*.h5"), {1, 0});
  EXPECT_EQ(sorted_names(), (Names{"d-00000-of-00001.h5", "other.h5"}));
  DatasetFile(file("d-*.h5")).open_all();
  write(file("d.h5"), {});  // is read before the others, which may stay
  EXPECT_EQ(DatasetFile(file("d.h5")).path(), file("d.h5"));
}

TEST_F(SeveralFiles, LeaveNothingWhereTheyAreNotFinished) {
  write(file("d.h5"), {2, 0});
  const std::string before = bytes_of(part(1, 2));
  {
    DatasetWriter writer(file("d.h5"), {2, 0});
    writer.set_train_rows(2);
    writer.append_row("train", Row{1});
  }
  EXPECT_EQ(names().size(), 2u);
  EXPECT_EQ(bytes_of(part(1, 2)), before);
  EXPECT_THROW(write(file("d.h5"), {2, 0}, 1, part_users - 1), RunError);
  EXPECT_THROW(write(file("d.h5"), {2, 0}, 1, part_users + 1), RunError);
  EXPECT_EQ(bytes_of(part(1, 2)), before);
  // One of the names is taken by a folder: none of the others appears.
  std::filesystem::create_directory(part(1, 3));
  EXPECT_THROW(write(file("d.h5"), {3, 0}), RunError);
  EXPECT_EQ(sorted_names(), (Names{"d-00000-of-00002.h5", "d-00001-of-00002.h5", "d-00001-of-00003.h5"}));
}

TEST_F(SeveralFiles, AreTheSameBytesEveryTime) {
  write(file("a.h5"), {3, 1});
  write(file("b.h5"), {3, 1});
  for (int p = 0; p < 3; ++p) {
    const std::string ending = format("-{:05}-of-00003.h5", p);
    EXPECT_EQ(bytes_of(file("a" + ending)), bytes_of(file("b" + ending)));
  }
}

TEST_F(SeveralFiles, PackedOnesHoldTheSame) {
  write(file("one.h5"), {});
  write(file("packed.h5"), {1, 4});
  write(file("d.h5"), {3, 9});
  const DatasetFile one(file("one.h5"));
  EXPECT_EQ(DatasetFile(file("packed.h5")).layout(), (DatasetLayout{1, 4}));
  EXPECT_EQ(DatasetFile(file("d.h5")).layout(), (DatasetLayout{3, 9}));
  expect_same(one, DatasetFile(file("packed.h5")));
  expect_same(one, DatasetFile(file("d.h5")));
}

TEST_F(SeveralFiles, LongPackedColumnsCrossChunksAndAreSmaller) {
  const auto make = [&](const std::string& path, const DatasetLayout& layout) {
    DatasetWriter writer(path, layout);
    for (std::int32_t r = 0; r < 3000; ++r) {
      Row row(100);
      for (std::int32_t c = 0; c < 100; ++c) row[static_cast<std::size_t>(c)] = 7 * c + r % 5;
      writer.append_row("train", row);
    }
    writer.set_attribute("items", std::int64_t{1000});
    writer.commit();
  };
  make(file("plain.h5"), {});
  make(file("packed.h5"), {1, 1});
  EXPECT_LT(3 * std::filesystem::file_size(file("packed.h5")), std::filesystem::file_size(file("plain.h5")));
  const Csr plain = DatasetFile(file("plain.h5")).read_rows("train", {0, 3000});
  const Csr packed = DatasetFile(file("packed.h5")).read_rows("train", {0, 3000});
  EXPECT_EQ(plain.offsets, packed.offsets);
  EXPECT_EQ(plain.columns, packed.columns);
}

TEST(DatasetPaths, NamesOfNewFiles) {
  EXPECT_EQ(new_dataset_paths("a/x.h5", 1), Names{"a/x.h5"});
  EXPECT_EQ(new_dataset_paths("a/x.h5", 2), (Names{"a/x-00000-of-00002.h5", "a/x-00001-of-00002.h5"}));
  EXPECT_EQ(new_dataset_paths("a/x-*-of-*.h5", 2), new_dataset_paths("a/x.h5", 2));
  EXPECT_EQ(new_dataset_paths("a/x-*.h5", 2), new_dataset_paths("a/x.h5", 2));
  EXPECT_EQ(new_dataset_paths("x-*.h5", 1), Names{"x-00000-of-00001.h5"});
  EXPECT_EQ(new_dataset_paths("x.y/z", 2)[1], "x.y/z-00001-of-00002");
  for (const char* const pattern : {"a/x?.h5", "a/*.h5", "a*/x-*.h5"}) {
    EXPECT_THROW(new_dataset_paths(pattern, 2), InputError) << pattern;
  }
  EXPECT_THROW(new_dataset_paths("x.h5", 0), InputError);
  EXPECT_THROW(new_dataset_paths("x.h5", 501), InputError);
}

}  // namespace
}  // namespace vaecf::io
