#include "io/io_fixture.hpp"
#include "support/bad_hdf5.hpp"

#include <functional>

namespace vaecf::io {
namespace {

using Known = std::vector<std::int32_t>;

/// 3 training users and 1 validation user over 4 items, of whom something is known in 6 columns.
void write_known_users(const std::string& path, std::int64_t features = 6) {
  DatasetWriter writer(path);
  for (const Known& row : {Known{0, 3}, Known{}, Known{2}}) writer.append_row("train", row);
  for (const Known& row : {Known{0, 5}, Known{1, 2, 4}, Known{}}) writer.append_row("train/features", row);
  writer.append_row("validation/fold_in", Known{1});
  writer.append_row("validation/held_out", Known{2});
  writer.append_row("validation/features", Known{3});
  writer.set_attribute("items", std::int64_t{4});
  writer.set_attribute("features", features);
  writer.commit();
}

using DatasetFeatures = IoTest;

TEST_F(DatasetFeatures, GiveBackWhatWasWritten) {
  write_known_users(file("d.h5"));
  const DatasetFile dataset(file("d.h5"));
  EXPECT_EQ(dataset.features(), 6);
  EXPECT_EQ(dataset.rows("train/features"), 3);
  EXPECT_EQ(dataset.entries("train/features"), 5);
  const Csr part = dataset.read_rows("train/features", {1, 3});
  EXPECT_EQ(part.offsets, (std::vector<std::int64_t>{0, 3, 3}));
  EXPECT_EQ(part.columns, (Known{1, 2, 4})) << "column 4 is no item, but a feature";
  EXPECT_EQ(dataset.read_rows("validation/features", {0, 1}).columns, Known{3});
  EXPECT_EQ(dataset.rows("test/features"), 0);
  EXPECT_THROW(dataset.read_rows("train/features", {0, 4}), InputError);
  EXPECT_THROW(dataset.rows("train/titles"), InputError);
}

TEST_F(DatasetFeatures, LinkedPartsKnowTheSame) {
  {
    DatasetWriter writer(file("weak.h5"));
    writer.append_row("train", Known{0, 1});
    writer.append_row("train/features", Known{1});
    writer.append_row("test/held_out", Known{2});
    writer.link("test/fold_in", "train");
    writer.link("test/features", "train/features");
    writer.set_attribute("items", std::int64_t{3});
    writer.set_attribute("features", std::int64_t{2});
    writer.commit();
  }
  const DatasetFile dataset(file("weak.h5"));
  EXPECT_EQ(dataset.read_rows("test/features", {0, 1}).columns, Known{1});
  EXPECT_EQ(dataset.rows("validation/features"), 0);
}

// A checkpoint names the dataset that it was trained on by its fingerprint: those of datasets that were there
// before features came must stay.
TEST_F(DatasetFeatures, DatasetsWithoutThemAreWhatTheyWere) {
  write_small_dataset(file("small.h5"));
  const DatasetFile dataset(file("small.h5"));
  EXPECT_EQ(dataset.features(), 0);
  EXPECT_EQ(dataset.rows("train/features"), 0);
  EXPECT_EQ(dataset.entries("validation/features"), 0);
  EXPECT_EQ(dataset.read_rows("test/features", {0, 0}).rows(), 0);
  EXPECT_FALSE(dataset.has_ids("train/features"));
  EXPECT_EQ(dataset.fingerprint(), "c43b942d4ed1b26b");
}

TEST_F(DatasetFeatures, FingerprintsCoverThem) {
  write_known_users(file("a.h5"));
  write_known_users(file("b.h5"));
  const std::string print = DatasetFile(file("a.h5")).fingerprint();
  EXPECT_EQ(DatasetFile(file("b.h5")).fingerprint(), print);
  {
    test::Hdf5Editor editor(file("b.h5"));
    editor.remove("/train/features/indptr");
    editor.put_integers("/train/features/indptr", {0, 2, 4, 5}, H5T_STD_I64LE);
  }
  EXPECT_NE(DatasetFile(file("b.h5")).fingerprint(), print);
}

struct BadFeatures {
  std::string name;
  std::function<void(test::Hdf5Editor&)> spoil;
  std::vector<std::string> says;
};

void PrintTo(const BadFeatures& bad, std::ostream* out) {
  *out << bad.name;
}

std::function<void(test::Hdf5Editor&)> feature_values(std::string path, std::vector<std::int64_t> values) {
  return [=](test::Hdf5Editor& editor) {
    editor.remove(path);
    editor.put_integers(path, values, H5T_STD_I64LE);
  };
}

std::vector<BadFeatures> bad_features() {
  return {
      {"ColumnTooLarge",
       feature_values("/train/features/indices", {0, 6, 1, 2, 4}),
       {"train/features/indices row 0", "column 6", "0 to 5"}},
      {"ColumnNegative",
       feature_values("/train/features/indices", {-1, 5, 1, 2, 4}),
       {"train/features/indices row 0", "column -1"}},
      {"ColumnBeyondInt32",
       feature_values("/train/features/indices", {0, std::int64_t{1} << 32, 1, 2, 4}),
       {"train/features/indices row 0", "outside"}},
      {"ColumnTwice",
       feature_values("/train/features/indices", {0, 5, 1, 1, 4}),
       {"train/features/indices row 1", "column 1", "follows 1"}},
      {"OffsetsFall",
       feature_values("/train/features/indptr", {0, 3, 2, 5}),
       {"train/features/indptr row 1"}},
      {"OtherUsers",
       feature_values("/train/features/indptr", {0, 2, 5}),
       {"train/features has 2 rows, train has 3"}},
      {"OtherHeldOutUsers",
       feature_values("/validation/features/indptr", {0, 0, 1}),
       {"validation/features has 2 rows, validation/fold_in has 1"}},
      {"NoFeatures",
       [](test::Hdf5Editor& editor) { editor.remove("/train/features"); },
       {"train/features has 0 rows, train has 3"}},
      {"NoAttribute",
       [](test::Hdf5Editor& editor) { editor.remove_attribute("features"); },
       {"has train/features, but no attribute `features`"}},
      {"AttributeNegative",
       [](test::Hdf5Editor& editor) {
         editor.remove_attribute("features");
         editor.put_integer_attribute("features", -1);
       },
       {"`features` must be an integer from 0"}},
      {"AttributeTooLarge",
       [](test::Hdf5Editor& editor) {
         editor.remove_attribute("features");
         editor.put_integer_attribute("features", std::int64_t{1} << 31);
       },
       {"`features` must be"}},
      {"AttributeAFraction",
       [](test::Hdf5Editor& editor) {
         editor.remove_attribute("features");
         editor.put_double_attribute("features", 6.0);
       },
       {"`features` must be"}},
      {"ExternalLink",
       [](test::Hdf5Editor& editor) {
         editor.remove("/train/features");
         editor.put_external_link("/train/features", "other.h5", "/train");
       },
       {"train/features is a link", "into another file"}},
      {"WeightNotOne",
       [](test::Hdf5Editor& editor) {
         editor.put_doubles("/train/features/data", {1, 1, 1, 1, 0.5}, H5T_IEEE_F32LE);
       },
       {"train/features/data entry 4 is 0.5", "not supported yet"}},
  };
}

class BadFeatureFile : public IoTest, public ::testing::WithParamInterface<BadFeatures> {};

TEST_P(BadFeatureFile, IsRefused) {
  const auto read_all = [&] {
    const DatasetFile dataset(file("bad.h5"));
    for (const char* name : {"train/features", "validation/features"})
      dataset.read_rows(name, {0, dataset.rows(name)});
  };
  write_known_users(file("bad.h5"));
  ASSERT_NO_THROW(read_all());
  {
    test::Hdf5Editor editor(file("bad.h5"));
    GetParam().spoil(editor);
  }
  const std::string message = message_of<InputError>(read_all);
  EXPECT_TRUE(message.starts_with(file("bad.h5") + ": ")) << message;
  for (const auto& part : GetParam().says) EXPECT_NE(message.find(part), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(Files, BadFeatureFile, ::testing::ValuesIn(bad_features()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace vaecf::io
