#include <vaecf/base/error.hpp>
#include <vaecf/comm/communicator.hpp>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iterator>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "app/command_line.hpp"
#include "app/console.hpp"
#include "app/cores.hpp"
#include "app/rank_session.hpp"
#include "app/run_arguments.hpp"
#include "app/task_result.hpp"
#include "support/messages.hpp"

namespace vaecf::app {
namespace {

CommandLine parse(std::vector<const char*> words) {
  words.insert(words.begin(), "vaecf_dist");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

TEST(CommandLine, OptionsMayPrecedeAndFollowTheFile) {
  const CommandLine line = parse({"--set", "a=1", "c.yaml", "--set", "b=[1, 2]", "-v"});
  EXPECT_EQ(line.command, "run");
  EXPECT_EQ(line.config, "c.yaml");
  EXPECT_EQ(line.overrides, (std::vector<std::string>{"a=1", "b=[1, 2]"}));
  EXPECT_EQ(line.verbosity, Verbosity::verbose);
  const CommandLine recommend =
      parse({"recommend", "c.yaml", "--user", "7", "--user", "8", "--top", "3", "--quiet", "--set", "a=1"});
  EXPECT_EQ(recommend.command, "recommend");
  EXPECT_EQ(recommend.config, "c.yaml");
  EXPECT_EQ(recommend.overrides, (std::vector<std::string>{"a=1"}));
  EXPECT_EQ(recommend.verbosity, Verbosity::quiet);
}

TEST(CommandLine, HelpOfEachCommandEndsWithValidExamples) {
  for (const char* name : {"prepare", "synthesize", "recommend", "similar", "inspect", "export", "doctor"}) {
    ::testing::internal::CaptureStdout();
    const CommandLine wanted = parse({name, "--help"});
    EXPECT_EQ(wanted.run(wanted), ExitCode::done);
    std::string help = ::testing::internal::GetCapturedStdout();
    for (auto at = help.find("\\\n"); at != std::string::npos; at = help.find("\\\n"))
      help.replace(at, 2, " ");
    std::istringstream lines(help.substr(std::min(help.size(), help.find("Examples:\n"))));
    std::string text;
    std::getline(lines, text);
    int examples = 0;
    while (std::getline(lines, text) && !text.empty()) {
      const auto start = text.find("vaecf_dist ");
      ASSERT_NE(start, std::string::npos) << text;
      std::istringstream stream(text.substr(start));
      const std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
      std::vector<const char*> arguments;
      for (const std::string& word : words) {
        arguments.push_back(word.c_str());
        if (!word.starts_with("configs/")) continue;
        EXPECT_TRUE(std::filesystem::exists(std::string(VAECF_SOURCES) + "/" + word)) << word;
      }
      EXPECT_EQ(parse_command_line(static_cast<int>(arguments.size()), arguments.data()).command, name)
          << text;
      ++examples;
    }
    EXPECT_GE(examples, 2) << help;
    EXPECT_FALSE(std::getline(lines, text))
        << "help of " << name << " continues after its examples: " << text;
  }
}

TEST(CommandLine, InvalidNumberErrorNamesTheRange) {
  const auto refusal = [](const std::vector<const char*>& words) {
    const TaskResult outcome = run_and_capture([&] { parse(words); });
    EXPECT_EQ(outcome.code, ExitCode::bad_input);
    return outcome.message;
  };
  for (const char* number : {"0", "-3", "many", "1.5"}) {
    expect_in(refusal({"recommend", "c.yaml", "--top", number}),
              {std::string("--top: must be an integer from 1 to 2147483647, got ") + number + ";"});
  }
  expect_in(refusal({"recommend", "c.yaml", "--reasons", "0"}), {"--reasons: must be an integer from 1 to"});
  for (const char* number : {"-1", "18446744073709551616", "1e3", "0x"})
    expect_in(refusal({"synthesize", "o.h5", "--seed", number}), {"must be an integer from 0 to"});
  EXPECT_NO_THROW(parse({"synthesize", "o.h5", "--test-users", "0", "--seed", "18446744073709551615"}));
}

// A child process, because the limit counts all processes of the user. It does not apply to root.
TEST(CommandLine, FileNamesOfSeveralSeedsGetTheNumberBeforeTheExtension) {
  EXPECT_EQ(with_number("users.h5", 3), "users-3.h5");
  EXPECT_EQ(with_number("a.b/users", 12), "a.b/users-12");
}

TEST(TaskResult, RefusedThreadNamesTheLimit) {
  constexpr int not_enforced = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{0, 0};
    if (::getuid() == 0 && ::setuid(65534) != 0) ::_exit(not_enforced);
    ::setrlimit(RLIMIT_NPROC, &none);
    if (run_and_capture([] { std::thread([] {}).join(); }).ok()) ::_exit(not_enforced);
    // The device states it before libgomp, which would end the process, starts the threads.
    for (const std::function<void()>& starts_threads : std::vector<std::function<void()>>{
             [] { std::thread([] {}).join(); },
             [] { (void)device::make_device({.device = device::DeviceChoice::cpu, .threads = 4}); }}) {
      const TaskResult result = run_and_capture(starts_threads);
      const bool named = result.message.find("a thread cannot be started") == 0 &&
                         result.message.find("(RLIMIT_NPROC, ulimit -u), which is 0,") != std::string::npos;
      if (!named || result.code != ExitCode::failed) ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == not_enforced) GTEST_SKIP() << "this system does not enforce RLIMIT_NPROC";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(TaskResult, AttemptConvertsExceptionsToExitCodes) {
  EXPECT_TRUE(run_and_capture([] {}).ok());
  EXPECT_EQ(run_and_capture([] { throw InputError("a"); }).code, ExitCode::bad_input);
  EXPECT_EQ(run_and_capture([] { throw RunError("b"); }).message, "b");
  EXPECT_EQ(run_and_capture([] { throw std::bad_alloc(); }).code, ExitCode::failed);
  EXPECT_EQ(run_and_capture([] { throw std::logic_error("c"); }).code, ExitCode::failed);
  const TaskResult unlookable =
      run_and_capture([] { std::ignore = std::filesystem::file_size(std::string(5000, 'a')); });
  EXPECT_EQ(unlookable.code, ExitCode::bad_input);
  EXPECT_EQ(unlookable.message.find("aaa"), 0U) << "the message must begin with the path";
  RankSession alone(comm::make_self_communicator());
  EXPECT_EQ(alone.together(TaskResult{}), ExitCode::done);
  EXPECT_EQ(alone.together(TaskResult{ExitCode::bad_input, "expected message"}), ExitCode::bad_input);
  EXPECT_EQ(alone.together([] { FAIL() << "a phase after one that failed"; }), ExitCode::bad_input);
}

TEST(Progress, StyleFollowsTerminalQuietAndEnvironment) {
  EXPECT_EQ(progress_style(false, true, nullptr), ProgressStyle::bar);
  EXPECT_EQ(progress_style(false, false, nullptr), ProgressStyle::lines);
  EXPECT_EQ(progress_style(true, true, "bar"), ProgressStyle::none);
  EXPECT_EQ(progress_style(false, false, "bar"), ProgressStyle::bar);
  EXPECT_EQ(progress_style(false, true, "lines"), ProgressStyle::lines);
  EXPECT_EQ(progress_style(false, true, "none"), ProgressStyle::none);
  EXPECT_THROW(progress_style(false, true, "fancy"), InputError);
}

TEST(Progress, RateAndRemainingTime) {
  EXPECT_EQ(format_rate(0, 0, 100000, "users", 5.0), "");
  EXPECT_EQ(format_rate(0, 25000, 100000, "users", 20.0), "1,250 users/s, 1:00 left");
  EXPECT_EQ(format_rate(0, 50, 100000, "users", 20.0), "2.5 users/s, 11:06:20 left");
  // Units of an earlier run do not count for the rate.
  EXPECT_EQ(format_rate(70000, 70000, 100000, "users", 5.0), "");
  EXPECT_EQ(format_rate(70000, 80000, 100000, "users", 10.0), "1,000 users/s, 0:20 left");
}

/// Returns the text that `work` writes to a file.
std::string written(const std::function<void(std::FILE*)>& work) {
  std::FILE* file = std::tmpfile();
  work(file);
  std::rewind(file);
  std::string text(10000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(Progress, BarIsRedrawnRarelyAndErased) {
  const std::string text = written([](std::FILE* file) {
    TextProgress bar(file, ProgressStyle::bar);
    bar.begin("epoch 1/2", 1000, "users");
    for (int i = 0; i < 1000; ++i) bar.update(i);
    bar.end();
    bar.update(5);  // ignored after end()
  });
  expect_in(text, {"\r\033[?7lepoch 1/2  [------------------------]   0 %  \033[K\033[?7h\r"});
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 4);
  EXPECT_TRUE(text.ends_with("\r\033[K"));
}

TEST(Progress, LinesArePrintedPerTenthExceptForShortWork) {
  const std::string text = written([](std::FILE* file) {
    TextProgress lines(file, ProgressStyle::lines, 0.0);
    lines.begin("epoch 1/2", 1000, "users");
    for (int i = 0; i <= 1000; ++i) lines.update(i);
    lines.end();
    TextProgress slow(file, ProgressStyle::lines, 3600.0);
    slow.begin("epoch 2/2", 10, "users");
    slow.update(9);
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 9) << text;
  expect_in(text, {"epoch 1/2: 10 %  "});
  EXPECT_EQ(text.find("epoch 2/2"), std::string::npos) << text;
}

TEST(Progress, LinesOfLongWorkDoNotWaitForATenth) {
  const std::string text = written([](std::FILE* file) {
    TextProgress lines(file, ProgressStyle::lines, 3600.0, 0.02);
    lines.begin("EASE, 7 items", 1000, "items");
    for (int i = 1; i <= 40; ++i) {
      lines.update(i);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    lines.end();
  });
  EXPECT_GE(std::count(text.begin(), text.end(), '\n'), 3) << text;
  expect_in(text, {"EASE, 7 items: ", " items/s, 0:0", " left\n"});
}

TEST(ThreadBinding, FairThreadsDivideTheCoresOfAHost) {
  EXPECT_EQ(default_threads({8, 8}, 1), 8);
  EXPECT_EQ(default_threads({8, 8}, 3), 2);
  EXPECT_EQ(default_threads({2, 8}, 1), 2) << "bound to two cores";
  EXPECT_EQ(default_threads({4, 8}, 4), 2) << "two ranks bound to the same socket";
  EXPECT_EQ(default_threads({1, 8}, 2), 1);
  EXPECT_EQ(default_threads({2, 2}, 4), 1);
}

TEST(ThreadBinding, AdviceOnlyIfThreadsAreLost) {
  EXPECT_EQ(binding_advice({2, 2}, 1, 0, 2), "");
  EXPECT_EQ(binding_advice({1, 2}, 2, 0, 1), "") << "two ranks share two cores";
  EXPECT_EQ(binding_advice({1, 8}, 1, 1, 1), "") << "one thread was requested";
  expect_in(binding_advice({1, 8}, 2, 0, 1), {"1 of 8 cores", "--bind-to none", "--map-by slot:PE=4"});
  expect_in(binding_advice({1, 8}, 2, 3, 3), {"slot:PE=3"});
}

}  // namespace
}  // namespace vaecf::app
