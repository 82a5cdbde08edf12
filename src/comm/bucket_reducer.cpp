#include <vaecf/base/format.hpp>
#include <vaecf/comm/bucket_reducer.hpp>

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace vaecf::comm {

BucketReducer::BucketReducer(Communicator& communicator, std::int64_t flat_size, std::int64_t bucket_elements)
    : communicator_(communicator), flat_size_(flat_size), bucket_elements_(bucket_elements) {
  if (flat_size < 0 || bucket_elements < 1) {
    throw std::invalid_argument(
        vaecf::format("buckets of {} elements cannot hold a buffer of {}", bucket_elements, flat_size));
  }
  filled_.resize(static_cast<std::size_t>(buckets()));
}

std::int64_t BucketReducer::buckets() const {
  return flat_size_ / bucket_elements_ + (flat_size_ % bucket_elements_ != 0 ? 1 : 0);
}

Range BucketReducer::bucket(std::int64_t index) const {
  const std::int64_t begin = index * bucket_elements_;
  return {begin, begin + std::min(bucket_elements_, flat_size_ - begin)};
}

std::span<float> BucketReducer::values(std::int64_t index) const {
  const Range range = bucket(index);
  return flat_.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
}

void BucketReducer::begin(std::span<float> flat, bool overlap) {
  if (open_) throw std::logic_error("BucketReducer: begin() before the last step's finish()");
  if (static_cast<std::int64_t>(flat.size()) != flat_size_) {
    throw std::logic_error(
        vaecf::format("BucketReducer: made for {} elements, given {}", flat_size_, flat.size()));
  }
  open_ = true;
  flat_ = flat;
  overlap_ = overlap;
  covered_.clear();
  std::ranges::fill(filled_, 0);
  next_ = 0;
  tickets_.clear();
}

void BucketReducer::cover(Range range) {
  auto next = covered_.lower_bound(range.begin);
  const bool hits_next = next != covered_.end() && next->first < range.end;
  const bool hits_previous = next != covered_.begin() && std::prev(next)->second > range.begin;
  if (hits_next || hits_previous) {
    throw std::logic_error(
        vaecf::format("BucketReducer: part of [{}, {}) was ready before", range.begin, range.end));
  }
  if (next != covered_.end() && next->first == range.end) {
    range.end = next->second;
    next = covered_.erase(next);
  }
  if (next != covered_.begin() && std::prev(next)->second == range.begin) {
    std::prev(next)->second = range.end;
  } else {
    covered_.emplace(range.begin, range.end);
  }
}

void BucketReducer::ready(Range range) {
  if (!open_) throw std::logic_error("BucketReducer: ready() outside begin() and finish()");
  if (range.begin < 0 || range.end < range.begin || range.end > flat_size_) {
    throw std::logic_error(vaecf::format("BucketReducer: [{}, {}) is no range of a buffer of {}", range.begin,
                                         range.end, flat_size_));
  }
  if (range.size() == 0) return;
  cover(range);
  for (std::int64_t b = range.begin / bucket_elements_; b < buckets() && bucket(b).begin < range.end; ++b) {
    const Range whole = bucket(b);
    filled_[static_cast<std::size_t>(b)] +=
        std::min(range.end, whole.end) - std::max(range.begin, whole.begin);
  }
  if (overlap_) start_whole_buckets();
}

void BucketReducer::start_whole_buckets() {
  if (communicator_.size() == 1) return;
  while (next_ < buckets() && filled_[static_cast<std::size_t>(next_)] == bucket(next_).size()) {
    tickets_.push_back(communicator_.start_all_reduce_sum(values(next_)));
    ++next_;
  }
}

double BucketReducer::finish() {
  if (!open_) throw std::logic_error("BucketReducer: finish() without begin()");
  for (std::int64_t b = 0; b < buckets(); ++b) {
    if (filled_[static_cast<std::size_t>(b)] != bucket(b).size()) {
      throw std::logic_error(
          vaecf::format("BucketReducer: finish() with {} of {} elements of bucket {} ready",
                        filled_[static_cast<std::size_t>(b)], bucket(b).size(), b));
    }
  }
  open_ = false;
  if (communicator_.size() == 1) return 0.0;
  const auto start = std::chrono::steady_clock::now();
  for (const Ticket ticket : tickets_) communicator_.wait(ticket);
  if (!overlap_) {
    for (std::int64_t b = 0; b < buckets(); ++b) communicator_.all_reduce(values(b));
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace vaecf::comm
