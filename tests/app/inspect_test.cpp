#include "app/program.hpp"

#include <gtest/gtest.h>

namespace vaecf::app {
namespace {

TEST(Inspect, TellsDatasetsFromCheckpoints) {
  const Workplace place;
  place.make_small_run();
  const Result data = place.program("inspect data.h5");
  EXPECT_EQ(data.code, 0) << data.err;
  EXPECT_NE(data.out.find("items: 60"), std::string::npos) << data.out;
  EXPECT_NE(data.out.find("test/held_out"), std::string::npos) << data.out;
  EXPECT_EQ(count(data.out, "items of a train user") + count(data.out, "train users of an item"), 2);
  ASSERT_EQ(place.program("small.yaml --train --quiet").code, 0);
  const Result checkpoint = place.program("inspect runs/small/checkpoints/best.h5");
  EXPECT_EQ(checkpoint.code, 0) << checkpoint.err;
  EXPECT_NE(checkpoint.out.find("weights/encoder_1/weight"), std::string::npos) << checkpoint.out;
  EXPECT_EQ(count(checkpoint.out, "trained: ") + count(checkpoint.out, "best so far: ndcg@10 "), 2)
      << checkpoint.out;
  EXPECT_EQ(count(checkpoint.out, "batch_size"), 0) << "the configuration is long: " << checkpoint.out;
  const Result more = place.program("inspect -v runs/small/checkpoints/best.h5");
  EXPECT_GE(count(more.out, "batch_size: 40"), 1) << more.out;
  EXPECT_GE(count(more.out, "optimizer/first_moment/encoder_1/weight"), 1) << more.out;
  place.write("text.h5", "hello");
  for (const char* file : {"text.h5", "none.h5", "."})
    EXPECT_EQ(place.program(std::string("inspect ") + file).code, 2);
  place.bash("f=runs/small/checkpoints/best.h5; printf X | dd of=$f bs=1 seek=4000 conv=notrunc status=none");
  EXPECT_EQ(place.program("inspect runs/small/checkpoints/best.h5").code, 2) << "a damaged checkpoint";
}

TEST(Inspect, NamesNoMetricWhereNoneChose) {
  const Workplace place;
  place.make_small_run();
  ASSERT_EQ(place.program("small.yaml --train --quiet --set validation.every=0").code, 0);
  const Result result = place.program("inspect runs/small/checkpoints/best.h5");
  EXPECT_EQ(count(result.out, "best: whichever epoch is the last\n"), 1) << result.out;
}

TEST(Inspect, WaitsForNoPipe) {
  const Workplace place;
  const Result made = place.bash("mkfifo pipe pipe.jsonl; mkdir run; mkfifo run/metrics.jsonl");
  ASSERT_EQ(made.code, 0) << made.err;
  for (const char* const path : {"pipe", "pipe.jsonl", "run"}) {
    const Result result = place.bash(std::string("timeout 20 $PROGRAM inspect ") + path);
    EXPECT_EQ(result.code, 2) << path;
    EXPECT_NE(result.err.find("is not a regular file"), std::string::npos) << result.err;
  }
}

TEST(Inspect, DrawsTheCurvesOfARun) {
  const Workplace place;
  place.make_small_run();
  ASSERT_EQ(place.program("small.yaml --train --quiet").code, 0);
  const Result run = place.program("inspect runs/small");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(count(run.out, "ndcg@10 of validation users by epoch; best "), 1) << run.out;
  EXPECT_EQ(count(run.out, "loss of train users by epoch; last "), 1) << run.out;
  EXPECT_EQ(count(run.out, "end: epochs after 2 epochs, 8 steps"), 1) << run.out;
  EXPECT_EQ(place.program("inspect runs/small/metrics.jsonl").code, 0);
  EXPECT_EQ(count(place.program("inspect runs/small --metric recall@5").out, "recall@5 of validation users"),
            1);
  const Result none = place.program("inspect runs/small --metric ndcg@7");
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(count(none.err, "it has ndcg@10, recall@5"), 1) << none.err;
  EXPECT_EQ(place.program("inspect data.h5 --metric ndcg@10").code, 2);
  // Of another program or version, torn, with numbers that are none.
  place.write("a.jsonl",
              "{\"event\":\"start\",\"config\":\"warp: 9\"}\n"
              "{\"event\":\"validation\",\"epoch\":1,\"ndcg@3\":null}\n"
              "{\"event\":\"validation\",\"epoch\":2,\"ndcg@3\":0.5}\n{\"event\":\"valid");
  const Result odd = place.program("inspect a.jsonl");
  EXPECT_EQ(odd.code, 0) << odd.err;
  EXPECT_EQ(count(odd.out, "ndcg@3 of validation users by epoch; best 0.5 in epoch 2"), 1) << odd.out;
  place.write("empty.jsonl", "");
  EXPECT_EQ(place.program("inspect empty.jsonl").code, 2);
}

}  // namespace
}  // namespace vaecf::app
