// Reads the files with the HDF5 C library, as other programs do.
#include <vaecf/io/model_export.hpp>

#include <hdf5.h>

#include <array>
#include <cmath>
#include <limits>

#include "io/io_fixture.hpp"
#include "support/bad_hdf5.hpp"

namespace vaecf::io {
namespace {

/// Expects the values of a dataset of the file, of the type class `kind`. Returns them.
template <class T>
std::vector<T> values_in(const std::string& path, const char* name, hid_t type, H5T_class_t kind) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
  const hid_t space = H5Dget_space(dataset);
  const hid_t stored = H5Dget_type(dataset);
  EXPECT_EQ(H5Tget_class(stored), kind) << name;
  std::vector<T> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  EXPECT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << name;
  H5Tclose(stored);
  H5Sclose(space);
  H5Dclose(dataset);
  H5Fclose(file);
  return values;
}
std::vector<std::int64_t> integers_in(const std::string& path, const char* name) {
  return values_in<std::int64_t>(path, name, H5T_NATIVE_INT64, H5T_INTEGER);
}

using Integers = std::vector<std::int64_t>;

class RecommendationFile : public IoTest {
 protected:
  RecommendationFile() {
    head_.users.numbers = {70, -3, std::int64_t{1} << 40};
    head_.items.strings = {"a", "bb", "c"};
    head_.k = 2;
    head_.attributes = {{"seen_items", std::string("kept")}};
  }
  static void append_first(RecommendationWriter& writer) {
    writer.append(std::array<std::int32_t, 2>{2, 0}, std::array<float, 2>{1.5F, -0.25F},
                  std::array<std::uint8_t, 1>{0});
  }
  /// Appends the first user, then the other two.
  void write_all(const std::string& path) const {
    constexpr float none = -std::numeric_limits<float>::infinity();
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    RecommendationWriter writer(path, head_);
    append_first(writer);
    writer.append(std::array<std::int32_t, 4>{1, -1, 0, 1}, std::array<float, 4>{3.0F, none, nan, nan},
                  std::array<std::uint8_t, 2>{0, 1});
    EXPECT_FALSE(std::filesystem::exists(path)) << "before the commit";
    writer.commit();
  }

  RecommendationHeader head_;
};

TEST_F(RecommendationFile, ContainsItemsAndScoresOfEachUser) {
  write_all(file("top.h5"));
  EXPECT_EQ(names(), std::vector<std::string>{"top.h5"});
  EXPECT_EQ(integers_in(file("top.h5"), "item_index"), (Integers{2, 0, 1, -1, 0, 1}));
  const auto scores = values_in<float>(file("top.h5"), "score", H5T_NATIVE_FLOAT, H5T_FLOAT);
  EXPECT_EQ(scores.at(1), -0.25F);
  EXPECT_EQ(scores.at(3), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(scores.at(4)));
  EXPECT_EQ(integers_in(file("top.h5"), "popular"), (Integers{0, 0, 1}));
  EXPECT_EQ(integers_in(file("top.h5"), "user_id"), head_.users.numbers);
  expect_refused<InputError>({"top.h5: contains recommendations, not a dataset"},
                             [&] { DatasetFile{file("top.h5")}; });
}

TEST_F(RecommendationFile, ListsAreReadAsWritten) {
  const std::string path = file("top.h5");
  write_all(path);
  const RecommendedLists lists = read_recommendations(path);
  EXPECT_EQ(lists.users.numbers, head_.users.numbers);
  EXPECT_EQ(lists.items.strings, head_.items.strings);
  EXPECT_EQ(lists.places, (std::vector<std::int32_t>{2, 0, 1, -1, 0, 1}));

  const auto refuse = [&](const std::string& name, const std::string& part) {
    expect_refused<InputError>({name + ": ", part}, [&] { read_recommendations(file(name)); });
  };
  head_.items.strings = {"a", "bb"};
  write_all(file("few.h5"));
  refuse("few.h5", "/item_index contains an index outside /item_id");
  {
    test::Hdf5Editor edit(path);
    edit.remove("item_index");
    edit.put_integers("item_index", {0, 1, 2}, H5T_STD_I32LE);
  }
  refuse("top.h5", "/item_index must have a row of integers for each of /user_id");
  write_user_columns(file("users.h5"), {head_.users, {}, {}});
  refuse("users.h5", "item_id");
}

TEST_F(RecommendationFile, SimilarItemsHaveTheItemsThatTheyAreOf) {
  head_.users.numbers.clear();
  head_.similar_to = {2, 1};
  head_.reasons = 0;
  {
    RecommendationWriter writer(file("similar.h5"), head_);
    append_first(writer);
    append_first(writer);
    writer.commit();
  }
  EXPECT_EQ(integers_in(file("similar.h5"), "item_index"), (Integers{2, 1}));
  EXPECT_EQ(integers_in(file("similar.h5"), "similar_index"), (Integers{2, 0, 2, 0}));
  EXPECT_EQ(values_in<float>(file("similar.h5"), "score", H5T_NATIVE_FLOAT, H5T_FLOAT).size(), 4U);
  expect_refused<InputError>({"similar.h5: ", "user_id"}, [&] { read_recommendations(file("similar.h5")); });
}

TEST_F(RecommendationFile, UserColumnsContainOneValuePerUser) {
  const UserColumns content{head_.users,
                            {{"history", std::vector<std::int64_t>{4, 0, 9}},
                             {"ease/ndcg@10", std::vector<double>{0.25, 1.0 / 3.0, 0.0}}},
                            {{"model", std::string("mult_vae")}}};
  for (int again = 0; again < 2; ++again) write_user_columns(file("users.h5"), content);
  EXPECT_EQ(names(), std::vector<std::string>{"users.h5"});
  EXPECT_EQ(integers_in(file("users.h5"), "user_id"), head_.users.numbers);
  EXPECT_EQ(integers_in(file("users.h5"), "history"), (Integers{4, 0, 9}));
  EXPECT_EQ(values_in<double>(file("users.h5"), "ease/ndcg@10", H5T_NATIVE_DOUBLE, H5T_FLOAT),
            (std::vector<double>{0.25, 1.0 / 3.0, 0.0}));
}

TEST_F(RecommendationFile, SingleIdKeepsItsTypeAndWithoutCommitThereIsNoFile) {
  head_.users = head_.users.select(Integers{1});
  for (const bool commit : {false, true}) {
    {
      RecommendationWriter writer(file("one.h5"), head_);
      append_first(writer);
      if (commit) writer.commit();
    }
    EXPECT_EQ(names().size(), commit ? 1U : 0U);
  }
  EXPECT_EQ(integers_in(file("one.h5"), "user_id"), Integers{-3});
}

}  // namespace
}  // namespace vaecf::io
