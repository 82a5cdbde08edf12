#include <vaecf/io/json.hpp>

#include <gtest/gtest.h>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Doctor = ProgramTest;

TEST_F(Doctor, ChecksASingleProcess) {
  const Result result = workspace.succeed("doctor");
  for (const char* part :
       {"ok    launch            1 rank on 1 host", "GEMM, fp32", "GEMM, bf16", "memory  ", " 0 failed\n"}) {
    EXPECT_EQ(count(result.out, part) > 0, true) << part << result.out;
  }
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(workspace.files().empty());
}

TEST_F(Doctor, OneRankPrintsTheReportOfAllRanks) {
  workspace.make_small_run();
  const Result result = workspace.ranks(2, "doctor --json small.yaml");
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  const auto report = io::Json::parse(result.out);
  EXPECT_EQ(report.at("ranks").get<std::int64_t>(), 2);
  EXPECT_EQ(report.at("hosts").size(), 2U);
  EXPECT_EQ(report.at("fail").get<std::int64_t>(), 0);
  std::map<std::string, int> subjects;
  for (const auto& finding : report.at("findings")) ++subjects[finding.at("subject").get<std::string>()];
  for (const char* subject :
       {"launch", "binding", "oversubscription", "host name", "processor", "memory", "/dev/shm", "mpi",
        "memlock", "gpu", "file locks", "data", "run folder", "products"}) {
    EXPECT_GE(subjects[subject], 1) << subject << result.out;
  }
  const auto cpu = report.at("measured").at(0);
  EXPECT_EQ(cpu.at("device").get<std::string>(), "cpu");
  for (const char* rate : {"fp32_gflops", "bf16_gflops", "memory_gbytes"}) {
    ASSERT_EQ(cpu.at(rate).size(), 2U) << rate;
    EXPECT_GT(cpu.at(rate).at(1).get<double>(), 0.0) << rate;
  }
  EXPECT_EQ(cpu.at("all_reduce").at(0).at("bytes").get<std::int64_t>(), 4);
  EXPECT_GT(cpu.at("all_reduce").at(0).at("seconds").get<double>(), 0.0);
  EXPECT_EQ(workspace.files(), (std::vector<std::string>{"data.h5", "small.yaml"}));
}

TEST_F(Doctor, FailedCheckEndsWithExitCode1) {
  workspace.make_small_run();
  const Result missing = workspace.ranks(2, "doctor --quick -q small.yaml --set data.file=none.h5");
  EXPECT_EQ(missing.code, 1) << missing.err;
  expect_in(missing.out, {"fail  data "});
  expect_refused(workspace.ranks(2, "doctor --quick small.yaml --set data.fil=none.h5"),
                 "data.fil is not a key");
}

TEST_F(Doctor, ReportsRanksThatMpiDidNotJoin) {
  // The environment of a launcher with a different process-management interface.
  const Result first = workspace.bash("PMI_RANK=0 PMI_SIZE=2 $PROGRAM doctor --quick -q");
  EXPECT_EQ(first.code, 1) << first.err;
  expect_in(first.out, {"fail  launch            the launcher started 2 processes"});
  const Result second = workspace.bash("PMI_RANK=1 PMI_SIZE=2 $PROGRAM doctor --quick -q");
  EXPECT_EQ(second.code, 1) << second.err;
  EXPECT_EQ(second.out, "");
  const Result srun =
      workspace.bash("SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 $PROGRAM doctor --quick -q");
  EXPECT_EQ(srun.code, 1) << srun.err;
  expect_in(srun.out, {"srun --mpi=pmix"});
  const Result alone = workspace.bash("SLURM_JOB_ID=7 SLURM_NTASKS=2 $PROGRAM doctor --quick -q");
  EXPECT_EQ(alone.code, 0) << alone.err;
  expect_in(alone.out, {"warn  launch "});
}

}  // namespace
}  // namespace vaecf::app
