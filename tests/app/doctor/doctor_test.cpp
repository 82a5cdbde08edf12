#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "app/cores.hpp"
#include "app/doctor/check_result.hpp"
#include "app/doctor/checks.hpp"
#include "app/doctor/host.hpp"
#include "app/doctor/placement.hpp"
#include "app/doctor/report.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"
#include "support/thread_communicator.hpp"

namespace vaecf::app {
namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
constexpr std::int64_t gibibyte = std::int64_t{1} << 30;

/// Returns the facts of a host without problems.
HostInfo good_host() {
  HostInfo facts;
  facts.name = "node1";
  facts.name_lookup_seconds = 2e-4;
  facts.processor = "A Processor";
  facts.cores = 64;
  facts.instructions = {"avx2", "fma", "avx512f"};
  facts.memory = 256 * gibibyte;
  facts.memory_available = 200 * gibibyte;
  facts.shared_memory_free = 64 * gibibyte;
  return facts;
}

/// Formats each finding as a line "warn memory: 1 GiB -> end other programs".
std::string lines(const CheckResults& findings) {
  std::string all;
  for (const CheckResult& one : findings)
    all += to_string(one.severity) + " " + one.subject + ": " + one.text + " -> " + one.advice + "\n";
  return all;
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(DoctorHost, EachProblemIsAWarningWithAdvice) {
  const std::string good = lines(check_host(good_host(), 8, true));
  EXPECT_EQ(good.find("warn"), std::string::npos) << good;
  HostInfo facts = good_host();
  facts.name_lookup_seconds = 5.0;
  facts.instructions.clear();
  facts.memory_available = facts.memory_limit = 2 * gibibyte;
  facts.shared_memory_free = 60 * mebibyte;
  facts.locked_memory = 64 * 1024;
  expect_in(lines(check_host(facts, 8, false)),
            {"warn host name: ", "`127.0.1.1 node1` to /etc/hosts", "warn processor: ", "ok cpu limit: none",
             "warn memory: ", "warn /dev/shm: ", "--shm-size", "ok memlock: "});
  expect_in(lines(check_host(facts, 8, true)), {"warn memlock: "});
  facts.infiniband = true;
  expect_in(lines(check_host(facts, 8, false)), {"warn memlock: "});
  expect_in(lines(check_host(facts, 8, false)), {"ok processes: no limit"});
  facts.processes = 100;
  expect_in(lines(check_host(facts, 8, false)),
            {"warn processes: at most 100 processes and threads of this user (RLIMIT_NPROC)", "ulimit -u"});
  facts.processes = 1000;
  expect_in(lines(check_host(facts, 8, false)), {"ok processes: at most 1000 "});
  // A single rank does not need shared memory.
  expect_in(lines(check_host(facts, 1, false)), {"ok /dev/shm: "});
}

TEST(DoctorHost, ReadsProcAndControlGroups) {
  const testing::TemporaryFolder folder;
  const auto& root = folder.path();
  write_file(root / "proc/cpuinfo",
             "model name\t: Some CPU @ 2 GHz\nflags\t\t: fpu avx2 avx512f avx512_bf16x\n");
  write_file(root / "proc/meminfo", "MemTotal:       8388608 kB\nMemAvailable:   4194304 kB\n");
  write_file(root / "sys/fs/cgroup/cpu.max", "150000 100000\n");
  write_file(root / "sys/fs/cgroup/memory.max", "1073741824\n");
  write_file(root / "proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n");
  write_file(root / "sys/class/infiniband/mlx5_0/x", "");
  const HostInfo facts = query_host_info(root);
  EXPECT_NE(facts.name, "");
  EXPECT_GT(facts.name_lookup_seconds, 0.0);
  EXPECT_EQ(facts.processor, "Some CPU @ 2 GHz");
  EXPECT_EQ(facts.instructions, (std::vector<std::string>{"avx2", "avx512f"}));
  EXPECT_EQ(facts.memory, 8 * gibibyte);
  EXPECT_EQ(facts.memory_available, gibibyte);
  EXPECT_EQ(facts.memory_limit, gibibyte);
  EXPECT_DOUBLE_EQ(facts.cpu_limit, 1.5);
  EXPECT_EQ(facts.nvidia_driver, "535.104.05");
  EXPECT_TRUE(facts.infiniband);
}

TEST(DoctorHost, ReadsTheProcessorOfArm64) {
  const testing::TemporaryFolder folder;
  write_file(folder.path() / "proc/cpuinfo",
             "processor\t: 0\nFeatures\t: fp asimd sve bf16\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
  const HostInfo facts = query_host_info(folder.path());
  EXPECT_EQ(facts.processor, "implementer 0x41, part 0xd4f");
  EXPECT_EQ(facts.instructions, (std::vector<std::string>{"asimd", "sve", "bf16"}));
  expect_in(lines(check_host(facts, 1, false)), {"ok processor: implementer 0x41, part 0xd4f, "});
}

TEST(DoctorHost, ReadsControlGroupsV1AndNone) {
  const testing::TemporaryFolder folder;
  const auto& root = folder.path();
  write_file(root / "proc/meminfo", "MemTotal: 8388608 kB\n");
  const auto expect_limits = [&](double cores) {
    const HostInfo facts = query_host_info(root);
    EXPECT_DOUBLE_EQ(facts.cpu_limit, cores);
    EXPECT_EQ(facts.memory_limit, 0);
    EXPECT_EQ(facts.nvidia_driver, "");
    EXPECT_FALSE(facts.infiniband);
  };
  expect_limits(0.0);
  write_file(root / "sys/fs/cgroup/cpu.max", "max 100000\n");
  write_file(root / "sys/fs/cgroup/memory.max", "max\n");
  expect_limits(0.0);
  std::filesystem::remove_all(root / "sys");
  write_file(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  write_file(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write_file(root / "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  expect_limits(2.0);
}

TEST(DoctorRanks, LaunchListsRanksByHost) {
  const RankPlacement a{"node1", {0, 1}, 4, 2};
  const RankPlacement b{"node2", {0, 1, 2, 3}, 4, 4};
  expect_in(lines(check_launch({a, b}, "")),
            {"ok launch: 2 ranks on 2 hosts: node1: rank 0; node2: rank 1 "});
  expect_in(lines(check_launch({a, a, b}, "")), {"warn launch: ", "hosts with 1 ranks and with 2"});
}

TEST(DoctorRanks, TightBindingIsAWarningWithTheOption) {
  expect_in(lines({check_binding({"node1", {5}, 8, 1}, 2, 0)}),
            {"warn binding: core 5 of 8 available, 1 thread -> ", "--bind-to none, or --map-by slot:PE=4"});
  EXPECT_EQ(check_binding({"node1", {0, 1, 2, 3}, 8, 4}, 2, 0).severity, Severity::ok);
  // Two ranks of a container with 4 of 64 cores are bound to 2 cores each.
  EXPECT_EQ(check_binding({"node1", {0, 1}, 64, 2, 4.0}, 2, 0).severity, Severity::ok);
}

TEST(DoctorRanks, OversubscribedCoresAreAWarning) {
  const RankPlacement first{"node1", {0, 1}, 4, 2};
  const RankPlacement second{"node1", {2, 3}, 4, 2};
  const RankPlacement other{"node2", {0, 1}, 4, 2};
  EXPECT_EQ(lines(check_oversubscription({first, second, other})), "ok oversubscription: none -> \n");
  // The host has enough cores, but two ranks are bound to the same ones.
  expect_in(lines(check_oversubscription({first, first, other})),
            {"warn oversubscription: node1: 4 threads of 2 ranks share 2 cores -> ", "OMP_NUM_THREADS=1"});
  expect_in(lines(check_oversubscription({first, first, first, other})), {"start at most 2 ranks"});
  RankPlacement limited{"node1", {0, 1, 2, 3}, 4, 2, 2.5};
  expect_in(lines(check_oversubscription({limited, limited})),
            {"node1: 4 threads of 2 ranks share 2 cores, the CPU limit of the container or job -> ",
             "OMP_NUM_THREADS=1"});
  limited.threads = 1;
  EXPECT_EQ(lines(check_oversubscription({limited, limited})), "ok oversubscription: none -> \n");
}

TEST(DoctorRanks, GatherPlacesReturnsAllRanks) {
  comm::run_ranks(3, [](comm::Communicator& ranks) {
    const auto placements = gather_placements(ranks, ranks.rank());
    ASSERT_EQ(placements.size(), 3U);
    for (const RankPlacement& placement : placements) EXPECT_EQ(placement.host, ranks.host());
    EXPECT_EQ(placements[1].cores, placements[0].cores);
    EXPECT_GE(placements[0].available, 1);
    EXPECT_EQ(placements[0].threads, static_cast<int>(placements[0].cores.size()));
    EXPECT_EQ(placements[2].threads, 2);
  });
}

TEST(DoctorReport, EqualFindingsAreMerged) {
  comm::run_ranks(3, [](comm::Communicator& ranks) {
    CheckResults mine = {{"a", Severity::ok, "same", "", Scope::rank},
                         {"b", Severity::ok, "same", "", Scope::rank}};
    if (ranks.rank() == 1) mine[0] = {"a", Severity::fail, "other", "do", Scope::rank};
    if (ranks.rank() == 2) mine.push_back({"c", Severity::warn, "", "do", Scope::host});
    const auto report = make_report(ranks, "1", mine, io::Json::array());
    ASSERT_EQ(report["findings"].size(), 4U);
    std::string all;
    for (const auto& one : report["findings"]) {
      all += io::get_string(one, "subject") + io::get_string(one, "text") + one["ranks"].dump() + " ";
      EXPECT_EQ(one["hosts"].get<std::vector<std::string>>(), std::vector<std::string>{ranks.host()});
    }
    EXPECT_EQ(all, "asame[0,2] aother[1] bsame[0,1,2] c[2] ") << "findings are grouped by subject";
    EXPECT_EQ(report["ok"], 2);
    EXPECT_EQ(report["warn"], 1);
    EXPECT_EQ(report["fail"], 1);
    // Different datasets on hosts are a failure.
    mine = {{"data", Severity::ok, "first", "", Scope::host}};
    EXPECT_EQ(make_report(ranks, "1", mine, {})["fail"], 0);
    if (ranks.rank() == 1) mine[0].text = "second";
    EXPECT_EQ(make_report(ranks, "1", mine, {})["fail"], 1);
  });
}

TEST(DoctorFindings, ItemSlicesAreComparedWithDataParallelism) {
  const std::vector<run::AllReduceTiming> times = {{1000000, 1e-3}, {10000000, 10e-3}};
  training::ItemSliceProblem problem;
  problem.ranks = 4;
  problem.items = 100000;
  problem.batch_users = 500;
  problem.table_parameters = 20e6;                   // 80 MB
  problem.middle_parameters = 0.5e6;                 // 2 MB
  problem.input_width = problem.output_width = 100;  // 0.4 MB in each of two directions
  EXPECT_EQ(lines({check_item_slices(problem, times)}),
            "ok item slices: a step of 500 users takes about 82.0 ms of communication with data parallelism, "
            "and 3.0 ms with the items divided over all ranks -> consider distributed.item_slices: all "
            "(docs/SCALING.md)\n");
  problem.items = 4000;
  expect_in(lines({check_item_slices(problem, times)}), {"all ranks -> \n"});
}

TEST(DoctorFindings, RateOfCommunicationIsNotDerivedFromSmallMessages) {
  training::ItemSliceProblem problem;
  problem.ranks = 64;
  problem.items = 100000;
  problem.batch_users = 500;
  problem.table_parameters = 20e6;
  problem.middle_parameters = 0.5e6;
  problem.input_width = problem.output_width = 100;
  const std::vector<run::AllReduceTiming> slow = {{4, 0.7}};
  EXPECT_EQ(lines({check_item_slices(problem, slow)}),
            "ok item slices: communication of a step of 500 users: not measured, since no all-reduce of more "
            "than 4 bytes was -> \n");
  expect_in(lines({check_item_slices(problem, std::vector<run::AllReduceTiming>{{4, 1e-3}, {1 << 20, 0.7}})}),
            {"takes about ", "consider distributed.item_slices: all"});
}

TEST(DoctorFindings, NumbersAreFormattedAsRanges) {
  EXPECT_EQ(format_ranges({}), "");
  EXPECT_EQ(format_ranges({4}), "4");
  EXPECT_EQ(format_ranges({0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8");
}

const io::Json measured_rates = {{"device", "cpu"},
                                 {"fp32_gflops", {10, 10, 5}},
                                 {"bf16_gflops", {20, 20, 20}},
                                 {"memory_gbytes", {3, 3, 3}},
                                 {"all_reduce", {{{"bytes", 8}, {"seconds", 1e-6}}}}};

TEST(DoctorReport, TableNamesRanksAndHosts) {
  auto report = io::Json::parse(
      R"({"version": "1", "hosts": ["x", "x", "y"], "ok": 2, "warn": 2, "fail": 1, "findings": [
    {"subject": "all", "health": "ok", "text": "one", "advice": "", "about": "all", "ranks": [0], "hosts": ["x"]},
    {"subject": "hosts", "health": "warn", "text": "two", "about": "host", "ranks": [0, 2], "hosts": ["x", "y"]},
    {"subject": "host", "health": "warn", "text": "three", "advice": "fix", "about": "host", "ranks": [0], "hosts": ["x"]},
    {"subject": "rank", "health": "fail", "text": "four", "about": "rank", "ranks": [0, 1], "hosts": ["x"]},
    {"subject": "ranks", "health": "ok", "text": "five", "about": "rank", "ranks": [0, 1, 2], "hosts": ["x", "y"]}]})");
  report["measured"] = {measured_rates};
  expect_in(
      findings_table(report, false) + summary_table(report, false),
      {"ok    all               one\n", "warn  hosts             two\n", "warn  host              x: three\n",
       "-> fix\n", "fail  rank              ranks 0-1 on x: four\n", "ok    ranks             five\n",
       "25.0 GFLOP/s in total, 5.0 to 10.0 per rank", "all-reduce of        8 bytes",
       "2 ok, 2 warnings, 1 failed\n"});
  const std::string quiet = findings_table(report, true) + summary_table(report, true);
  expect_in(quiet, {"four"});
  EXPECT_EQ(quiet.find("five"), std::string::npos) << quiet;
  EXPECT_EQ(quiet.find("GFLOP"), std::string::npos) << quiet;
}

TEST(DoctorReport, NamesWhatWasNotMeasured) {
  const auto table = [](const io::Json& measured) {
    io::Json report = {{"ok", 0}, {"warn", 0}, {"fail", 0}};
    report["measured"] = {measured};
    return summary_table(report, false);
  };
  io::Json measured = measured_rates;
  expect_in(table(measured), {"  all-reduce of more than 8 bytes: not measured\n"});
  measured["all_reduce"] = io::Json::array();
  expect_in(table(measured), {"  all-reduce: not measured\n"});
  measured["all_reduce"] = {{{"bytes", std::int64_t{64} << 20}, {"seconds", 1.0}}};
  EXPECT_EQ(table(measured).find("not measured"), std::string::npos);
  EXPECT_EQ(check_stragglers(measured).size(), 1U);
  measured["fp32_gflops"] = {10.0, 0.0, 9.0};
  measured["bf16_gflops"] = {0.0, 0.0, 0.0};
  expect_in(table(measured),
            {"19.0 GFLOP/s in total, not measured on ranks 1\n", "GEMM, bf16      not measured\n"});
  EXPECT_TRUE(check_stragglers(measured).empty());
  measured["fp32_gflops"] = {0.0, 0.0, 0.0};
  EXPECT_TRUE(check_stragglers(measured).empty());
}

TEST(DoctorReport, LaterFindingsAreAdded) {
  comm::run_ranks(1, [](comm::Communicator& ranks) {
    auto report = make_report(ranks, "1", {{"a", Severity::ok, "one"}, {"b", Severity::fail, "two"}},
                              io::Json::array());
    add_report(report,
               make_report(ranks, "1", {{"c", Severity::fail, "three"}}, io::Json::array({measured_rates})));
    EXPECT_EQ(findings_table(report, true), "fail  b                 two\nfail  c                 three\n");
    EXPECT_EQ(summary_table(report, true), "1 ok, 0 warnings, 2 failed\n");
    expect_in(summary_table(report, false), {"25.0 GFLOP/s in total"});
  });
}

TEST(DoctorReport, SlowRankIsAWarning) {
  expect_in(lines(check_stragglers(measured_rates)), {"warn pace: on cpu, ranks 2: down to 5 GFLOP/s"});
  auto even = measured_rates;
  even["fp32_gflops"][2] = 9.0;
  EXPECT_TRUE(check_stragglers(even).empty());
}

TEST(DoctorGpus, MissingDriverIsAFailureOnlyIfRequired) {
  GpuCheckInput question;
  question.availability = {true, 0, "no NVIDIA driver is loaded on this machine: install one"};
  EXPECT_EQ(lines(check_gpus(question)), "ok gpu: no NVIDIA driver, CPU only -> \n");
  question.device = device::DeviceChoice::cuda;
  expect_in(lines(check_gpus(question)), {"fail gpu: ", "install one"});
  question.device = device::DeviceChoice::automatic;
  question.driver = "535.1";
  expect_in(lines(check_gpus(question)), {"warn gpu: "});
  question.availability.compiled = false;
  expect_in(lines(check_gpus(question)), {"warn gpu: "});
}

/// Returns the facts of a host with `count` GPUs.
GpuCheckInput good_gpus(int count) {
  GpuCheckInput question;
  question.availability = {true, count, ""};
  question.facts = {12040, 12060, {}, {}};
  question.facts.gpus.assign(static_cast<std::size_t>(count),
                             {"NVIDIA H100", "GPU-1", "0000:01:00", 80 * gibibyte, 90});
  question.driver = "550.1";
  question.nccl = "NCCL 2.28.9";
  question.ranks_on_host = 8;
  return question;
}

TEST(DoctorGpus, GpusAndLinksAreReported) {
  GpuCheckInput question = good_gpus(3);
  question.facts.links = {{0, 1, true, true}, {0, 2, true, false}, {1, 2, false, false}};
  question.ranks_on_host = 3;
  const std::string all = lines(check_gpus(question));
  expect_in(all, {"ok cuda: driver 550.1 for CUDA 12.4, runtime 12.6 ", "ok gpu: GPU 2: NVIDIA H100, 80 GiB",
                  "ok links: NVLink: GPUs 0-1 ", "ok links: direct PCIe access: GPUs 0-2 ",
                  "warn links: through host memory only: GPUs 1-2 -> all-reduces", "ok nccl: NCCL 2.28.9 "});
  EXPECT_EQ(all.find("fail"), std::string::npos) << all;
  question.facts.gpus[0].compute_capability = 75;
  question.nccl = "";
  expect_in(lines(check_gpus(question)), {"fail gpu: GPU 0: ", "fail nccl: "});
}

TEST(DoctorGpus, SharedGpusAreAFailureUnlessAllowed) {
  GpuCheckInput question = good_gpus(1);  // as with srun --gpus-per-task 1
  EXPECT_EQ(lines(check_gpus(question)).find("fail"), std::string::npos);
  question.shared = "ranks 0, 1 of node1 share GPU-1";
  expect_in(lines(check_gpus(question)), {"fail gpu: ranks 0, 1 of node1 share GPU-1 -> "});
  question.allow_shared_gpu = true;
  expect_in(lines(check_gpus(question)), {"warn gpu: ranks 0, 1 of node1 share GPU-1 -> "});
  question.device = device::DeviceChoice::cpu;
  EXPECT_EQ(lines(check_gpus(question)).find("share"), std::string::npos);
}

TEST(DoctorLibraries, SlowTransportsAreAWarning) {
  const auto warned = [](const std::string& transport, int hosts, bool infiniband) {
    return check_mpi("Open MPI", transport, hosts, infiniband).severity == Severity::warn;
  };
  EXPECT_TRUE(warned("TCP", 2, true));
  EXPECT_FALSE(warned("TCP", 1, true));
  EXPECT_FALSE(warned("TCP", 2, false));
  for (const char* fast : {"UCX", "libfabric or PSM", "shared memory, TCP, InfiniBand (openib)"})
    EXPECT_FALSE(warned(fast, 2, true)) << fast;
  EXPECT_EQ(check_mpi("thread level single: no overlap", "TCP", 1, false).severity, Severity::warn);
}

TEST(DoctorDisk, RunFolderMayExistOrNotButADatasetMust) {
  const testing::TemporaryFolder folder;
  const std::string run = folder.path() / "runs" / "name";
  EXPECT_EQ(check_run_folder(run, 1).severity, Severity::ok);
  EXPECT_FALSE(std::filesystem::exists(run));
  EXPECT_EQ(check_run_folder(run, std::int64_t{1} << 60).severity, Severity::warn);
  write_file(folder.path() / "runs", "a file");
  EXPECT_EQ(check_run_folder(run, 1).severity, Severity::fail);
  EXPECT_EQ(check_data("none.h5").severity, Severity::fail);
}

}  // namespace
}  // namespace vaecf::app
