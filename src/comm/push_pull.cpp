#include <vaecf/base/format.hpp>
#include <vaecf/comm/push_pull.hpp>

#include <numeric>
#include <stdexcept>

#include "flat_view.hpp"
#include "part_sum.hpp"

namespace vaecf::comm {

PushPull::PushPull(Communicator& communicator, backend::Backend& backend, const BucketPlan& plan, Roles roles,
                   bool bf16_wire)
    : communicator_(communicator), backend_(backend), plan_(plan), roles_(roles), bf16_wire_(bf16_wire) {
  if (plan.ranks() != roles.servers || roles.workers + roles.servers != communicator.size()) {
    throw std::invalid_argument(
        vaecf::format("PushPull: a plan for {} servers, {} workers and {} servers in a "
                      "world of {}",
                      plan.ranks(), roles.workers, roles.servers, communicator.size()));
  }
  const bool works = roles.works(communicator.rank());
  const std::int64_t terms = works ? 0 : roles.workers * plan.packed(0).size();
  if (!works) terms_ = backend.make_buffer(terms);
  if (!bf16_wire) return;
  narrow_out_ = backend.make_narrow_buffer(works ? plan.padded_size() : plan.shard_size());
  narrow_in_ = backend.make_narrow_buffer(works ? plan.padded_size() : terms);
}

std::int64_t PushPull::pull_bytes() const {
  const std::size_t element = bf16_wire_ ? sizeof(Bf16) : sizeof(float);
  return plan_.shard_size() * static_cast<std::int64_t>(element);
}

std::span<const std::byte> PushPull::bytes_out(const backend::FloatBuffer& buffer, Range range) const {
  return bf16_wire_ ? std::as_bytes(view(*narrow_out_, range)) : std::as_bytes(view(buffer, range));
}

void PushPull::push_and_pull(const PushHeader& header, const backend::FloatBuffer& gradients,
                             backend::Parameters& parameters) {
  backend::FloatBuffer& weights = parameters.master();
  const Range all{0, plan_.padded_size()};
  if (gradients.size() < all.end || weights.size() < all.end) {
    throw std::logic_error(
        vaecf::format("PushPull: gradients of {} and weights of {} elements where {} are needed",
                      gradients.size(), weights.size(), all.end));
  }
  if (bf16_wire_) backend_.narrow(gradients, all, *narrow_out_, 0);
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int s = 0; s < roles_.servers; ++s) {
    out.push_back({roles_.rank_of_server(s), std::as_bytes(std::span(&header, 1))});
  }
  for (std::int64_t b = 0; b < plan_.buckets(); ++b) {
    for (int s = 0; s < roles_.servers; ++s) {
      const Range part = plan_.part(b, s);
      out.push_back({roles_.rank_of_server(s), bytes_out(gradients, part)});
      in.push_back({roles_.rank_of_server(s), bf16_wire_ ? std::as_writable_bytes(view(*narrow_in_, part))
                                                         : std::as_writable_bytes(view(weights, part))});
    }
  }
  communicator_.exchange(out, in);
  if (bf16_wire_) backend_.widen(*narrow_in_, all, weights, 0);
  backend_.weights_changed(parameters);
}

void PushPull::receive(std::span<const Incoming> in) {
  communicator_.exchange(answers_, in);
  answers_.clear();
}

std::vector<PushHeader> PushPull::receive_headers(std::span<const int> workers) {
  std::vector<PushHeader> headers(workers.size());
  std::vector<Incoming> in;
  for (std::size_t w = 0; w < workers.size(); ++w) {
    in.push_back({workers[w], std::as_writable_bytes(std::span(&headers[w], 1))});
  }
  receive(in);
  return headers;
}

void PushPull::receive_sum(std::int64_t bucket, std::span<const int> workers, backend::FloatBuffer& shard) {
  const Range packed = plan_.packed(bucket);
  const bool direct = workers.size() == 1 && !bf16_wire_;
  std::vector<Incoming> in;
  std::vector<const float*> terms;
  Range place{0, packed.size()};
  for (const int worker : workers) {
    in.push_back({worker, bf16_wire_
                              ? std::as_writable_bytes(view(*narrow_in_, place))
                              : std::as_writable_bytes(direct ? view(shard, packed) : view(*terms_, place))});
    terms.push_back(terms_->data() + place.begin);
    place = {place.end, place.end + packed.size()};
  }
  receive(in);
  if (direct) return;
  if (bf16_wire_) backend_.widen(*narrow_in_, {0, place.begin}, *terms_, 0);
  sum_terms(terms, packed.size(), shard.data() + packed.begin);
}

void PushPull::answer(std::int64_t bucket, const backend::FloatBuffer& masters,
                      std::span<const int> workers) {
  const Range packed = plan_.packed(bucket);
  if (bf16_wire_) backend_.narrow(masters, packed, *narrow_out_, packed.begin);
  for (const int worker : workers) answers_.push_back({worker, bytes_out(masters, packed)});
}

void PushPull::flush() {
  receive({});
}

void PushPull::add_over_servers(float& value) {
  std::vector<float> values(static_cast<std::size_t>(roles_.servers), value);
  const int mine = roles_.server_of(communicator_.rank());
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int s = 0; s < roles_.servers; ++s) {
    if (s == mine) continue;
    out.push_back({roles_.rank_of_server(s), std::as_bytes(std::span(&value, 1))});
    in.push_back({roles_.rank_of_server(s),
                  std::as_writable_bytes(std::span(values).subspan(static_cast<std::size_t>(s), 1))});
  }
  communicator_.exchange(out, in);
  value = std::accumulate(values.begin(), values.end(), 0.0F);
}

}  // namespace vaecf::comm
