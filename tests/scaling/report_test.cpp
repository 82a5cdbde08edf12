#include "support/temporary_folder.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/scaling/report.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "support/messages.hpp"

namespace vaecf::scaling {
namespace {

/// Returns a run on a machine that the model describes exactly.
RunRecord ideal_run(int ranks, double batch) {
  constexpr double latency = 5e-6;
  constexpr double bandwidth = 2e9;
  RunRecord run;
  run.version = "1";
  run.machine = "a machine";
  run.host = "node";
  run.device = "cpu";
  run.precision = "fp32";
  run.optimizer = "replicated";
  run.wire = "fp32";
  run.overlap = "off";
  run.ranks = run.ranks_per_host = ranks;
  run.cores = run.usable_cores = 8;
  run.bound_cores = 8;
  run.threads = 1;
  run.batch_size = run.users_per_step = batch;
  run.bucket_bytes = 1e9;
  run.workload = {.parameters = 1e6, .dense_weights = 0.5e6, .bytes_per_user = 0.0, .half_copy_bytes = 0.0};
  run.single_rank_update_bytes = 24e6;
  run.memory_rate = 10e9 * ranks;
  run.gemm_rate = 50e9 * ranks;
  const double moved = 2.0 * (ranks - 1) / ranks;
  for (const double bytes : {4.0, 4096.0, 1048576.0, 16777216.0}) {
    if (ranks > 1) run.all_reduce.push_back({bytes, 2.0 * (ranks - 1) * latency + moved * bytes / bandwidth});
  }
  run.wire_bytes = moved * 4e6;
  const double update = ranks == 1 ? 2.4e-3 : 3.2e-3;
  const double exchange = ranks == 1 ? 0.0 : 2.0 * (ranks - 1) * latency + run.wire_bytes / bandwidth;
  run.step_seconds = 1e-3 + 20e-6 * batch / ranks + update + exchange;
  run.users_per_second = batch / run.step_seconds;
  run.phase_seconds = {{"forward", 1e-3}, {"all-reduce", exchange}, {"optimizer", update}};
  return run;
}

std::vector<RunRecord> ideal_runs() {
  std::vector<RunRecord> runs;
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (const int ranks : {1, 2, 4}) {
      runs.push_back(ideal_run(ranks, 400));
      runs.push_back(ideal_run(ranks, 100 * ranks));
    }
  }
  return runs;
}

bool warns(const Report& report, const std::string& text) {
  return std::any_of(report.warnings.begin(), report.warnings.end(),
                     [&](const std::string& warning) { return warning.find(text) != std::string::npos; });
}

TEST(ScalingReport, SeparatesStrongFromWeakScalingAndPredictsBoth) {
  const Report report = make_report(ideal_runs(), -1, -1);
  EXPECT_EQ(report.batch_size, 400);
  EXPECT_EQ(report.users_per_rank, 100);
  ASSERT_EQ(report.strong.size(), 3U);
  ASSERT_EQ(report.weak.size(), 3U);
  for (const auto* points : {&report.strong, &report.weak}) {
    for (const ScalingPoint& point : *points) {
      EXPECT_EQ(point.users_per_second.count, point.ranks == 4 ? 6 : 3) << point.ranks;
      ASSERT_TRUE(point.predicted);
      EXPECT_NEAR(point.prediction_error(), 0.0, 1e-6) << point.ranks;
      EXPECT_NEAR(point.efficiency.median, point.predicted_efficiency, 1e-6) << point.ranks;
    }
    EXPECT_EQ(points->front().efficiency.median, 1.0);
  }
  const ScalingPoint& two = report.strong[1];
  EXPECT_NEAR(two.efficiency.median,
              ideal_run(2, 400).users_per_second / (2 * ideal_run(1, 400).users_per_second), 1e-9);
  EXPECT_NEAR(two.bus_rate, two.wire_bytes / two.phase_seconds.at("all-reduce"), 1.0);
  EXPECT_NEAR(report.probed.within_host.bandwidth, 2e9, 1e6);
  EXPECT_TRUE(report.warnings.empty()) << report.warnings.front();
}

TEST(ScalingReport, SpreadCoversAllRepeats) {
  std::vector<RunRecord> runs = ideal_runs();
  runs[0].users_per_second *= 0.5;  // the single-rank run of strong scaling
  const Report report = make_report(runs, 400, 100);
  const SampleStats& speed = report.strong.front().users_per_second;
  EXPECT_DOUBLE_EQ(speed.min, 0.5 * speed.median);
  EXPECT_DOUBLE_EQ(speed.max, speed.median);
  EXPECT_DOUBLE_EQ(report.strong.front().efficiency.min, 0.5);
}

TEST(ScalingReport, EachVariantHasItsOwnPoint) {
  std::vector<RunRecord> runs = ideal_runs();
  RunRecord other = ideal_run(2, 400);
  other.optimizer = "sharded";
  other.wire = "bf16";
  other.overlap = "on";
  runs.push_back(other);
  other.servers = 1;
  other.server_updates = "synchronous";
  runs.push_back(other);
  const Report report = make_report(runs, 400, 0);
  EXPECT_TRUE(report.weak.empty());
  std::vector<std::string> names;
  for (const ScalingPoint& point : report.strong) names.push_back(point.variant);
  EXPECT_EQ(names, (std::vector<std::string>{"", "1 server synchronous bf16", "replicated fp32",
                                             "sharded bf16 overlap", "replicated fp32"}));
  EXPECT_FALSE(report.strong[1].predicted) << "the model supports rings only";
  EXPECT_TRUE(warns(report, "fewer than three repeats"));
}

TEST(ScalingReport, WarnsOfSharedCoresAndDifferentMachines) {
  const auto report_of = [](const auto& change) {
    std::vector<RunRecord> runs = ideal_runs();
    for (RunRecord& run : runs) change(run);
    return make_report(runs, -1, -1);
  };
  EXPECT_TRUE(warns(report_of([](RunRecord& run) { run.threads = 4; }),
                    "4 ranks of 4 threads share 8 of the 8 cores of node"));
  EXPECT_TRUE(warns(report_of([](RunRecord& run) { run.usable_cores = 2; }),
                    "4 ranks of 1 threads share 2 of the 8 cores of node"));
  EXPECT_TRUE(warns(report_of([](RunRecord& run) {
                      run.threads = 2;
                      run.bound_cores = 1;
                    }),
                    "the launcher bound each to 1 cores, fewer than its 2 threads"));
  EXPECT_TRUE(
      warns(report_of([](RunRecord& run) { run.machine = run.ranks == 4 ? "another one" : "a machine"; }),
            "different machines: a machine; and: another one"));
  const Report shared = report_of([](RunRecord& run) {
    run.device = "cuda";
    run.ranks_per_gpu = run.ranks == 4 ? 2 : 1;
  });
  EXPECT_TRUE(warns(shared, "2 of 4 ranks share one GPU"));
  EXPECT_EQ(shared.warnings.size(), 1U);
}

// A batch size of 6000 in an epoch of 4800 users gives one step of 4800 users per epoch.
TEST(ScalingReport, UsesTheMeasuredUsersPerStep) {
  std::vector<RunRecord> runs;
  for (const double asked : {6000.0, 400.0}) {
    for (const int ranks : {1, 2}) {
      RunRecord run = ideal_run(ranks, std::min(asked, 4800.0));
      run.batch_size = asked;
      runs.push_back(run);
    }
  }
  const Report report = make_report(runs, 6000, 0);
  for (const ScalingPoint& point : report.strong)
    EXPECT_NEAR(point.prediction_error(), 0.0, 1e-6) << point.ranks;
  EXPECT_TRUE(warns(report, "a batch of 6000 does not divide an epoch well")) << report.warnings.front();
}

TEST(ScalingReport, OneOutlierDoesNotChangePredictions) {
  std::vector<RunRecord> runs = ideal_runs();
  runs[0].users_per_second *= 1.6;  // a single-rank run
  for (const ScalingPoint& point : make_report(runs, -1, -1).strong) {
    EXPECT_NEAR(point.prediction_error(), 0.0, 1e-6) << point.ranks;
  }
}

TEST(ScalingReport, WarnsIfSingleRankRunsHaveOneBatchSize) {
  std::vector<RunRecord> runs = ideal_runs();
  std::erase_if(runs, [](const RunRecord& run) { return run.batch_size != 400; });
  const Report report = make_report(runs, 400, 0);
  EXPECT_TRUE(warns(report, "single-rank runs have only one batch size (400 users per step)"));
  EXPECT_NEAR(report.cost.update_single_rank, 2.4e-3, 1e-9) << "it follows from the memory bandwidth";
}

TEST(ScalingReport, PredictsNothingFromUnusableMeasurements) {
  std::vector<RunRecord> runs = ideal_runs();
  for (RunRecord& run : runs) {
    if (run.ranks == 1 && run.batch_size == 400) run.users_per_second = 1e9;
  }
  Report report = make_report(runs, -1, -1);
  for (const ScalingPoint& point : report.strong) EXPECT_FALSE(point.predicted);
  EXPECT_FALSE(report.break_even);
  EXPECT_TRUE(warns(report, "nothing is predicted"));
  EXPECT_EQ(to_table(report).find("ms per user"), std::string::npos);

  runs = ideal_runs();
  for (RunRecord& run : runs) {
    for (MeasuredAllReduce& probe : run.all_reduce) probe.seconds = 80e-6;
  }
  report = make_report(runs, -1, -1);
  EXPECT_TRUE(report.strong.front().predicted);
  EXPECT_FALSE(report.strong.back().predicted);
  EXPECT_TRUE(warns(report, "cannot be separated from the all-reduces of 2 ranks"));
}

TEST(ScalingReport, BreakEvenUsesTheFastestVariantInAnyOrderOfRuns) {
  std::vector<RunRecord> runs = ideal_runs();
  RunRecord fast = ideal_run(4, 400);
  fast.wire = "bf16";
  fast.users_per_second *= 2.0;
  RunRecord served = ideal_run(4, 400);
  served.servers = 1;
  served.users_per_second *= 3.0;
  runs.insert(runs.begin(), served);
  runs.push_back(fast);
  const auto found = make_report(runs, -1, -1).break_even;
  ASSERT_TRUE(found);
  EXPECT_EQ(found->variant, "replicated bf16");
  EXPECT_EQ(found->ranks, 4);
  std::reverse(runs.begin(), runs.end());
  EXPECT_EQ(make_report(runs, -1, -1).break_even->users, found->users);
}

TEST(ScalingReport, RunsWithDifferentSettingsThrow) {
  std::vector<RunRecord> runs = ideal_runs();
  runs.back().precision = "bf16";
  EXPECT_THROW(make_report(runs, -1, -1), InputError);
  runs = ideal_runs();
  runs.back().bucket_bytes = 5e8;
  EXPECT_THROW(make_report(runs, -1, -1), InputError);
  runs = ideal_runs();
  std::erase_if(runs, [](const RunRecord& run) { return run.ranks == 1; });
  EXPECT_THROW(make_report(runs, 400, 100), InputError);
  EXPECT_THROW(make_report(ideal_runs(), 123, 0), InputError);
}

TEST(ScalingReport, AllFormatsContainEveryPoint) {
  Report report = make_report(ideal_runs(), -1, -1);
  report.machine = "</script> & co";
  const std::string csv = to_csv(report);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 7);
  const auto columns = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
  EXPECT_EQ(columns(csv.substr(0, csv.find('\n'))), columns(csv.substr(csv.rfind('\n', csv.size() - 2))));

