#include <vaecf/base/version.hpp>

#include <algorithm>
#include <random>

#include "io/io_fixture.hpp"
#include "support/bad_hdf5.hpp"

namespace vaecf::io {
namespace {

using DatasetRoundTrip = IoTest;
using Offsets = std::vector<std::int64_t>;

TEST_F(DatasetRoundTrip, ReadsWhatWasWritten) {
  write_small_dataset(file("small.h5"));
  const DatasetFile dataset(file("small.h5"));
  EXPECT_EQ(names(), std::vector<std::string>{"small.h5"});
  EXPECT_EQ(dataset.path(), file("small.h5"));
  EXPECT_EQ(dataset.items(), 6);
  EXPECT_EQ(dataset.rows("train"), 4);
  EXPECT_EQ(dataset.entries("train"), 10);
  EXPECT_EQ(dataset.rows("validation/held_out"), 2);

  const Csr all = dataset.read_rows("train", {0, 4});
  EXPECT_EQ(all.offsets, (Offsets{0, 3, 3, 4, 10}));
  EXPECT_EQ(all.columns, (Row{0, 2, 5, 1, 0, 1, 2, 3, 4, 5}));
  const Csr part = dataset.read_rows("train", {1, 3});
  EXPECT_EQ(part.offsets, (Offsets{0, 0, 1}));
  EXPECT_EQ(part.columns, Row{1});
  const Csr none = dataset.read_rows("train", {4, 4});
  EXPECT_EQ(none.offsets, Offsets{0});

  EXPECT_EQ(std::get<std::string>(dataset.attributes().at("name")), "small");
  EXPECT_EQ(std::get<std::string>(dataset.attributes().at("source")), "");
  EXPECT_EQ(std::get<double>(dataset.attributes().at("min_rating")), 3.5);
  EXPECT_EQ(std::get<std::int64_t>(dataset.attributes().at("format_version")), 3);
  EXPECT_EQ(writer_of(dataset.attributes()), written_by());

  const IdList items = dataset.read_ids("items/id");
  EXPECT_FALSE(items.numeric());
  EXPECT_EQ(items.strings, (std::vector<std::string>{"a", "bb", "", "\xc3\xa4", "e e", "f"}));
  const IdList users = dataset.read_ids("train/user_id");
  EXPECT_TRUE(users.numeric());
  EXPECT_EQ(users.numbers, (std::vector<std::int64_t>{7, -3, std::int64_t{1} << 40, 0}));
  EXPECT_EQ(users.text(1), "-3");
  const std::vector<std::int64_t> chosen = {2, 0};
  EXPECT_EQ(users.select(chosen).numbers, (std::vector{users.numbers[2], users.numbers[0]}));
  EXPECT_EQ(items.select(chosen).strings, (std::vector{items.strings[2], items.strings[0]}));
  EXPECT_EQ(users.size(), 4);
  EXPECT_TRUE(dataset.has_ids("items/id"));
  EXPECT_FALSE(dataset.has_ids("items/title"));
  EXPECT_THROW(dataset.read_ids("items/title"), InputError);
}

TEST_F(DatasetRoundTrip, ColumnsMayEndWithAChunk) {
  constexpr std::int64_t chunk = std::int64_t{128} << 10;
  for (const int compression : {0, 1}) {
    const auto fill = [&](DatasetWriter& writer) {
      writer.append_row("train", Row{3, 5});
      for (std::int64_t r = 2; r < chunk; ++r) writer.append_row("train", Row{4});
    };
    write_dataset(file("exact.h5"), 6, fill, compression);
    const DatasetFile dataset(file("exact.h5"));
    EXPECT_EQ(dataset.rows("train") + 1, chunk);
    EXPECT_EQ(dataset.entries("train"), chunk);
    EXPECT_EQ(dataset.read_rows("train", {0, 2}).columns, (Row{3, 5, 4}));
    EXPECT_EQ(dataset.read_rows("train", {chunk - 2, chunk - 1}).columns, Row{4});
  }
}

TEST_F(DatasetRoundTrip, LongColumnsCrossChunks) {
  std::mt19937 random(1);
  Csr expected;
  write_dataset(file("long.h5"), 1000, [&](DatasetWriter& writer) {
    for (int r = 0; r < 150000; ++r) {
      Row row;
      for (auto c = static_cast<std::int32_t>(random() % 900); c < 1000; c += 1 + random() % 300)
        row.push_back(c);
      writer.append_row("train", row);
      expected.columns.insert(expected.columns.end(), row.begin(), row.end());
      expected.offsets.push_back(static_cast<std::int64_t>(expected.columns.size()));
    }
  });
  ASSERT_GT(expected.columns.size(), std::size_t{2} * (128 << 10));
  const DatasetFile dataset(file("long.h5"));
  const Csr all = dataset.read_rows("train", {0, 150000});
  EXPECT_EQ(all.offsets, expected.offsets);
  EXPECT_EQ(all.columns, expected.columns);
  const Csr part = dataset.read_rows("train", {131070, 131074});
  for (std::int64_t r = 0; r < 4; ++r) {
    EXPECT_TRUE(std::ranges::equal(part.view().row(r), expected.view().row(131070 + r)));
  }
}

TEST_F(DatasetRoundTrip, CompressedFileIsSmallerWithTheSameContents) {
  const auto fill = [](DatasetWriter& writer) {
    for (std::int32_t r = 0; r < 3000; ++r) {
      Row row(100);
      for (std::int32_t c = 0; c < 100; ++c) row[static_cast<std::size_t>(c)] = 7 * c + r % 5;
      writer.append_row("train", row);
    }
  };
  write_dataset(file("plain.h5"), 1000, fill);
  write_dataset(file("packed.h5"), 1000, fill, 1);
  EXPECT_LT(3 * std::filesystem::file_size(file("packed.h5")), std::filesystem::file_size(file("plain.h5")));
  const DatasetFile plain(file("plain.h5"));
  const DatasetFile packed(file("packed.h5"));
  EXPECT_EQ(plain.compression(), 0);
  EXPECT_EQ(packed.compression(), 1);
  EXPECT_EQ(plain.fingerprint(), packed.fingerprint());
  EXPECT_EQ(plain.read_rows("train", {0, 3000}).offsets, packed.read_rows("train", {0, 3000}).offsets);
  EXPECT_EQ(plain.read_rows("train", {0, 3000}).columns, packed.read_rows("train", {0, 3000}).columns);
}

TEST_F(DatasetRoundTrip, EmptyMatricesAreWrittenAndUnknownOnesAreNot) {
  write_dataset(file("empty.h5"), 3, [](DatasetWriter& writer) { writer.write_ids("train/user_id", {}); });
  const DatasetFile dataset(file("empty.h5"));
  for (const char* name : {"train", "validation/fold_in", "test/held_out"}) {
    EXPECT_EQ(dataset.rows(name), 0);
    EXPECT_EQ(dataset.entries(name), 0);
    EXPECT_EQ(dataset.read_rows(name, {0, 0}).rows(), 0);
  }
  EXPECT_EQ(dataset.read_ids("train/user_id").size(), 0);
  DatasetWriter writer(file("d.h5"));
  EXPECT_THROW(writer.append_row("trian", Row{1}), InputError);
  EXPECT_THROW(writer.write_ids("items/id", {{}, {std::string(5000, 'x')}}), InputError);
}

/// Replaces a dataset of the file by other integers.
void replace(const std::string& path, const std::string& name, const Offsets& values,
             hid_t type = H5T_STD_I64LE) {
  test::Hdf5Editor editor(path);
  editor.remove(name);
  editor.put_integers(name, values, type);
}

// Checkpoints refer to their dataset by its fingerprint, so it must not change.
TEST_F(DatasetRoundTrip, FingerprintsOfDifferentDatasetsDiffer) {
  write_small_dataset(file("a.h5"));
  write_small_dataset(file("b.h5"));
  EXPECT_EQ(bytes_of(file("a.h5")), bytes_of(file("b.h5")));
  const std::string print = "9a1f69be208148d8";
  EXPECT_EQ(DatasetFile(file("a.h5")).fingerprint(), print);
  test::Hdf5Editor(file("a.h5")).put_string_attribute("written_by", "another version");
  test::Hdf5Editor(file("a.h5")).put_string_attribute("requires", " ");
  EXPECT_THROW(DatasetFile(file("a.h5")), InputError);
  test::Hdf5Editor(file("a.h5")).remove_attribute("requires");
  EXPECT_EQ(DatasetFile(file("a.h5")).fingerprint(), print);
  test::Hdf5Editor(file("a.h5")).put_integer_attribute("seed", 1);
  EXPECT_NE(DatasetFile(file("a.h5")).fingerprint(), print);
  replace(file("b.h5"), "/train/indptr", {0, 2, 3, 4, 10});
  EXPECT_NE(DatasetFile(file("b.h5")).fingerprint(), print);

  write_known_users(file("c.h5"));
  const std::string known = DatasetFile(file("c.h5")).fingerprint();
  replace(file("c.h5"), "/train/user_features/indptr", {0, 2, 4, 5});
  EXPECT_NE(DatasetFile(file("c.h5")).fingerprint(), known);

  write_known_items(file("i.h5"));
  const std::string items = DatasetFile(file("i.h5")).fingerprint();
  replace(file("i.h5"), "/items/features/indices", {0, 4, 2});
  EXPECT_NE(DatasetFile(file("i.h5")).fingerprint(), items);
}

TEST_F(DatasetRoundTrip, ErrorStatesWhyADatasetIsNotReplaced) {
  const std::string path = file("a.h5");
  write_small_dataset(path);
  test::Hdf5Editor(path).put_string_attribute("requires", "soft targets");
  try {
    check_replaceable(path, false);
    FAIL() << "replaced";
  } catch (const InputError& error) {
    for (const char* part : {"pass --replace", "requires a program that knows soft targets"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
  EXPECT_FALSE(check_replaceable(path, true));
}

// The numbers of items per user are equal, so only the items differ.
TEST_F(DatasetRoundTrip, FingerprintOfAForeignFileCoversItsContents) {
  const std::string path = file("own.h5");
  const auto print_with = [&](const std::string& name, const Offsets& values, hid_t type) {
    write_small_dataset(path);
    test::Hdf5Editor(path).remove_attribute("source");  // present only in files of `prepare`
    replace(path, name, values, type);
    return DatasetFile(path).fingerprint();
  };
  const Offsets items = {0, 2, 5, 1, 0, 1, 2, 3, 4, 5};
  const Offsets others = {0, 2, 5, 3, 0, 1, 2, 3, 4, 5};
  EXPECT_NE(print_with("/train/indices", items, H5T_STD_I32LE),
            print_with("/train/indices", others, H5T_STD_I32LE));
  const auto print_with_weights = [&](double last) {
    std::filesystem::remove(path);
    write_weighted_dataset(path);
    test::Hdf5Editor editor(path);
    editor.remove("/test/fold_in/interaction_weights");
    editor.put_doubles("/test/fold_in/interaction_weights", {last}, H5T_IEEE_F32LE);
    return path;
  };
  EXPECT_EQ(DatasetFile(print_with_weights(1)).fingerprint(),
            DatasetFile(print_with_weights(1)).fingerprint());
  EXPECT_NE(DatasetFile(print_with_weights(1)).fingerprint(),
            DatasetFile(print_with_weights(2)).fingerprint());
  const Offsets users = {7, -3, 4, 0};
  EXPECT_EQ(print_with("/train/user_id", users, H5T_STD_I64LE),
            print_with("/train/user_id", users, H5T_STD_I64LE));
  EXPECT_NE(print_with("/train/user_id", users, H5T_STD_I64LE),
            print_with("/train/user_id", {0, 4, -3, 7}, H5T_STD_I64LE));
}

using Floats = std::vector<float>;

TEST_F(DatasetRoundTrip, WeightsRoundTrip) {
  write_weighted_dataset(file("d.h5"));
  const DatasetFile dataset(file("d.h5"));
  EXPECT_TRUE(dataset.weighted());
  EXPECT_EQ(std::get<std::string>(dataset.attributes().at("interaction_weights")), "rating");
  const Csr all = dataset.read_rows("train", {0, 4});
  EXPECT_EQ(all.offsets, (Offsets{0, 3, 3, 4, 10}));
  EXPECT_EQ(all.values, (Floats{.5F, 1, 1.5F, 1, .25F, .25F, .5F, 1, 2, 2}));
  const Csr part = dataset.read_rows("train", {1, 3});
  EXPECT_EQ(part.columns, Row{1});
  EXPECT_EQ(part.values, Floats{1});
  EXPECT_EQ(dataset.read_rows("train", {1, 2}).values, Floats()) << "a row without items";
  EXPECT_EQ(dataset.read_rows("validation/fold_in", {0, 2}).values, (Floats{.75F, 1.25F, 1}));
  EXPECT_EQ(dataset.read_rows("test/fold_in", {0, 1}).values, Floats{1});
  EXPECT_EQ(dataset.read_rows("validation/held_out", {0, 2}).values, Floats());
  write_small_dataset(file("ones.h5"));
  EXPECT_FALSE(DatasetFile(file("ones.h5")).weighted());
  EXPECT_EQ(DatasetFile(file("ones.h5")).read_rows("train", {0, 4}).values, Floats());
}

TEST_F(DatasetRoundTrip, WeightsAreCompressedAndLinkedWithTheirMatrix) {
  for (const int compression : {0, 3}) {
    const auto fill = [](DatasetWriter& writer) {
      for (int r = 0; r < 90000; ++r)
        writer.append_row("train", {Row{1, 3}, Floats{0.5F + static_cast<float>(r % 7), 1.0F}});
      for (int r = 0; r < 90000; ++r) writer.append_row("test/held_out", Row{2});
      writer.link("test/fold_in", "train");
      writer.set_attribute("interaction_weights", std::string("log1p"));
    };
    write_dataset(file("weak.h5"), 6, fill, compression);
    const DatasetFile dataset(file("weak.h5"));
    EXPECT_TRUE(dataset.weighted());
    for (const char* const matrix : {"train", "test/fold_in"}) {
      EXPECT_EQ(dataset.read_rows(matrix, {69998, 70000}).values, (Floats{5.5F, 1, 6.5F, 1}));
      EXPECT_EQ(dataset.read_rows(matrix, {0, 90000}).values.size(), 180000U);
    }
    EXPECT_EQ(dataset.rows("validation/fold_in"), 0);
  }
}

// Integers are numbers; their sum per user does not matter.
TEST_F(DatasetRoundTrip, WeightsOfOtherWritersMayHaveAnyNumberType) {
  for (const hid_t type : {H5T_IEEE_F64LE, H5T_IEEE_F32BE, H5T_STD_U8LE, H5T_STD_I64BE}) {
    std::filesystem::remove(file("h5py.h5"));
    {
      test::Hdf5Editor editor(file("h5py.h5"));
      editor.put_integer_attribute("items", 5);
      editor.put_integers("/train/indptr", {0, 2, 2, 3}, H5T_STD_I32LE);
      editor.put_integers("/train/indices", {1, 4, 0}, H5T_STD_I32LE);
      editor.put_doubles("/train/data", {1, 1, 1}, H5T_IEEE_F32LE);
      editor.put_doubles("/train/interaction_weights", {3, 200, 7}, type);
      editor.put_integers("/test/fold_in/indptr", {0, 0},
                          H5T_STD_I32LE);  // without items, so without weights
      editor.put_integers("/test/fold_in/indices", {}, H5T_STD_I32LE);
      editor.put_integers("/test/held_out/indptr", {0, 1}, H5T_STD_I32LE);
      editor.put_integers("/test/held_out/indices", {3}, H5T_STD_I32LE);
    }
    const DatasetFile dataset(file("h5py.h5"));
    EXPECT_TRUE(dataset.weighted());
    EXPECT_EQ(dataset.read_rows("train", {0, 3}).values, (Floats{3, 200, 7}));
    EXPECT_EQ(dataset.read_rows("test/fold_in", {0, 1}).values, Floats());
  }
}

TEST_F(DatasetRoundTrip, ReadsTypesAndLayoutsOfOtherWriters) {
  {
    test::Hdf5Editor editor(file("h5py.h5"));
    using Packing = test::Hdf5Editor::Packing;
    editor.put_integer_attribute("items", 5);
    editor.put_integers("/train/indptr", {0, 2, 2, 3}, H5T_STD_I32LE);
    editor.put_integers("/train/indices", {1, 4, 0}, H5T_STD_I64BE, Packing::gzip);
    editor.put_doubles("/train/data", {1, 1, 1}, H5T_IEEE_F32LE);
    editor.put_hdf5_group("/test");
    editor.put_soft_link("/test/fold_in", "/train");
    editor.put_integers("/test/held_out/indptr", {0, 1, 1, 2}, H5T_STD_U64LE);
    editor.put_integers("/test/held_out/indices", {3, 3}, H5T_STD_U16LE);
    editor.put_integers("/items/id", {10, 20, 30, 40, 50}, H5T_STD_U8LE);
    editor.put_integers("/train/user_id", {1, 2, std::int64_t{1} << 60}, H5T_STD_U64LE);
  }
  const DatasetFile dataset(file("h5py.h5"));
  EXPECT_EQ(dataset.rows("validation/fold_in"), 0);
  EXPECT_EQ(dataset.rows("test/fold_in"), 3);
  for (const char* name : {"train", "test/fold_in"}) {
    const Csr rows = dataset.read_rows(name, {0, 3});
    EXPECT_EQ(rows.offsets, (Offsets{0, 2, 2, 3}));
    EXPECT_EQ(rows.columns, (Row{1, 4, 0}));
  }
  EXPECT_EQ(dataset.read_rows("test/held_out", {0, 3}).columns, (Row{3, 3}));
  EXPECT_EQ(dataset.read_ids("items/id").numbers, (std::vector<std::int64_t>{10, 20, 30, 40, 50}));
  EXPECT_EQ(dataset.read_ids("train/user_id").numbers.back(), std::int64_t{1} << 60);
}

TEST_F(DatasetRoundTrip, FeaturesRoundTrip) {
  write_known_users(file("d.h5"));
  const DatasetFile dataset(file("d.h5"));
  EXPECT_EQ(dataset.features(), 6);
  EXPECT_EQ(dataset.rows("train/user_features"), 3);
  EXPECT_EQ(dataset.entries("train/user_features"), 5);
  const Csr part = dataset.read_rows("train/user_features", {1, 3});
  EXPECT_EQ(part.offsets, (std::vector<std::int64_t>{0, 3, 3}));
  EXPECT_EQ(part.columns, (Row{1, 2, 4})) << "column 4 is a feature, not an item";
  EXPECT_EQ(dataset.read_rows("validation/user_features", {0, 1}).columns, Row{3});
  EXPECT_EQ(dataset.rows("test/user_features"), 0);
  EXPECT_THROW(dataset.read_rows("train/user_features", {0, 4}), InputError);
  EXPECT_THROW(dataset.rows("train/titles"), InputError);
}

TEST_F(DatasetRoundTrip, FeaturesOfItemsRoundTrip) {
  write_known_items(file("d.h5"));
  const DatasetFile dataset(file("d.h5"));
  EXPECT_EQ(dataset.item_features(), 5);
  EXPECT_EQ(dataset.new_items(), 1);
  EXPECT_EQ(dataset.features(), 0);
  const Csr all = dataset.read_rows("items/features", {0, 3});
  EXPECT_EQ(all.offsets, (Offsets{0, 2, 2, 3}));
  EXPECT_EQ(all.columns, (Row{0, 4, 3})) << "columns 3 and 4 are features, not items";
  EXPECT_EQ(dataset.read_rows("test/held_out", {0, 1}).columns, (Row{1, 2}));
  write_known_users(file("users.h5"));
  EXPECT_EQ(DatasetFile(file("users.h5")).item_features(), 0);
  EXPECT_EQ(DatasetFile(file("users.h5")).new_items(), 0);
  EXPECT_EQ(DatasetFile(file("users.h5")).rows("items/features"), 0);
}

TEST_F(DatasetRoundTrip, LinkedPartsShareTheirMatrices) {
  write_dataset(file("weak.h5"), 3, [](DatasetWriter& writer) {
    writer.append_row("train", Row{0, 1});
    writer.append_row("train/user_features", Row{1});
    writer.append_row("test/held_out", Row{2});
    writer.link("test/fold_in", "train");
    writer.link("test/user_features", "train/user_features");
    writer.set_attribute("user_features", std::int64_t{2});
  });
  const DatasetFile dataset(file("weak.h5"));
  EXPECT_EQ(dataset.read_rows("test/user_features", {0, 1}).columns, Row{1});
  EXPECT_EQ(dataset.rows("validation/user_features"), 0);
}

}  // namespace
}  // namespace vaecf::io
