#include <functional>
#include <limits>
#include <tuple>

#include "io/io_fixture.hpp"
#include "support/bad_hdf5.hpp"

namespace vaecf::io {
namespace {

using test::Hdf5Editor;
using Spoil = std::function<void(Hdf5Editor&)>;
using Integers = std::vector<std::int64_t>;

/// Opens the file and reads every row of every matrix and all ids.
void read_everything(const std::string& path) {
  const DatasetFile dataset(path);
  for (const char* name : {"train", "validation/fold_in", "validation/held_out", "test/fold_in",
                           "test/held_out", "train/features", "validation/features"}) {
    dataset.read_rows(name, {0, dataset.rows(name)});
  }
  for (const char* name : {"items/id", "train/user_id"}) {
    if (dataset.has_ids(name)) dataset.read_ids(name);
  }
  dataset.fingerprint();
}

struct BadFile {
  std::string name;
  Spoil spoil;
  std::vector<std::string> parts;  // all of them must be in the message
  void (*write)(const std::string& path) = write_small_dataset;
};

void PrintTo(const BadFile& bad, std::ostream* out) {
  *out << bad.name;
}

/// Replaces a dataset by other integers.
Spoil integers(
    std::string path, Integers values, hid_t (*type)() = [] { return H5T_STD_I64LE; },
    Hdf5Editor::Packing packing = Hdf5Editor::Packing::none) {
  return [=](Hdf5Editor& editor) {
    editor.remove(path);
    editor.put_integers(path, values, type(), packing);
  };
}

Spoil weights(std::string path, std::vector<double> values) {
  return [=](Hdf5Editor& editor) { editor.put_doubles(path, values, H5T_IEEE_F32LE); };
}

Spoil without(std::string path) {
  return [=](Hdf5Editor& editor) { editor.remove(path); };
}

/// Replaces an object by the output of `put`.
Spoil instead(std::string path, Spoil put) {
  return [=](Hdf5Editor& editor) {
    editor.remove(path);
    put(editor);
  };
}

/// Replaces a dataset by floating-point values, or by integers of `type`.
Spoil numbers(std::string path, std::vector<double> values, hid_t type) {
  return instead(path, [=](Hdf5Editor& editor) { editor.put_doubles(path, values, type); });
}

Spoil attribute(std::string name, std::int64_t value) {
  return [=](Hdf5Editor& editor) {
    editor.remove_attribute(name);
    editor.put_integer_attribute(name, value);
  };
}

std::vector<BadFile> bad_matrices() {
  constexpr std::int64_t big = std::int64_t{1} << 32;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Integers columns = {0, 2, 5, 1, 0, 1, 2, 3, 4, 5};
  return {
      {"ColumnTooLarge",
       integers("/train/indices", {0, 2, 5, 6, 0, 1, 2, 3, 4, 5}),
       {"train/indices row 2: column 6 is outside 0 to 5"}},
      {"ColumnBeyondInt32",
       integers("/train/indices", {0, 2, 5, big + 1, 0, 1, 2, 3, 4, 5}),
       {"train/indices row 2", "outside"}},
      {"ColumnNegative",
       integers("/train/indices", {-1, 2, 5, 1, 0, 1, 2, 3, 4, 5}),
       {"train/indices row 0", "column -1"}},
      {"ColumnsUnsorted",
       integers("/train/indices", {0, 2, 5, 1, 0, 1, 3, 2, 4, 5}),
       {"train/indices row 3", "column 2", "follows 3"}},
      {"ColumnTwice",
       integers("/train/indices", {0, 2, 2, 1, 0, 1, 2, 3, 4, 5}),
       {"train/indices row 0", "column 2", "follows 2"}},
      {"OffsetsFall", integers("/train/indptr", {0, 4, 3, 4, 10}), {"train/indptr row 1", "4 and 3"}},
      {"OffsetBeyondTheEnd", integers("/train/indptr", {0, 99, 3, 4, 10}), {"train/indptr row 0", "99"}},
      {"OffsetNegative", integers("/train/indptr", {0, 3, -3, 4, 10}), {"train/indptr row 1", "-3"}},
      {"OffsetsStartLate", integers("/train/indptr", {1, 3, 3, 4, 10}), {"train/indptr", "starts with 1"}},
      {"OffsetsEndElsewhere", integers("/train/indptr", {0, 3, 3, 4, 9}), {"ends with 9", "has 10 entries"}},
      {"OffsetsEmpty", integers("/train/indptr", {}), {"train/indptr is empty"}},
      {"OtherFilter",
       integers(
           "/train/indices", columns, [] { return H5T_STD_I64LE; }, Hdf5Editor::Packing::fletcher32),
       {"train/indices uses HDF5 filter 3", "shuffle and deflate"}},
      {"OffsetsOfFloats",
       numbers("/train/indptr", {0, 3, 3, 4, 10}, H5T_IEEE_F64LE),
       {"train/indptr does not contain integers"}},
      {"IndicesAreATable",
       instead("/train/indices", [](Hdf5Editor& e) { e.put_table("/train/indices", 5, 2); }),
       {"train/indices has 2 dimensions"}},
      {"IndicesAreAGroup",
       instead("/train/indices", [](Hdf5Editor& e) { e.put_hdf5_group("/train/indices"); }),
       {"train/indices is not a dataset"}},
      {"TrainIsADataset", integers("/train", {1}), {"train"}},
      {"NoTrain", without("/train"), {"no HDF5 group /train", "prepare"}},
      {"NoIndices", without("/train/indices"), {"train/indices is missing"}},
      {"HeldOutRowsDiffer", integers("/test/held_out/indptr", {0, 1, 1}), {"test/fold_in has 1 rows", "2"}},
      {"WeightNotANumber",
       weights("/train/data", {1, 1, 1, nan, 1, 1, 1, 1, 1, 1}),
       {"train/data entry 3 is nan"}},
      {"WeightNotOne",
       weights("/train/data", {1, 1, 1, 1, 1, 1, 1, 1, 1, 2.5}),
       {"train/data entry 9 is 2.5", "not supported yet"}},
      {"WeightsOfOtherLength", weights("/train/data", {1, 1}), {"train/data has 2 entries"}},
      {"ExternalLink",
       instead("/train", [](Hdf5Editor& e) { e.put_external_link("/train", "other.h5", "/train"); }),
       {"train is a dangling, cyclic or external link"}},
      {"SoftLinkToExternalLink",
       instead("/test/fold_in",
               [](Hdf5Editor& e) {
                 e.put_external_link("/away", "other.h5", "/");
                 e.put_soft_link("/test/fold_in", "/away/train");
               }),
       {"test/fold_in is a dangling, cyclic or external link"}},
      {"SoftLinkToNothing",
       instead("/test/fold_in", [](Hdf5Editor& e) { e.put_soft_link("/test/fold_in", "/nowhere"); }),
       {"test/fold_in is a dangling, cyclic or external link"}},
      {"SoftLinkInCircles",
       instead("/test/fold_in", [](Hdf5Editor& e) { e.put_soft_link("/test/fold_in", "fold_in"); }),
       {"test/fold_in is a dangling, cyclic or external link"}},
      {"ExternalStorage",
       instead("/train/indices",
               [](Hdf5Editor& e) { e.put_external_storage("/train/indices", 10, "other.bin"); }),
       {"train/indices is stored in another file"}},
      {"AbsurdChunked",
       instead("/train/indptr", [](Hdf5Editor& e) { e.put_claim("/train/indptr", hsize_t{1} << 40, true); }),
       {"train/indptr declares more values"}},
      {"AbsurdContiguous",
       instead("/train/indptr", [](Hdf5Editor& e) { e.put_claim("/train/indptr", hsize_t{1} << 58, false); }),
       {"train/indptr declares more values"}},
  };
}

std::vector<BadFile> bad_attributes_and_ids() {
  return {
      {"NoItems", [](Hdf5Editor& editor) { editor.remove_attribute("items"); }, {"no attribute `items`"}},
      {"ItemsZero", attribute("items", 0), {"`items` must be"}},
      {"ItemsTooMany", attribute("items", std::int64_t{1} << 31), {"`items` must be"}},
      {"ItemsAFraction",
       [](Hdf5Editor& editor) {
         editor.remove_attribute("items");
         editor.put_double_attribute("items", 6.0);
       },
       {"`items` must be"}},
      {"OlderFormat", attribute("format_version", 1), {"its format_version is not 2"}},
      {"NewerFormat", attribute("format_version", 3), {"its format_version is not 2"}},
      {"VariableAttribute",
       [](Hdf5Editor& editor) { editor.put_variable_string_attribute("note", "hello"); },
       {"attribute note", "variable length"}},
      {"VariableIds",
       instead("/items/id",
               [](Hdf5Editor& e) {
                 e.put_variable_strings("/items/id", {"a", "b", "c", "d", "e", "f"});
               }),
       {"items/id", "variable length"}},
      {"IdsOfFloats",
       numbers("/items/id", {1, 2, 3, 4, 5, 6}, H5T_IEEE_F64LE),
       {"items/id contains neither"}},
      {"TooFewIds", integers("/items/id", {1, 2, 3}), {"items/id must have 6 entries, got 3"}},
      {"TooManyUserIds",
       integers("/train/user_id", {1, 2, 3, 4, 5}),
       {"train/user_id must have 4 entries, got 5"}},
      {"IdBeyondInt64",
       numbers("/train/user_id", {1, 2, 3, 1.5e19}, H5T_STD_U64LE),
       {"train/user_id row 3", "15000000000000000000"}},
  };
}

std::vector<BadFile> bad_features() {
  std::vector<BadFile> files = {
      {"FeatureTooLarge",
       integers("/train/features/indices", {0, 6, 1, 2, 4}),
       {"train/features/indices row 0", "column 6", "0 to 5"}},
      {"FeaturesOfOtherUsers",
       integers("/train/features/indptr", {0, 2, 5}),
       {"train/features has 2 rows, train has 3"}},
      {"FeaturesOfOtherHeldOutUsers",
       integers("/validation/features/indptr", {0, 0, 1}),
       {"validation/features has 2 rows, validation/fold_in has 1"}},
      {"NoFeatures", without("/train/features"), {"train/features has 0 rows, train has 3"}},
      {"NoFeaturesAttribute",
       [](Hdf5Editor& editor) { editor.remove_attribute("features"); },
       {"has train/features, but no attribute `features`"}},
      {"FeaturesNegative", attribute("features", -1), {"`features` must be an integer from 0"}},
  };
  for (BadFile& bad : files) bad.write = write_known_users;
  return files;
}

class BadDataset : public IoTest, public ::testing::WithParamInterface<BadFile> {};

TEST_P(BadDataset, IsRejected) {
  GetParam().write(file("bad.h5"));
  ASSERT_NO_THROW(read_everything(file("bad.h5")));
  {
    Hdf5Editor editor(file("bad.h5"));
    GetParam().spoil(editor);
  }
  std::vector<std::string> parts = GetParam().parts;
  parts.push_back(file("bad.h5") + ": ");
  expect_refused<InputError>(parts, [&] { read_everything(file("bad.h5")); });
}

using RepeatedIds = IoTest;

TEST_F(RepeatedIds, AreRefusedUnlessTheProgramMadeTheFile) {
  for (const bool own : {true, false}) {
    const auto spoiled = [&](const Spoil& spoil) {
      write_small_dataset(file("d.h5"));
      Hdf5Editor editor(file("d.h5"));
      if (!own) editor.remove_attribute("source");
      spoil(editor);
    };
    spoiled([](Hdf5Editor&) {});
    EXPECT_NO_THROW(DatasetFile(file("d.h5")).require_unique_ids());
    for (const auto& [path, values, problem] : std::vector<std::tuple<std::string, Integers, std::string>>{
             {"items/id", {1, 9, 3, 4, 9, 9}, "d.h5: rows 1 and 4 of /items/id are both '9'"},
             {"train/user_id", {7, -3, 0, -3}, "d.h5: rows 1 and 3 of /train/user_id are both '-3'"}}) {
      spoiled(integers("/" + path, values));
      const DatasetFile dataset(file("d.h5"));
      if (own)
        EXPECT_NO_THROW(dataset.require_unique_ids());
      else
        expect_refused<InputError>({problem}, [&] { dataset.require_unique_ids(); });
    }
  }
}

constexpr auto name_of_case = [](const auto& test) { return test.param.name; };
INSTANTIATE_TEST_SUITE_P(Matrices, BadDataset, ::testing::ValuesIn(bad_matrices()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Others, BadDataset, ::testing::ValuesIn(bad_attributes_and_ids()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Features, BadDataset, ::testing::ValuesIn(bad_features()), name_of_case);

using NoDataset = IoTest;

TEST_F(NoDataset, MessageStatesTheProblemOfThePath) {
  put_bytes(file("empty.h5"), "");
  put_bytes(file("text.h5"), std::string(3000, 'x'));
  write_checkpoint(file("c.h5"), {}, {});
  const auto expect = [&](const std::string& path, const std::vector<std::string>& parts) {
    expect_refused<InputError>(parts, [&] { DatasetFile dataset(path); });
  };
  expect(file("c.h5"), {"is a checkpoint"});
  expect(file("missing.h5"), {"no such file", "vaecf_dist prepare"});
  expect(file(""), {"is a folder"});
  expect(file("empty.h5"), {"is not an HDF5 file"});
  expect(file("text.h5"), {"is not an HDF5 file"});
  expect("/dev/null", {"not a regular file"});
}

TEST_F(NoDataset, RejectsEveryTruncation) {
  write_small_dataset(file("whole.h5"));
  const std::string whole = bytes_of(file("whole.h5"));
  for (std::size_t size = 1; size < whole.size(); size += size < 200 ? 1 : 97) {
    put_bytes(file("cut.h5"), whole.substr(0, size));
    const std::string message = message_of<InputError>([&] { read_everything(file("cut.h5")); });
    EXPECT_TRUE(message.find("not an HDF5 file") != std::string::npos ||
                message.find("truncated file") != std::string::npos || size < 200)
        << message;
  }
}

TEST_F(NoDataset, RejectsRowsOutOfRange) {
  write_small_dataset(file("small.h5"));
  const DatasetFile dataset(file("small.h5"));
  EXPECT_THROW(dataset.read_rows("train", {0, 5}), InputError);
  EXPECT_THROW(dataset.read_rows("train", {-1, 1}), InputError);
  EXPECT_THROW(dataset.read_rows("train", {3, 2}), InputError);
  EXPECT_THROW(dataset.rows("validation"), InputError);
}

}  // namespace
}  // namespace vaecf::io
