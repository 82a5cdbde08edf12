#pragma once

#include <vaecf/context/context.hpp>
#include <vaecf/models/model.hpp>
#include <vaecf/models/trainable_model.hpp>

#include <memory>
#include <vector>

namespace vaecf::models {

/// The output layer of a network in host memory.
struct OutputTable {
  std::vector<float> weights;  // (width, items)
  std::vector<float> bias;     // (items)
};

/// Returns the contributions of items in a network: the score with all of the user's items and features minus
/// the score without the item. The values of the other items stay as they are; only the model divides the row
/// by its norm. These do not add up to the score.
std::unique_ptr<Reasons> make_network_reasons(TrainableModel& model, OutputTable output,
                                              const Context& context);

}  // namespace vaecf::models
