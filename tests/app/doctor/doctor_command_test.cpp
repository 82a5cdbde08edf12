#include <vaecf/io/json.hpp>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Doctor = ProgramTest;

TEST_F(Doctor, ChecksASingleProcess) {
  const Result result = workspace.succeed("doctor");
  expect_in(result.out, {"ok    launch            1 rank on 1 host", "GEMM, fp32", "GEMM, bf16", "memory  ",
                         " 0 failed\n"});
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(workspace.files().empty());
}

TEST_F(Doctor, OneRankPrintsTheReportOfAllRanks) {
  workspace.make_small_run();
  const Result result = workspace.program("doctor --json small.yaml", 2);
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
  const Result missing = workspace.program("doctor --quick -q small.yaml --set data.file=none.h5", 2);
  EXPECT_EQ(missing.code, 1) << missing.err;
  expect_in(missing.out, {"fail  data "});
  workspace.refuse("doctor --quick small.yaml --set data.fil=none.h5", "data.fil is not a key", 2);
}

TEST_F(Doctor, ReportsRanksThatMpiDidNotJoin) {
  const auto expect = [&](const std::string& environment, int code, const std::string& part) {
    const Result result = workspace.bash(environment + " $PROGRAM doctor --quick -q");
    EXPECT_EQ(result.code, code) << result.err;
    expect_in(result.out, {part});
    EXPECT_EQ(result.out.empty(), part.empty()) << result.out;
  };
  // The environment of a launcher with a different process-management interface.
  expect("PMI_RANK=0 PMI_SIZE=2", 1, "fail  launch            the launcher started 2 processes");
  expect("PMI_RANK=1 PMI_SIZE=2", 1, "");
  expect("SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0", 1, "srun --mpi=pmix");
  expect("SLURM_JOB_ID=7 SLURM_NTASKS=2", 0, "warn  launch ");
}

}  // namespace
}  // namespace vaecf::app