  const auto json = io::Json::parse(to_json(report));
  EXPECT_EQ(json.at("batch_size"), 400);
  const auto& points = json.at("strong");
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[2].at("users_per_second").at("median").get<double>(),
            report.strong[2].users_per_second.median);

  const std::string page = to_html(report);
  EXPECT_EQ(page.find("/*REPORT*/"), std::string::npos);
  EXPECT_EQ(page.find("</script> & co"), std::string::npos) << "it would end the script";
  for (const char* loads : {"src=", "href=", "url(", "fetch(", "import"})
    EXPECT_EQ(page.find(loads), std::string::npos) << loads << " in a page that needs no network";
  expect_in(to_table(report), {"strong scaling: 400 users per step"});
}

// Inkscape, LaTeX and rsvg-convert support neither CSS variables nor the style sheet of the page.
TEST(ScalingReport, PlotsUsePlainAttributesOnly) {
  const std::string page = to_html(make_report(ideal_runs(), -1, -1));
  const auto begin = page.find("const upright");
  const auto end = page.find("function table(");
  ASSERT_LT(begin, end);
  const std::string plots = page.substr(begin, end - begin);
  ASSERT_NE(plots.find("<svg xmlns="), std::string::npos);
  std::string drawn;
  std::ifstream picture(VAECF_SOURCES "/docs/scaling.svg");
  ASSERT_TRUE(std::getline(picture, drawn, '\0'));
  for (const char* css : {"class=", "style=", "<style", "var("}) {
    EXPECT_EQ(plots.find(css), std::string::npos) << css;
    EXPECT_EQ(drawn.find(css), std::string::npos) << css << " in docs/scaling.svg";
  }
}

