#pragma once

#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/models/trainable_model.hpp>

#include <string>

namespace vaecf::checkpoint {

/// Returns a text among the attributes of the dataset; empty if there is none.
std::string text_of(const io::DatasetFile& dataset, const char* name);

/// Returns how the interaction weights in the dataset were made from values: its attribute
/// `interaction_weights`, else "rating"; empty if it has no weights.
std::string weights_of(const io::DatasetFile& dataset);

/// Throws InputError unless the model of the checkpoint has the same user features as the model of
/// `options` with `dataset`.
void require_same_features(const std::string& path, const TrainingState& checkpoint,
                           const models::ModelOptions& options, const io::DatasetFile& dataset);

/// Throws InputError if the checkpoint at `path` was trained on another dataset.
void require_same_dataset(const std::string& path, const TrainingState& checkpoint,
                          const io::DatasetFile& dataset);

}  // namespace vaecf::checkpoint
