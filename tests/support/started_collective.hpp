#pragma once

#include <vaecf/comm/communicator.hpp>

#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

namespace vaecf::comm {

/// A started collective between threads, on copies: a rank that fails may free its buffer while others still
/// work. Whoever comes last works for all, so that nobody ever waits in start. The caller locks.
class StartedCollective {
 public:
  explicit StartedCollective(int ranks) : inputs_(static_cast<std::size_t>(ranks)) {}

  /// Throws where the last rank to come finds that the calls do not match.
  void post(int rank, const StartedCall& call) {
    const std::size_t bytes = call.in_bytes(static_cast<int>(inputs_.size()));
    const auto* begin = static_cast<const std::byte*>(call.in);
    inputs_[static_cast<std::size_t>(rank)] = {call.kind, call.type, {begin, begin + bytes}};
    if (++posted_ < inputs_.size()) return;
    for (std::size_t r = 1; r < inputs_.size(); ++r) {
      if (!inputs_[r].matches(inputs_[0])) {
        throw std::logic_error(
            vaecf::format("started calls do not match: rank 0 brings {} bytes, rank {} brings {}",
                          inputs_[0].bytes.size(), r, inputs_[r].bytes.size()));
      }
    }
    if (call.kind == StartedKind::all_gather) {
      for (const Input& other : inputs_)
        result_.insert(result_.end(), other.bytes.begin(), other.bytes.end());
    } else if (call.type == ElementType::bf16) {
      add<Bf16>(bytes / sizeof(Bf16));
    } else {
      add<float>(bytes / sizeof(float));
    }
    done_ = true;
  }

  bool done() const { return done_; }
  /// True for the last rank.
  bool collect(int rank, std::span<std::byte> output) {
    const bool part = inputs_[0].kind == StartedKind::reduce_scatter_sum;
    const std::size_t begin = part ? output.size() * static_cast<std::size_t>(rank) : 0;
    if (!output.empty()) std::memcpy(output.data(), result_.data() + begin, output.size());
    return ++collected_ == inputs_.size();
  }

 private:
  struct Input {
    StartedKind kind = StartedKind::all_reduce_sum;
    ElementType type = ElementType::float32;
    std::vector<std::byte> bytes;
    bool matches(const Input& other) const {
      return kind == other.kind && type == other.type && bytes.size() == other.bytes.size();
    }
  };

  static float number(float value) { return value; }
  static float number(Bf16 value) { return value.value(); }
  static void round(float value, float& to) { to = value; }
  static void round(float value, Bf16& to) { to = Bf16::from(value); }

  /// In fp32, in rank order, rounded once.
  template <class T>
  void add(std::size_t count) {
    result_.resize(count * sizeof(T));
    for (std::size_t i = 0; i < count; ++i) {
      T value;
      float total = 0.0F;
      for (std::size_t r = 0; r < inputs_.size(); ++r) {
        std::memcpy(&value, inputs_[r].bytes.data() + i * sizeof(T), sizeof(T));
        total = r == 0 ? number(value) : total + number(value);
      }
      round(total, value);
      std::memcpy(result_.data() + i * sizeof(T), &value, sizeof(T));
    }
  }

  std::vector<Input> inputs_;  // per rank
  std::vector<std::byte> result_;
  std::size_t posted_ = 0;
  std::size_t collected_ = 0;
  bool done_ = false;
};

}  // namespace vaecf::comm
