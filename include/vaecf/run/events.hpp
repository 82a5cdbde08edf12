#pragma once

#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/run/run.hpp>
#include <vaecf/training/trainer.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace vaecf::run {

/// Appends the events "start" and "done" to metrics.jsonl, which prove that training had nothing left to do.
/// Collective. Throws RunError if they cannot be written.
void log_done(const Run& run);

/// Appends an event to the log of a completed run on rank 0. Collective.
void append_event(const Run& run, const io::Event& event);
/// Returns the values of a solution by key.
io::Json settings_of(const models::Search::Values& values);
/// Returns the number of weights of the run's model.
std::int64_t parameter_count(const Run& run);
/// Returns the event "start", which describes the run and its machines. Collective.
io::Event start_event(const Run& run);
/// Returns the metrics and, if there are any, the groups of users and items that have metrics of their own:
/// {"metrics": {"ndcg@100": {"value": .., "se": ..}}, "groups": {"with_history": {"users": .., "metrics":
/// ..}}}.
io::Json json_of(const evaluate::EvaluationResult& result);
/// Adds the numbers of users, the metrics and the groups.
void add_evaluation(io::Event& event, const evaluate::EvaluationResult& result);
/// Returns the value of a metric in an event "validation", "solve" or "test"; nullopt if it has none.
std::optional<double> metric_in(const io::Json& event, const std::string& name);
/// Adds the communication volume of a step: "wire_bytes" and "wire_in_bytes" of a worker, and that of all
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
