
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
using BadDataset = IoTest;

/// Opens the file and reads every row of every matrix and all ids.
void read_everything(const std::string& path) {
  const DatasetFile dataset(path);
  for (const char* name :
       {"train", "validation/fold_in", "validation/held_out", "test/fold_in", "test/held_out",
        "train/user_features", "validation/user_features", "items/features"}) {
    dataset.read_rows(name, {0, dataset.rows(name)});
  }
  for (const char* name : {"items/id", "train/user_id"}) {
    if (dataset.has_ids(name)) dataset.read_ids(name);
  }
  dataset.fingerprint();
}

Spoil without(std::string path) {
  return [=](Hdf5Editor& editor) { editor.remove(path); };
}

/// Replaces an object by one that `put` makes.
template <class... Parameters, class... Arguments>
Spoil instead(std::string path, void (Hdf5Editor::*put)(const std::string&, Parameters...),
              Arguments... arguments) {
  return [=](Hdf5Editor& editor) {
    editor.remove(path);
    (editor.*put)(path, arguments...);
  };
}

/// Replaces a dataset by other integers.
Spoil integers(std::string path, Integers values, Hdf5Editor::Packing packing = Hdf5Editor::Packing::none) {
  return instead(path, &Hdf5Editor::put_integers, values, H5T_STD_I64LE, packing);
}

/// Replaces a dataset by floating-point values, or by integers of `type`.
Spoil numbers(std::string path, std::vector<double> values, hid_t type) {
  return instead(path, &Hdf5Editor::put_doubles, values, type);
}

Spoil weights(std::vector<double> values) {
  return [=](Hdf5Editor& editor) { editor.put_doubles("/train/data", values, H5T_IEEE_F32LE); };
}

Spoil entry_weights(std::string matrix, std::vector<double> values, hid_t type = H5T_IEEE_F32LE) {
  return [=](Hdf5Editor& editor) { editor.put_doubles("/" + matrix + "/interaction_weights", values, type); };
}

Spoil without_attribute(std::string name) {
  return [=](Hdf5Editor& editor) { editor.remove_attribute(name); };
}

Spoil attribute(std::string name, std::int64_t value) {
  return [=](Hdf5Editor& editor) {
    editor.remove_attribute(name);
    editor.put_integer_attribute(name, value);
  };
}

struct BadFile {
  Spoil spoil;
  std::vector<std::string> parts;  // all of them must be in the message
};

void expect_rejected(const std::string& path, void (*write)(const std::string&),
                     const std::vector<BadFile>& files) {
  for (BadFile bad : files) {
    SCOPED_TRACE(bad.parts[0]);
    std::filesystem::remove(path);
    write(path);
    ASSERT_NO_THROW(read_everything(path));
    {
      Hdf5Editor editor(path);
      bad.spoil(editor);
    }
    bad.parts.push_back(path + ": ");
    expect_refused<InputError>(bad.parts, [&] { read_everything(path); });
  }
}

