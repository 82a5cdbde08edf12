#include "io/io_fixture.hpp"
#include "support/bad_hdf5.hpp"

#include <functional>
#include <limits>

namespace vaecf::io {
namespace {

using test::Hdf5Editor;

/// Opens the file and reads every row of every matrix and all ids.
void read_everything(const std::string& path) {
  const DatasetFile dataset(path);
  for (const char* name :
       {"train", "validation/fold_in", "validation/held_out", "test/fold_in", "test/held_out"}) {
    dataset.read_rows(name, {0, dataset.rows(name)});
  }
  for (const char* name : {"items/id", "train/user_id"}) {
    if (dataset.has_ids(name)) dataset.read_ids(name);
  }
  dataset.fingerprint();
}

struct BadFile {
  std::string name;
  std::function<void(Hdf5Editor&)> spoil;
  std::vector<std::string> says;  // all of them, in the message
};

void PrintTo(const BadFile& bad, std::ostream* out) {
  *out << bad.name;
}

std::function<void(Hdf5Editor&)> integers(
    std::string path, std::vector<std::int64_t> values, hid_t (*type)() = [] { return H5T_STD_I64LE; },
    Hdf5Editor::Packing packing = Hdf5Editor::Packing::none) {
  return [=](Hdf5Editor& editor) {
    editor.remove(path);
    editor.put_integers(path, values, type(), packing);
  };
}

std::vector<BadFile> bad_files() {
  constexpr std::int64_t big = std::int64_t{1} << 32;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return {
      {"OneOfSeveralFiles",
       [](Hdf5Editor& editor) {
         editor.put_integer_attribute("part", 0);
         editor.put_integer_attribute("parts", 4);
       },
       {"is one of the several files of a dataset", "run `vaecf_dist prepare` again"}},
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
           "/train/indices", {0, 2, 5, 1, 0, 1, 2, 3, 4, 5}, [] { return H5T_STD_I64LE; },
           Hdf5Editor::Packing::fletcher32),
       {"train/indices uses HDF5 filter 3", "shuffle and deflate"}},
      {"OffsetsOfFloats",
       [](Hdf5Editor& editor) {
         editor.remove("/train/indptr");
         editor.put_doubles("/train/indptr", {0, 3, 3, 4, 10}, H5T_IEEE_F64LE);
       },
       {"train/indptr does not hold integers"}},
      {"IndicesAreATable",
       [](Hdf5Editor& editor) {
         editor.remove("/train/indices");
         editor.put_table("/train/indices", 5, 2);
       },
       {"train/indices has 2 dimensions"}},
      {"IndicesAreAGroup",
       [](Hdf5Editor& editor) {
         editor.remove("/train/indices");
         editor.put_group("/train/indices");
       },
       {"train/indices is not a dataset"}},
      {"TrainIsADataset",
       [](Hdf5Editor& editor) {
         editor.remove("/train");
         editor.put_integers("/train", {1}, H5T_STD_I64LE);
       },
       {"train"}},
      {"NoTrain", [](Hdf5Editor& editor) { editor.remove("/train"); }, {"no group /train", "prepare"}},
      {"NoIndices",
       [](Hdf5Editor& editor) { editor.remove("/train/indices"); },
       {"train/indices is missing"}},
      {"NoItems", [](Hdf5Editor& editor) { editor.remove_attribute("items"); }, {"no attribute `items`"}},
      {"ItemsZero",
       [](Hdf5Editor& editor) {
         editor.remove_attribute("items");
         editor.put_integer_attribute("items", 0);
       },
       {"`items` must be"}},
      {"ItemsTooMany",
       [](Hdf5Editor& editor) {
         editor.remove_attribute("items");
         editor.put_integer_attribute("items", std::int64_t{1} << 31);
       },
       {"`items` must be"}},
      {"ItemsAFraction",
       [](Hdf5Editor& editor) {
         editor.remove_attribute("items");
         editor.put_double_attribute("items", 6.0);
       },
       {"`items` must be"}},
      {"NewerFormat",
       [](Hdf5Editor& editor) {
         editor.remove_attribute("format_version");
         editor.put_integer_attribute("format_version", 2);
       },
       {"format_version"}},
      {"VariableAttribute",
       [](Hdf5Editor& editor) { editor.put_variable_string_attribute("note", "hello"); },
       {"attribute note", "variable length"}},
      {"VariableIds",
       [](Hdf5Editor& editor) {
         editor.remove("/items/id");
         editor.put_variable_strings("/items/id", {"a", "b", "c", "d", "e", "f"});
       },
       {"items/id", "variable length"}},
      {"IdsOfFloats",
       [](Hdf5Editor& editor) {
         editor.remove("/items/id");
         editor.put_doubles("/items/id", {1, 2, 3, 4, 5, 6}, H5T_IEEE_F64LE);
       },
       {"items/id holds neither"}},
      {"TooFewIds", integers("/items/id", {1, 2, 3}), {"items/id has 3 entries instead of 6"}},
      {"TooManyUserIds", integers("/train/user_id", {1, 2, 3, 4, 5}), {"train/user_id has 5"}},
      {"IdBeyondInt64",
       [](Hdf5Editor& editor) {
         editor.remove("/train/user_id");
         editor.put_doubles("/train/user_id", {1, 2, 3, 1.5e19}, H5T_STD_U64LE);
       },
       {"train/user_id row 3", "15000000000000000000"}},
      {"HeldOutRowsDiffer", integers("/test/held_out/indptr", {0, 1, 1}), {"test/fold_in has 1 rows", "2"}},
      {"WeightNotANumber",
       [nan](Hdf5Editor& editor) {
         editor.put_doubles("/train/data", {1, 1, 1, nan, 1, 1, 1, 1, 1, 1}, H5T_IEEE_F32LE);
       },
       {"train/data entry 3 is nan"}},
      {"WeightNotOne",
       [](Hdf5Editor& editor) {
         editor.put_doubles("/train/data", {1, 1, 1, 1, 1, 1, 1, 1, 1, 2.5}, H5T_IEEE_F32LE);
       },
       {"train/data entry 9 is 2.5", "not supported yet"}},
      {"WeightsOfOtherLength",
       [](Hdf5Editor& editor) {
         editor.put_doubles("/train/data", {1, 1}, H5T_IEEE_F32LE);
       },
       {"train/data has 2 entries"}},
      {"ExternalLink",
       [](Hdf5Editor& editor) {
         editor.remove("/train");
         editor.put_external_link("/train", "other.h5", "/train");
       },
       {"train is a link", "another file"}},
      {"SoftLinkToExternalLink",
       [](Hdf5Editor& editor) {
         editor.remove("/test/fold_in");
         editor.put_external_link("/away", "other.h5", "/");
         editor.put_soft_link("/test/fold_in", "/away/train");
       },
       {"test/fold_in is a link", "another file"}},
      {"SoftLinkToNothing",
       [](Hdf5Editor& editor) {
         editor.remove("/test/fold_in");
         editor.put_soft_link("/test/fold_in", "/nowhere");
       },
       {"test/fold_in is a link that leads nowhere"}},
      {"SoftLinkInCircles",
       [](Hdf5Editor& editor) {
         editor.remove("/test/fold_in");
         editor.put_soft_link("/test/fold_in", "fold_in");
       },
       {"circles"}},
      {"ExternalStorage",
       [](Hdf5Editor& editor) {
         editor.remove("/train/indices");
         editor.put_external_storage("/train/indices", 10, "other.bin");
       },
       {"train/indices lies in another file"}},
      {"AbsurdChunked",
       [](Hdf5Editor& editor) {
         editor.remove("/train/indptr");
         editor.put_claim("/train/indptr", hsize_t{1} << 40, true);
       },
       {"train/indptr claims more values"}},
      {"AbsurdContiguous",
       [](Hdf5Editor& editor) {
         editor.remove("/train/indptr");
         editor.put_claim("/train/indptr", hsize_t{1} << 58, false);
       },
       {"train/indptr claims more values"}},
  };
}

