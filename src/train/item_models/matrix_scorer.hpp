#pragma once

#include <vaecf/device/device.hpp>
#include <vaecf/model/model.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace vaecf::train {

/// Makes a scorer of x B for users x and a dense matrix B (items, items) of weights between items, whose rows
/// `read_rows` writes. `device` must outlive it. Returns null if the device leaves such scores to the host: a
/// CPU, or a GPU whose free memory B exceeds.
std::unique_ptr<model::Scorer> make_matrix_scorer(
    device::Device& device, std::int64_t items,
    const std::function<void(std::int64_t begin, std::int64_t end, std::span<float> out)>& read_rows);

}  // namespace vaecf::train
