#pragma once

#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/models/tensors.hpp>
#include <vaecf/run/run.hpp>
#include <vaecf/training/trainer.hpp>

#include <cstdint>
#include <string>

namespace vaecf::run {

/// Appends the event "done" to metrics.jsonl, which proves that a command without an event "start" has
/// finished. Collective. Throws RunError if it cannot be written.
void log_done(const Run& run);

/// Appends an event to the log of a completed run on rank 0. Collective.
void append_event(const Run& run, const io::Event& event);
/// Returns the event "start", which describes the run and its machines. Collective.
io::Event start_event(const Run& run, std::int64_t users, models::InputDims inputs, std::int64_t parameters);
/// Adds each metric and its standard error under its name ("ndcg@100", "ndcg@100_se"), those of new items as
/// "new_items_ndcg@100" and, without a prefix, the numbers of new items and of their users, and the
/// expectations for a random order ("new_items_ndcg@100_random").
void add_metrics(io::Event& event, const evaluate::EvaluationResult& result, const std::string& prefix = "");
/// Adds the numbers of users and the metrics.
void add_evaluation(io::Event& event, const evaluate::EvaluationResult& result);
/// Adds the communication volume of a step: "wire_bytes" and "wire_bytes_in" of a worker, and that of all
/// ranks.
void add_comm_volume(io::Event& event, const training::CommVolume& volume);
/// Formats a communication volume: "all ranks 12.3 MiB; per worker 4.1 out, 4.1 in; per server 8.2 out, 8.2
/// in".
std::string format_comm_volume(const training::CommVolume& volume);
/// Adds the staleness of asynchronous updates.
void add_staleness(io::Event& event, const training::Staleness& staleness);
/// Formats metrics: "ndcg@100 0.4259  recall@20 0.3950", and with new items
/// "  new items: ndcg@100 0.1862 recall@20 0.1913".
std::string metrics_line(const evaluate::EvaluationResult& result);

}  // namespace vaecf::run