TEST(ScalingReport, PredictsFromRatesOnly) {
  Machine machine;
  machine.name = "a cluster";
  machine.ranks_per_host = 8;
  machine.flops = 600e12;
  machine.memory_rate = 2.8e12;
  machine.within_host = {2e-6, 350e9};
  machine.between_hosts = {5e-6, 300e9};
  const Workload workload = {
      .parameters = 25e6, .dense_weights = 12.4e6, .bytes_per_user = 2e5, .half_copy_bytes = 2.0};
  const std::string text = predict_table(machine, workload, {.users = 24576}, {8, 64});
  EXPECT_EQ(text.find("predicted, not measured: a cluster"), 0U) << text;
  expect_in(text, {"64 weak     1572864", "users per rank and step, going from 64 ranks to 128 gives less"});
}

TEST(RunFolders, ValidBenchmarkEventsAreRead) {
  const testing::TemporaryFolder folder;
  io::write_file_atomically(
      folder.path() / "b" / "metrics.jsonl",
      "{\"event\":\"start\",\"ranks\":2}\n"
      "{\"event\":\"benchmark\",\"ranks\":2,\"batch_size\":500,\"users_per_second\":1000.5,"
      "\"milliseconds_per_step\":500,\"all-reduce_ms\":7.5,\"optimizer\":\"sharded\",\"wire\":"
      "\"bf16\",\"overlap\":\"on\",\"gemm_gflops\":100,\"all_reduce\":[{\"bytes\":4,"
      "\"seconds\":1e-6},{\"bytes\":400,\"seconds\":2e-6}]}\n"
      "{\"event\":\"benchmark\",\"ranks\":2,\"batch_si");
  io::write_file_atomically(
      folder.path() / "a" / "metrics.jsonl",
      "{\"event\":\"benchmark\",\"ranks\":1,\"batch_size\":500,\"users_per_second\":600,"
      "\"milliseconds_per_step\":833}\n[1,2]\n");
  const std::vector<RunRecord> runs = read_runs(folder.path());
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].ranks, 1);
  EXPECT_EQ(runs[1].variant(), "sharded bf16 overlap");
  EXPECT_DOUBLE_EQ(runs[1].users_per_second, 1000.5);
  EXPECT_DOUBLE_EQ(runs[1].phase_seconds.at("all-reduce"), 7.5e-3);
  EXPECT_DOUBLE_EQ(runs[1].gemm_rate, 100e9);
  ASSERT_EQ(runs[1].all_reduce.size(), 2U);
  EXPECT_DOUBLE_EQ(runs[1].all_reduce[1].seconds, 2e-6);
}

TEST(RunFolders, MissingBenchmarksThrow) {
  const testing::TemporaryFolder folder;
  io::write_file_atomically(folder.path() / "metrics.jsonl", "{\"event\":\"start\"}\n");
  EXPECT_THROW(read_runs(folder.path()), InputError);
  EXPECT_THROW(read_runs(folder.path() / "nowhere"), InputError);
}

}  // namespace
}  // namespace vaecf::scaling
