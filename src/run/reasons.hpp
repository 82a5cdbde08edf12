// Which of a user's items are named as reasons for a recommended item.
#pragma once

#include <cstdint>
#include <span>

namespace vaecf::run {

/// Throws std::logic_error unless the contributions to the score of `item` add up to `score`, within 1e-5 of
/// the sum of their absolute values or, if that is larger, of `scale`.
void require_sum(std::span<const float> contributions, std::int32_t item, float score, double scale);

/// Writes the largest of the contributions of the items `history`, largest first; the lower item wins ties.
/// Unused positions have item -1 and contribution NaN.
void select_reasons(std::span<const std::int32_t> history, std::span<const float> contributions,
                    std::span<std::int32_t> because, std::span<float> largest);

}  // namespace vaecf::run
