#include <vaecf/base/error.hpp>
#include <vaecf/models/kind.hpp>

#include <gtest/gtest.h>

namespace vaecf::models {
namespace {

TEST(Kinds, AreInTheOrderOfTheirTypes) {
  std::int64_t count = 0;
  for (const auto& [type, name] : enum_names<ModelType>) {
    EXPECT_EQ(kind_of(type).type(), type) << name;
    EXPECT_EQ(find_kind(name), &kind_of(type));
    EXPECT_NE(kind_of(type).solved() != nullptr, kind_of(type).trained() != nullptr) << name;
    if (is_solved(type)) {
      EXPECT_THROW(tensor_specs({.type = type}, 30), InputError) << name;
    }
    ++count;
  }
  EXPECT_EQ(std::ssize(all_kinds()), count);
  EXPECT_EQ(find_kind("popularity"), nullptr);
}

}  // namespace
}  // namespace vaecf::models