TEST_F(BadDataset, WithInvalidRowsIsRejected) {
  constexpr std::int64_t big = std::int64_t{1} << 32;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string columns = "/train/indices";
  const std::string offsets = "/train/indptr";
  expect_rejected(
      file("bad.h5"), write_small_dataset,
      {{integers(columns, {0, 2, 5, 6, 0, 1, 2, 3, 4, 5}),
        {"train/indices row 2: column 6 is outside 0 to 5"}},
       {integers(columns, {0, 2, 5, big + 1, 0, 1, 2, 3, 4, 5}), {"train/indices row 2", "outside"}},
       {integers(columns, {-1, 2, 5, 1, 0, 1, 2, 3, 4, 5}), {"train/indices row 0", "column -1"}},
       {integers(columns, {0, 2, 5, 1, 0, 1, 3, 2, 4, 5}), {"train/indices row 3", "column 2", "follows 3"}},
       {integers(columns, {0, 2, 2, 1, 0, 1, 2, 3, 4, 5}), {"train/indices row 0", "column 2", "follows 2"}},
       {integers(offsets, {0, 4, 3, 4, 10}), {"train/indptr row 1", "4 and 3"}},
       {integers(offsets, {0, 99, 3, 4, 10}), {"train/indptr row 0", "99"}},
       {integers(offsets, {0, 3, -3, 4, 10}), {"train/indptr row 1", "-3"}},
       {integers(offsets, {1, 3, 3, 4, 10}), {"train/indptr", "starts with 1"}},
       {integers(offsets, {0, 3, 3, 4, 9}), {"ends with 9", "has 10 entries"}},
       {integers(offsets, {}), {"train/indptr is empty"}},
       {integers(columns, {0, 2, 5, 1, 0, 1, 2, 3, 4, 5}, Hdf5Editor::Packing::fletcher32),
        {"train/indices uses HDF5 filter 3", "shuffle and deflate"}},
       {numbers(offsets, {0, 3, 3, 4, 10}, H5T_IEEE_F64LE), {"train/indptr does not contain integers"}},
       {instead(columns, &Hdf5Editor::put_table, 5, 2), {"train/indices has 2 dimensions"}},
       {instead(columns, &Hdf5Editor::put_hdf5_group), {"train/indices is not a dataset"}},
       {integers("/train", {1}), {"train"}},
       {without("/train"), {"no HDF5 group /train", "prepare"}},
       {without(columns), {"train/indices is missing"}},
       {integers("/test/held_out/indptr", {0, 1, 1}), {"test/fold_in has 1 rows", "2"}},
       {weights({1, 1, 1, nan, 1, 1, 1, 1, 1, 1}), {"train/data entry 3 is nan"}},
       {weights({1, 1, 1, 1, 1, 1, 1, 1, 1, 2.5}),
        {"train/data entry 9 is 2.5", "stored as `interaction_weights`, not as `data`"}},
       {weights({1, 1}), {"train/data has 2 entries"}},
       {instead("/train", &Hdf5Editor::put_external_link, "other.h5", "/train"),
        {"train is a dangling, cyclic or external link"}},
       {[](Hdf5Editor& editor) {
          editor.put_external_link("/away", "other.h5", "/");
          instead("/test/fold_in", &Hdf5Editor::put_soft_link, "/away/train")(editor);
        },
        {"test/fold_in is a dangling, cyclic or external link"}},
       {instead("/test/fold_in", &Hdf5Editor::put_soft_link, "/nowhere"),
        {"test/fold_in is a dangling, cyclic or external link"}},
       {instead("/test/fold_in", &Hdf5Editor::put_soft_link, "fold_in"),
        {"test/fold_in is a dangling, cyclic or external link"}},
       {instead(columns, &Hdf5Editor::put_external_storage, 10, "other.bin"),
        {"train/indices is stored in another file"}},
       {instead(offsets, &Hdf5Editor::put_claim, hsize_t{1} << 40, true),
        {"train/indptr declares more values"}},
       {instead(offsets, &Hdf5Editor::put_claim, hsize_t{1} << 58, false),
        {"train/indptr declares more values"}}});
}

