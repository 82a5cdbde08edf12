#include "nccl_watch.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <utility>

#include "last_words.hpp"

namespace vaecf::comm {
namespace {

constexpr double seconds_between_looks = 0.01;

}  // namespace

NcclWatch::NcclWatch(World world, int rank, std::string host, double timeout, double grace)
    : world_(std::move(world)),
      rank_(rank),
      host_(std::move(host)),
      timeout_(timeout),
      grace_(grace),
      next_look_(world_.now()) {}

void NcclWatch::until(const std::function<bool()>& done, const std::string& what) const {
  const double begin = world_.now();
  while (!done()) {
    const double waited = world_.now() - begin;
    if (waited > timeout_ + grace_) {
      give_up(
          waited, what,
          "Another rank did not come to it, or cannot be reached: see what the other ranks say, and whether "
          "their hosts reach each other (NCCL_DEBUG=INFO tells by which network, NCCL_SOCKET_IFNAME "
          "chooses it)");
    }
    world_.let_others();
    world_.pause(waited);
  }
}

void NcclWatch::look(const Device& device, const std::function<std::string()>& what) {
  const double now = world_.now();
  if (now < next_look_) return;
  next_look_ = now + seconds_between_looks;
  world_.let_others();
  device.check();
  // A mark from a wait before counts too: what the device did in between is progress.
  if (!marked_ || device.reached()) {
    device.mark();
    marked_ = true;
    marked_at_ = now;
    return;
  }
  const double waited = now - marked_at_;
  if (waited > timeout_ + grace_) {
    give_up(waited, vaecf::format("its GPU, whose last work between ranks was {}", what()),
            "Another rank did not come to the same point, or this GPU hangs: see what the other ranks say, "
            "and nvidia-smi and dmesg of this host");
  }
}

void NcclWatch::give_up(double waited, const std::string& what, const std::string& advice) const {
  throw RunError(vaecf::format(
      "rank {} on {} has waited {:.0f} s, since {}, for {}. {}. distributed.timeout ({:g} s) sets how long a "
      "rank waits",
      rank_, host_, waited, clock_text(waited), what, advice, timeout_));
}

}  // namespace vaecf::comm