class BadDataset : public IoTest, public ::testing::WithParamInterface<BadFile> {
 protected:
  void SetUp() override { IoTest::SetUp(); }
};

TEST_P(BadDataset, IsRefused) {
  write_small_dataset(file("bad.h5"));
  ASSERT_NO_THROW(read_everything(file("bad.h5")));
  {
    Hdf5Editor editor(file("bad.h5"));
    GetParam().spoil(editor);
  }
  const std::string message = message_of<InputError>([&] { read_everything(file("bad.h5")); });
  EXPECT_TRUE(message.starts_with(file("bad.h5") + ": ")) << message;
  for (const auto& part : GetParam().says) EXPECT_NE(message.find(part), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(Files, BadDataset, ::testing::ValuesIn(bad_files()),
                         [](const auto& test) { return test.param.name; });

using NoDataset = IoTest;

TEST_F(NoDataset, SaysWhatIsWrongWithThePath) {
  put_bytes(file("empty.h5"), "");
  put_bytes(file("text.h5"), std::string(3000, 'x'));
  const auto message = [&](const std::string& name) {
    return message_of<InputError>([&] { DatasetFile dataset(file(name)); });
  };
  EXPECT_NE(message("missing.h5").find("no such file"), std::string::npos);
  EXPECT_NE(message("missing.h5").find("vaecf_dist prepare"), std::string::npos);
  EXPECT_NE(message("").find("is a folder"), std::string::npos);
  EXPECT_NE(message("empty.h5").find("is not an HDF5 file"), std::string::npos);
  EXPECT_NE(message("text.h5").find("is not an HDF5 file"), std::string::npos);
  EXPECT_NE(message_of<InputError>([] { DatasetFile dataset("/dev/null"); }).find("not a regular file"),
            std::string::npos);
}

TEST_F(NoDataset, CheckpointIsNamedAsOne) {
  write_checkpoint(file("c.h5"), {}, {});
  EXPECT_NE(message_of<InputError>([&] { DatasetFile dataset(file("c.h5")); }).find("is a checkpoint"),
            std::string::npos);
}

TEST_F(NoDataset, TruncatedAnywhereIsRefused) {
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

TEST_F(NoDataset, RowsThatAreNotThereAreRefused) {
  write_small_dataset(file("small.h5"));
  const DatasetFile dataset(file("small.h5"));
  EXPECT_THROW(dataset.read_rows("train", {0, 5}), InputError);
  EXPECT_THROW(dataset.read_rows("train", {-1, 1}), InputError);
  EXPECT_THROW(dataset.read_rows("train", {3, 2}), InputError);
  EXPECT_THROW(dataset.rows("validation"), InputError);
}

}  // namespace
}  // namespace vaecf::io