TEST_F(BadDataset, WithInvalidAttributesOrIdsIsRejected) {
  expect_rejected(
      file("bad.h5"), write_small_dataset,
      {{without_attribute("items"), {"no attribute `items`"}},
       {attribute("items", 0), {"`items` must be"}},
       {attribute("items", std::int64_t{1} << 31), {"`items` must be"}},
       {[](Hdf5Editor& editor) {
          editor.remove_attribute("items");
          editor.put_double_attribute("items", 6.0);
        },
        {"`items` must be"}},
       {attribute("format_version", 2),
        {"its format_version is 2, but vaecf_dist", "reads 3 only; prepare it again"}},
       {attribute("format_version", 4), {"its format_version is 4"}},
       {[](Hdf5Editor& editor) { editor.put_integer_attribute("requires", 1); },
        {"requires a program that knows more"}},
       {[](Hdf5Editor& editor) {
          editor.put_string_attribute("requires", "soft targets");
          editor.put_string_attribute("written_by", "vaecf_dist 1.3.0");
        },
        {"requires a program that knows soft targets", "it was written by vaecf_dist 1.3.0"}},
       {[](Hdf5Editor& editor) { editor.put_string_attribute("interaction_weights", "sqrt"); },
        {"its interaction weights are sqrt", "must be rating or log1p; it was written by"}},
       {[](Hdf5Editor& editor) { editor.put_integer_attribute("interaction_weights", 1); },
        {"its interaction weights are not a text"}},
       {[](Hdf5Editor& editor) { editor.put_variable_string_attribute("note", "hello"); },
        {"attribute note", "variable length"}},
       {instead("/items/id", &Hdf5Editor::put_variable_strings,
                std::vector<std::string>{"a", "b", "c", "d", "e", "f"}),
        {"items/id", "variable length"}},
       {numbers("/items/id", {1, 2, 3, 4, 5, 6}, H5T_IEEE_F64LE), {"items/id contains neither"}},
       {integers("/items/id", {1, 2, 3}), {"items/id must have 6 entries, got 3"}},
       {integers("/train/user_id", {1, 2, 3, 4, 5}), {"train/user_id must have 4 entries, got 5"}},
       {numbers("/train/user_id", {1, 2, 3, 1.5e19}, H5T_STD_U64LE),
        {"train/user_id row 3", "15000000000000000000"}}});
}

TEST_F(BadDataset, WithInvalidFeaturesIsRejected) {
  expect_rejected(
      file("bad.h5"), write_known_users,
      {{integers("/train/user_features/indices", {0, 6, 1, 2, 4}),
        {"train/user_features/indices row 0", "column 6", "0 to 5"}},
       {integers("/train/user_features/indptr", {0, 2, 5}), {"train/user_features has 2 rows, train has 3"}},
       {integers("/validation/user_features/indptr", {0, 0, 1}),
        {"validation/user_features has 2 rows, validation/fold_in has 1"}},
       {without("/train/user_features"), {"train/user_features has 0 rows, train has 3"}},
       {without_attribute("user_features"), {"has train/user_features, but no attribute `user_features`"}},
       {attribute("user_features", -1), {"`user_features` must be an integer from 0"}}});
}

TEST_F(BadDataset, WithInvalidFeaturesOfItemsIsRejected) {
  expect_rejected(file("bad.h5"), write_known_items,
                  {{integers("/items/features/indices", {0, 5, 3}),
                    {"items/features/indices row 0", "column 5", "0 to 4"}},
                   {integers("/items/features/indptr", {0, 2, 3}),
                    {"items/features must have a row for each of the 3 items, got 2"}},
                   {without("/items/features"), {"for each of the 3 items, got 0"}},
                   {without_attribute("item_features"), {"no attribute `item_features`"}},
                   {attribute("new_items", 3), {"`new_items` must be below attribute `items`"}},
                   {attribute("new_items", -1), {"`new_items` must be an integer from 0"}},
                   {attribute("new_items", 2), {"train/indices row 0: column 1 is outside 0 to 0"}}});
}

