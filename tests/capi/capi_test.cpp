// The C interface gives the lists of the program.
#include <limits>
#include <thread>

#include "capi/c_interface_fixture.hpp"

namespace vaecf::app {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST_F(CInterface, ListsAreThoseOfTheProgram) {
  for (const char* const settings : models) {
    SCOPED_TRACE(settings);
    open(settings);
    expect_lists_of_program(request_, "");
    request_.reasons = 2;
    request_.keep_seen = 1;
    expect_lists_of_program(request_, "--reasons 2 --keep-seen");
    request_.reasons = request_.keep_seen = 0;
    // Items by id, and categories that limit them.
    const std::vector<std::int32_t> included = {1, 5, 20, 21, 22, 23, 40, 41, 59}, excluded = {21};
    const vaecf_columns include{std::ssize(included), included.data()};
    const vaecf_columns exclude{std::ssize(excluded), excluded.data()};
    std::string ids, categories;
    Csr category;
    for (const std::int32_t item : included) ids += id_of(item) + "\n";
    for (std::int32_t item = 0; item < 60; ++item) {
      categories += id_of(item) + "," + std::to_string(item % 3) + "\n";
      category.append(std::array{item % 3});
    }
    workspace.write("include.csv", ids);
    workspace.write("exclude.csv", id_of(21) + "\n");
    workspace.write("categories.csv", "item,category\n" + categories);
    request_.include = &include;
    request_.exclude = &exclude;
    expect_lists_of_program(request_, "--include include.csv --exclude exclude.csv");
    const vaecf_rows limited = rows_of(category);
    request_.categories = &limited;
    request_.at_most = 1;
    expect_lists_of_program(request_,
                            "--include include.csv --exclude exclude.csv --at-most categories.csv 1");
  }
}

TEST_F(CInterface, ItemsExcludedForAUserAreSkippedInTheOrder) {
  open(models[0]);
  request_.k = 60;
  const Lists all = recommend(request_);
  Csr excluded;
  for (std::int64_t user = 0; user < users_.rows(); ++user) {
    std::vector<std::int32_t> items = {all.items[static_cast<std::size_t>(user * 60)],
                                       all.items[static_cast<std::size_t>(user * 60 + user % 5 + 1)]};
    std::ranges::sort(items);
    excluded.append(items);
  }
  request_.k = 5;
  request_.exclude_of_user = rows_of(excluded);
  const Lists found = recommend(request_);
  for (std::int64_t user = 0; user < users_.rows(); ++user) {
    std::size_t place = static_cast<std::size_t>(user * 5);
    for (std::size_t n = 0; n < 60 && place < static_cast<std::size_t>(user * 5 + 5); ++n) {
      const std::size_t at = static_cast<std::size_t>(user * 60) + n;
      if (std::ranges::binary_search(excluded.view().row(user), all.items[at])) continue;
      EXPECT_EQ(found.items[place], all.items[at]);
      EXPECT_EQ(found.scores[place], all.scores[at]);
      ++place;
    }
  }
}

TEST_F(CInterface, UnusedPlacesAreMarkedAndPopularItemsHaveNoScore) {
  open(models[0]);
  const std::vector<std::int32_t> two = {3, 4};
  const vaecf_columns include{2, two.data()};
  const Csr nobody{{0, 0, 1}, {3}};
  request_.histories = rows_of(nobody);
  request_.include = &include;
  request_.k = 3;
  request_.reasons = 1;
  const Lists found = recommend(request_);
  EXPECT_EQ(found.items[2], -1);
  EXPECT_EQ(found.scores[2], -infinity);
  EXPECT_TRUE(std::isnan(found.scores[0]));
  EXPECT_EQ((std::vector(found.items.begin() + 3, found.items.end())), (std::vector{4, -1, -1}));
  EXPECT_EQ((std::vector(found.because.begin() + 3, found.because.end())), (std::vector{3, -1, -1}));
  EXPECT_TRUE(std::isnan(found.contributions[5]));
}

TEST_F(CInterface, ScoresAreThoseOfTheLists) {
  for (const char* const settings : models) {
    SCOPED_TRACE(settings);
    open(settings);
    std::vector<float> scores(static_cast<std::size_t>(users_.rows() * 60));
    ASSERT_EQ(vaecf_score(model_, &request_, scores.data()), VAECF_OK) << vaecf_error();
    const Lists lists = recommend(request_);
    for (std::size_t place = 0; place < lists.items.size(); ++place)
      EXPECT_EQ(lists.scores[place], scores[place / 7 * 60 + static_cast<std::size_t>(lists.items[place])]);
  }
}

TEST_F(CInterface, ScoresAreProductsOfVectors) {
  std::vector<float> some(60);
  open(models[0]);
  EXPECT_EQ(vaecf_item_vectors(model_, 0, 1, 1, some.data()), VAECF_INVALID);
  EXPECT_EQ(vaecf_user_vectors(model_, &request_, 1, some.data()), VAECF_INVALID);
  // The width of the last hidden layer, and the bias; ELSA has none.
  const std::array<std::pair<const char*, std::int32_t>, 2> widths = {
      std::pair{" --set model.type=mult_vae --set model.hidden=[9]", 10}, {models[3], 7}};
  for (const auto& [settings, width] : widths) {
    SCOPED_TRACE(settings);
    open(settings);
    EXPECT_NE(std::string(vaecf_facts(model_)).find(format("\"vector_width\":{},", width)),
              std::string::npos);
    std::vector<float> items(std::size_t(60 * width)), users(std::size_t(users_.rows() * width));
    ASSERT_EQ(vaecf_item_vectors(model_, 0, 50, width, items.data()), VAECF_OK) << vaecf_error();
    ASSERT_EQ(vaecf_item_vectors(model_, 50, 10, width, &items[std::size_t(50 * width)]), VAECF_OK);
    ASSERT_EQ(vaecf_user_vectors(model_, &request_, width, users.data()), VAECF_OK) << vaecf_error();
    std::vector<float> scores(static_cast<std::size_t>(users_.rows() * 60));
    ASSERT_EQ(vaecf_score(model_, &request_, scores.data()), VAECF_OK) << vaecf_error();
    for (std::int64_t n = 0; n < std::ssize(scores); ++n) {
      double product = 0.0;
      for (std::int64_t h = 0; h < width; ++h)
        product += static_cast<double>(users[n / 60 * width + h]) * items[n % 60 * width + h];
      ASSERT_NEAR(product, scores[n], 1e-5) << n;
    }
    for (const std::array<std::int64_t, 3>& wrong : {std::array<std::int64_t, 3>{0, 1, 3},
                                                     {-1, 1, width},
                                                     {60, 1, width},
                                                     {0, 61, width},
                                                     {0, -1, width}})
      EXPECT_EQ(vaecf_item_vectors(model_, wrong[0], wrong[1], std::int32_t(wrong[2]), some.data()),
                VAECF_INVALID);
    EXPECT_EQ(vaecf_item_vectors(model_, 0, 1, width, nullptr), VAECF_INVALID);
    EXPECT_EQ(vaecf_user_vectors(model_, &request_, width, nullptr), VAECF_INVALID);
  }
}

TEST_F(CInterface, ThreadsMayUseOneModelAtOnce) {
  const std::vector<std::int32_t> some = {1, 5, 20, 21, 22, 23, 40, 41, 59};
  const vaecf_columns include{std::ssize(some), some.data()};
  for (const char* const settings : models) {
    SCOPED_TRACE(settings);
    open(settings);
    vaecf_request other = request_;
    other.include = &include;
    other.reasons = 1;
    const std::array alone = {recommend(request_), recommend(other)};
    other.threads = 1;
    const Lists alike = similar({50, 3}, 9);
    std::array<int, 4> differing{};
    {
      std::vector<std::jthread> threads;
      for (std::size_t thread = 0; thread < differing.size(); ++thread)
        threads.emplace_back([&, thread] {
          for (int repeat = 0; repeat < 10; ++repeat) {
            const Lists lists = recommend(thread % 2 == 0 ? request_ : other);
            differing[thread] += lists.items != alone[thread % 2].items;
            differing[thread] += lists.scores != alone[thread % 2].scores;
            differing[thread] += lists.because != alone[thread % 2].because;
            differing[thread] += similar({50, 3}, 9) != alike;
          }
        });
    }
    EXPECT_EQ(differing, (std::array<int, 4>{}));
  }
}

TEST_F(CInterface, NamesAreFoundAndFactsAreJson) {
  open(models[0]);
  const std::string known = id_of(17);
  const std::array<const char*, 3> ids = {known.c_str(), "nothing", ""};
  std::array<std::int32_t, 3> columns{};
  ASSERT_EQ(vaecf_find(model_, 3, ids.data(), columns.data()), VAECF_OK);
  EXPECT_EQ(columns, (std::array<std::int32_t, 3>{17, -1, -1}));
  expect_in(vaecf_facts(model_), {"\"model\":\"ease\"", "\"solved\":true", "\"items\":60",
                                  "\"user_features\":0", "\"titles\":false"});
  EXPECT_GE(vaecf_version(), 10000U);
  EXPECT_GT(vaecf_free_memory(), 1 << 20);
}

TEST_F(CInterface, WrongArgumentsAreErrors) {
  open(models[0]);
  std::vector<std::int32_t> items(1000), because(1000);
  std::vector<float> scores(1000), contributions(1000);
  const auto expect_invalid = [](vaecf_status status, const std::string& part) {
    EXPECT_EQ(status, VAECF_INVALID) << part;
    expect_in(vaecf_error(), {part});
  };
  const auto ask = [&](const vaecf_request& request) {
    return vaecf_recommend(model_, &request, items.data(), scores.data(), because.data(),
                           contributions.data());
  };
  const auto with = [&](const auto& change) {
    vaecf_request request = request_;
    change(request);
    return ask(request);
  };
  expect_invalid(with([](auto& r) { r.size = 8; }), "size must be");
  expect_invalid(with([](auto& r) { r.k = 0; }), "k: must be 1 or more");
  expect_invalid(with([](auto& r) { r.keep_seen = 2; }), "keep_seen");
  expect_invalid(with([](auto& r) { r.reasons = -1; }), "reasons: must be 0 to 1000");
  expect_invalid(with([](auto& r) { r.threads = -1; }), "threads: must be 0 or more, got -1");
  expect_invalid(with([](auto& r) { r.histories.rows = -1; }), "histories: rows");
  expect_invalid(with([](auto& r) { r.histories.begin = nullptr; }), "histories: must not be NULL");
  expect_invalid(with([](auto& r) { r.histories.columns = nullptr; }), "histories: must not be NULL");
  const std::vector<std::int64_t> begin = {0, 2}, from_one = {1, 2}, descending = {0, 1, 0};
  const std::vector<std::int32_t> twice = {4, 4}, beyond = {4, 60}, negative = {-1, 4}, fine = {4, 5};
  const std::vector<float> values = {1.0F, 1.0F};
  for (const auto* columns : {&twice, &beyond, &negative})
    expect_invalid(with([&](auto& r) {
                     r.histories = {1, begin.data(), columns->data(), nullptr};
                   }),
                   "ascending, unique and 0 to 59");
  expect_invalid(with([&](auto& r) {
                   r.histories = {1, from_one.data(), fine.data(), nullptr};
                 }),
                 "start at 0");
  expect_invalid(with([&](auto& r) {
                   r.histories = {2, descending.data(), fine.data(), nullptr};
                 }),
                 "must not descend");
  expect_invalid(with([&](auto& r) {
                   r.histories = {1, begin.data(), fine.data(), values.data()};
                 }),
                 "values must be NULL");
  expect_invalid(with([&](auto& r) {
                   r.user_features = {1, begin.data(), fine.data(), nullptr};
                 }),
                 "user_features");
  expect_invalid(with([&](auto& r) {
                   r.exclude_of_user = {1, begin.data(), fine.data(), nullptr};
                 }),
                 "must have a row for each of 20 users");
  const vaecf_columns nothing{0, nullptr}, wrong{2, beyond.data()}, fewer{-1, fine.data()};
  expect_invalid(with([&](auto& r) { r.include = &nothing; }), "no item is left");
  expect_invalid(with([&](auto& r) { r.include = &wrong; }), "include: columns must be 0 to 59, got 60");
  expect_invalid(with([&](auto& r) { r.exclude = &fewer; }), "exclude: the number of elements");
  const vaecf_rows one{1, begin.data(), fine.data(), nullptr};
  expect_invalid(with([&](auto& r) { r.categories = &one; }),
                 "categories: must have a row for each of 60 items");
  expect_invalid(vaecf_recommend(nullptr, &request_, items.data(), scores.data(), nullptr, nullptr), "model");
  expect_invalid(vaecf_recommend(model_, nullptr, items.data(), scores.data(), nullptr, nullptr), "request");
  expect_invalid(vaecf_recommend(model_, &request_, nullptr, scores.data(), nullptr, nullptr), "items");
  request_.reasons = 1;
  expect_invalid(vaecf_recommend(model_, &request_, items.data(), scores.data(), nullptr, nullptr),
                 "because");
  expect_invalid(vaecf_score(model_, &request_, nullptr), "scores");
  expect_invalid(vaecf_similar(model_, {2, beyond.data()}, 3, items.data(), scores.data()), "items: columns");
  expect_invalid(vaecf_similar(model_, {2, fine.data()}, 0, items.data(), scores.data()), "k: must be");
  const char* text = nullptr;
  std::size_t length = 0;
  expect_invalid(vaecf_name(model_, 60, 0, &text, &length), "column: must be 0 to 59, got 60");
  expect_invalid(vaecf_name(model_, 0, 1, &text, &length), "no titles");
  const char* const age = "age";
  std::int64_t used = 0;
  expect_invalid(vaecf_user_feature_columns(model_, 1, &age, &age, items.data(), 10, &used),
                 "the model has no user features");
  vaecf_model* other = nullptr;
  expect_invalid(vaecf_open("missing.h5", nullptr, &other), "missing.h5");
  expect_invalid(vaecf_open(checkpoint().c_str(), "[]", &other), "JSON object");
  expect_invalid(vaecf_open(checkpoint().c_str(), R"({"backend.thread": 1})", &other), "backend.thread");
  expect_invalid(vaecf_open(nullptr, nullptr, &other), "path");
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(vaecf_facts(nullptr), nullptr);
  vaecf_close(nullptr);
  // The model is as before.
  request_.reasons = 0;
  expect_lists_of_program(request_, "");
}

}  // namespace
}  // namespace vaecf::app
