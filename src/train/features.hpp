#pragma once

#include <vaecf/io/dataset_file.hpp>
#include <vaecf/train/session.hpp>

#include <string>

#include "checkpoint_reading.hpp"

namespace vaecf::train {

/// How the dataset's users were hashed into columns of features; empty where it has none, or does not say.
std::string feature_hashing_of(const io::DatasetFile& dataset);

/// InputError where the checkpoint at `path` knows other features of users than the model that `options` make
/// of the dataset.
void require_same_features(const std::string& path, const LoadedCheckpoint& checkpoint,
                           const SessionOptions& options, const io::DatasetFile& dataset);

}  // namespace vaecf::train