TEST_F(BadDataset, WithInvalidWeightsIsRejected) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto train = [](std::vector<double> of_row_2_and_3, hid_t type = H5T_IEEE_F32LE) {
    std::vector<double> values{1, 1, 1};
    values.insert(values.end(), of_row_2_and_3.begin(), of_row_2_and_3.end());
    return [=](Hdf5Editor& editor) {
      editor.remove("/train/interaction_weights");
      entry_weights("train", values, type)(editor);
    };
  };
  expect_rejected(
      file("bad.h5"), write_weighted_dataset,
      {{train({nan, 1, 1, 1, 1, 1, 1}),
        {"train/interaction_weights row 2: weight nan must be finite and above 0"}},
       {train({1, 1, 1, infinity, 1, 1, 1}), {"train/interaction_weights row 3: weight inf must be"}},
       {train({1, 1, 1, 1, 1, 1, 0}), {"train/interaction_weights row 3: weight 0 must be"}},
       {train({1, -0.5, 1, 1, 1, 1, 1}), {"train/interaction_weights row 3: weight -0.5 must be"}},
       {train({1, 1, 1, 1, 1, 1, 1e300}, H5T_IEEE_F64LE),
        {"train/interaction_weights row 3: weight inf must be"}},
       {train({1, 1}), {"train/interaction_weights has 5 entries, but train/indices has 10"}},
       {instead("/train/interaction_weights", &Hdf5Editor::put_table, 10, 1),
        {"train/interaction_weights has 2 dimensions"}},
       {instead("/train/interaction_weights", &Hdf5Editor::put_hdf5_group),
        {"train/interaction_weights is not a dataset"}},
       {instead("/train/interaction_weights", &Hdf5Editor::put_variable_strings,
                std::vector<std::string>(10, "1")),
        {"train/interaction_weights has variable length"}},
       {without("/train/interaction_weights"),
        {"/validation/fold_in has weights, but /train has none", "or none of them"}},
       {without("/validation/fold_in/interaction_weights"),
        {"/train has weights, but /validation/fold_in has none: train and both fold_in need them"}},
       {without("/test/fold_in/interaction_weights"), {"/train has weights, but /test/fold_in has none"}},
       {entry_weights("test/held_out", {1}),
        {"/test/held_out has weights: only train and both fold_in may have; remove /test/held_out/interaction_weights"}},
       {instead("/train/interaction_weights", &Hdf5Editor::put_external_storage, 10, "other.bin"),
        {"train/interaction_weights is stored in another file"}}});
  expect_rejected(
      file("bad.h5"), write_known_users,
      {{entry_weights("train/user_features", {1, 1, 1, 1, 1}), {"/train/user_features has weights"}}});
  expect_rejected(file("bad.h5"), write_small_dataset,
                  {{entry_weights("test/fold_in", {1}), {"/test/fold_in has weights, but /train has none"}}});
}

TEST_F(BadDataset, WithRepeatedIdsIsRefusedUnlessTheProgramMadeIt) {
  for (const bool own : {true, false}) {
    const auto require_unique_ids = [&](const Spoil& spoil) {
      write_small_dataset(file("d.h5"));
      {
        Hdf5Editor editor(file("d.h5"));
        if (!own) editor.remove_attribute("source");
        spoil(editor);
      }
      DatasetFile(file("d.h5")).require_unique_ids();
    };
    EXPECT_NO_THROW(require_unique_ids([](Hdf5Editor&) {}));
    for (const auto& [path, values, problem] : std::vector<std::tuple<std::string, Integers, std::string>>{
             {"/items/id", {1, 9, 3, 4, 9, 9}, "d.h5: rows 1 and 4 of /items/id are both '9'"},
             {"/train/user_id", {7, -3, 0, -3}, "d.h5: rows 1 and 3 of /train/user_id are both '-3'"}}) {
      if (own)
        EXPECT_NO_THROW(require_unique_ids(integers(path, values)));
      else
        expect_refused<InputError>({problem}, [&] { require_unique_ids(integers(path, values)); });
    }
  }
}

TEST_F(BadDataset, MessageStatesTheProblemOfThePath) {
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

TEST_F(BadDataset, TruncationsAndRowsOutOfRangeAreRejected) {
  write_small_dataset(file("whole.h5"));
  const std::string whole = bytes_of(file("whole.h5"));
  for (std::size_t size = 1; size < whole.size(); size += size < 200 ? 1 : 97) {
    put_bytes(file("cut.h5"), whole.substr(0, size));
    const std::string message = message_of<InputError>([&] { read_everything(file("cut.h5")); });
    EXPECT_TRUE(message.find("not an HDF5 file") != std::string::npos ||
                message.find("truncated file") != std::string::npos || size < 200)
        << message;
  }
  const DatasetFile dataset(file("whole.h5"));
  EXPECT_THROW(dataset.read_rows("train", {0, 5}), InputError);
  EXPECT_THROW(dataset.read_rows("train", {-1, 1}), InputError);
  EXPECT_THROW(dataset.read_rows("train", {3, 2}), InputError);
  EXPECT_THROW(dataset.rows("validation"), InputError);
}

}  // namespace
}  // namespace vaecf::io
