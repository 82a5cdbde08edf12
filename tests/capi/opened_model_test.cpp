// An open model needs its file no longer, and gives the similar items of the program.
#include <cstdio>
#include <tuple>

#include "app/later_version.hpp"
#include "capi/c_interface_fixture.hpp"

namespace vaecf::app {
namespace {

TEST_F(CInterface, SimilarItemsAreThoseOfTheProgram) {
  for (const char* const settings : models) {
    SCOPED_TRACE(settings);
    open(settings);
    const std::vector<std::int32_t> items = {50, 3};
    const Lists found = similar(items, 4);
    const std::string lines = workspace
                                  .succeed("similar --checkpoint " + checkpoint() +
                                           " --quiet --top 4 --item " + id_of(50) + " --item " + id_of(3))
                                  .out;
    std::string expected = "item\tsimilar\tscore\n";
    for (std::size_t n = 0; n < 8; ++n) {
      std::array<char, 32> score{};
      std::snprintf(score.data(), score.size(), "%.9g", static_cast<double>(found.scores[n]));
      expected += id_of(items[n / 4]) + "\t" + id_of(found.items[n]) + "\t" + score.data() + "\n";
    }
    EXPECT_EQ(lines, expected);
  }
}

TEST_F(CInterface, EverythingIsReadAtOpen) {
  for (const char* const settings : models) {
    SCOPED_TRACE(settings);
    open(settings);
    request_.reasons = 1;
    const auto answers = [&] {
      std::vector<float> vectors(60 * 7);
      vaecf_item_vectors(model_, 0, 60, 7, vectors.data());  // of the last model
      return std::tuple(recommend(request_), similar({50, 3, 50}, 59), vectors);
    };
    const auto before = answers();
    workspace.write("runs/small/checkpoints/best.h5", "in place");
    EXPECT_EQ(answers(), before);
    workspace.bash("rm -r runs");
    EXPECT_EQ(answers(), before);
  }
}

/// Python opens models by this function.
TEST_F(CInterface, ModelsOfLaterVersionsAreRefused) {
  open("");
  const io::CheckpointFile file(checkpoint());
  const std::string later = workspace.path("later.h5");
  const auto opened = [&](const Unknown& unknown) {
    write_later_version(file, later, unknown.configuration, unknown.attributes);
    vaecf_model* model = nullptr;
    const vaecf_status status = vaecf_open(later.c_str(), nullptr, &model);
    vaecf_close(model);
    return status;
  };
  EXPECT_EQ(opened(of_no_effect), VAECF_OK);
  for (const Unknown& unknown : unknown_to_this_version) {
    EXPECT_EQ(opened(unknown), VAECF_INVALID);
    EXPECT_NE(std::string(vaecf_error()).find(unknown.message), std::string::npos) << vaecf_error();
  }
}

}  // namespace
}  // namespace vaecf::app
