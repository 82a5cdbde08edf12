#include "device/cpu/parallel.hpp"

#include <vaecf/base/thread_limit.hpp>

#include <pthread.h>

namespace vaecf::cpu {
namespace {

bool is_forked = false;
[[maybe_unused]] const int watched = ::pthread_atfork(nullptr, nullptr, [] { is_forked = true; });

}  // namespace

int team_size(int threads) {
  return is_forked ? 1 : ThreadLimit::of(threads);
}

}  // namespace vaecf::cpu
