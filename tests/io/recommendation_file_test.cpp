// Read back through the bare C library, as its users would.
#include "io/io_fixture.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/recommendation_file.hpp>

#include <hdf5.h>

#include <array>
#include <cmath>
#include <limits>

namespace vaecf::io {
namespace {

/// All values of a dataset of the file, with its shape and the class of its type.
template <class T>
struct Table {
  Table(const std::string& path, const char* name, hid_t type) {
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
    const hid_t space = H5Dget_space(dataset);
    const hid_t stored = H5Dget_type(dataset);
    shape.resize(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
    H5Sget_simple_extent_dims(space, shape.data(), nullptr);
    kind = H5Tget_class(stored);
    bytes = H5Tget_size(stored);
    values.resize(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    EXPECT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << name;
    H5Tclose(stored);
    H5Sclose(space);
    H5Dclose(dataset);
    H5Fclose(file);
  }

  std::vector<hsize_t> shape;
  H5T_class_t kind = H5T_NO_CLASS;
  std::size_t bytes = 0;
  std::vector<T> values;
};

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
  /// The first user alone, then the two others.
  static void append_all(RecommendationWriter& writer) {
    constexpr float none = -std::numeric_limits<float>::infinity();
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    append_first(writer);
    writer.append(std::array<std::int32_t, 4>{1, -1, 0, 1}, std::array<float, 4>{3.0F, none, nan, nan},
                  std::array<std::uint8_t, 2>{0, 1});
  }

  RecommendationHead head_;
};

TEST_F(RecommendationFile, HoldsWhatEachUserGot) {
  {
    RecommendationWriter writer(file("top.h5"), head_);
    append_all(writer);
    EXPECT_FALSE(std::filesystem::exists(file("top.h5"))) << "before the commit";
    writer.commit();
  }
  EXPECT_EQ(names(), std::vector<std::string>{"top.h5"});
  const Table<std::int32_t> items(file("top.h5"), "item", H5T_NATIVE_INT32);
  EXPECT_EQ(items.shape, (std::vector<hsize_t>{3, 2}));
  EXPECT_EQ(items.values, (std::vector<std::int32_t>{2, 0, 1, -1, 0, 1}));
  const Table<float> scores(file("top.h5"), "score", H5T_NATIVE_FLOAT);
  EXPECT_EQ(scores.shape, items.shape);
  EXPECT_EQ(scores.bytes, 4U);
  EXPECT_EQ(scores.values[1], -0.25F);
  EXPECT_EQ(scores.values[3], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(scores.values[4]));
  const Table<std::uint8_t> popular(file("top.h5"), "popular", H5T_NATIVE_UINT8);
  EXPECT_EQ(popular.values, (std::vector<std::uint8_t>{0, 0, 1}));
}

TEST_F(RecommendationFile, IdsKeepTheirKind) {
  {
    RecommendationWriter writer(file("top.h5"), head_);
    append_all(writer);
    writer.commit();
  }
  const Table<std::int64_t> users(file("top.h5"), "user_id", H5T_NATIVE_INT64);
  EXPECT_EQ(users.kind, H5T_INTEGER);
  EXPECT_EQ(users.values, head_.users.numbers);
  RecommendationHead one = head_;
  one.users = head_.users.only(1);
  {
    RecommendationWriter writer(file("one.h5"), one);
    append_first(writer);
    writer.commit();
  }
  const Table<std::int64_t> user(file("one.h5"), "user_id", H5T_NATIVE_INT64);
  EXPECT_EQ(user.kind, H5T_INTEGER) << "as the ids of many";
  EXPECT_EQ(user.values, std::vector<std::int64_t>{-3});
}

TEST_F(RecommendationFile, IsNotTakenForADataset) {
  {
    RecommendationWriter writer(file("top.h5"), head_);
    append_all(writer);
    writer.commit();
  }
  const std::string message = message_of<InputError>([&] { DatasetFile{file("top.h5")}; });
  EXPECT_NE(message.find("top.h5: holds recommendations, not a dataset"), std::string::npos) << message;
}

TEST_F(RecommendationFile, IsNotThereWithoutACommit) {
  {
    RecommendationWriter writer(file("top.h5"), head_);
    append_first(writer);
  }
  EXPECT_TRUE(names().empty());
}

}  // namespace
}  // namespace vaecf::io
