#include <vaecf/io/checkpoint.hpp>

#include "io/checkpoint_seal.hpp"
#include "io/hdf5_reader.hpp"
#include "io/hdf5_values.hpp"

#include <algorithm>

namespace vaecf::io {
namespace {

constexpr int max_depth = 16;

template <class T>
constexpr std::string_view kind_name = "a string";
template <>
constexpr std::string_view kind_name<std::int64_t> = "an integer";
template <>
constexpr std::string_view kind_name<double> = "a floating-point number";
template <>
constexpr std::string_view kind_name<std::vector<double>> = "a list of floating-point numbers";

std::string child_name(hid_t group, hsize_t index) {
  const auto get = [&](char* out, std::size_t size) {
    return static_cast<std::size_t>(
        h5::check(H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, index, out, size, H5P_DEFAULT),
                  "list a group"));
  };
  std::string name(get(nullptr, 0) + 1, '\0');
  get(name.data(), name.size());
  name.pop_back();
  return name;
}

}  // namespace

struct CheckpointFile::Content {
  explicit Content(const std::string& path)
      : checksum(verify_seal(path)), file(path, how_to_get_a_checkpoint) {
    h5::reading(path, [&] {
      attributes = read_attributes(file.id(), path);
      list("", 0);
    });
  }

  /// Adds all tensors below `group`, by name.
  void list(const std::string& group, int depth) {
    if (depth > max_depth) file.refuse(format("{} lies too deep", group));
    const h5::Handle opened(H5Gopen2(file.id(), group.empty() ? "/" : group.c_str(), H5P_DEFAULT),
                            format("open {}", group));
    H5G_info_t info;
    h5::check(H5Gget_info(opened.id(), &info), format("list {}", group));
    for (hsize_t i = 0; i < info.nlinks; ++i) {
      const std::string name = (group.empty() ? "" : group + "/") + child_name(opened.id(), i);
      const h5::Handle object = file.open_object(name);
      if (H5Iget_type(object.id()) == H5I_GROUP) {
        list(name, depth + 1);
      } else {
        add(file.open(name, 2));
      }
    }
  }

  void add(Hdf5Dataset dataset) {
    if (dataset.kind() != H5T_FLOAT) file.refuse(format("{} does not hold numbers", dataset.name));
    const bool vector = dataset.shape.size() == 1;
    infos.push_back({dataset.name, vector ? 1 : dataset.shape[0], dataset.shape.back()});
    datasets.push_back(std::move(dataset));
  }

  std::size_t find(const std::string& name) const {
    const auto found = std::ranges::find(infos, name, &TensorInfo::name);
    if (found == infos.end()) {
      file.refuse(
          format("has no tensor {}; it belongs to another model: check model.type and model.hidden", name));
    }
    return static_cast<std::size_t>(found - infos.begin());
  }

  std::uint64_t checksum;
  Hdf5Reader file;
  Attributes attributes;
  std::vector<TensorInfo> infos;
  std::vector<Hdf5Dataset> datasets;  // as infos
};

CheckpointFile::CheckpointFile(const std::string& path) : content_(std::make_unique<Content>(path)) {}
CheckpointFile::~CheckpointFile() = default;

std::uint64_t CheckpointFile::checksum() const {
  return content_->checksum;
}
const Attributes& CheckpointFile::attributes() const {
  return content_->attributes;
}
const std::vector<CheckpointFile::TensorInfo>& CheckpointFile::tensors() const {
  return content_->infos;
}

template <class T>
T CheckpointFile::attribute(const std::string& name) const {
  const auto found = attributes().find(name);
  if (found == attributes().end()) content_->file.refuse(format("has no attribute {}", name));
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr) content_->file.refuse(format("attribute {} is not {}", name, kind_name<T>));
  return *value;
}
template std::int64_t CheckpointFile::attribute(const std::string&) const;
template double CheckpointFile::attribute(const std::string&) const;
template std::string CheckpointFile::attribute(const std::string&) const;
template std::vector<double> CheckpointFile::attribute(const std::string&) const;

void CheckpointFile::read_rows(const std::string& name, std::int64_t begin, std::int64_t end,
                               std::span<float> out) const {
  const std::size_t index = content_->find(name);
  const TensorInfo& info = content_->infos[index];
  if (begin < 0 || begin > end || end > info.rows ||
      static_cast<std::int64_t>(out.size()) != (end - begin) * info.columns) {
    content_->file.refuse(format("tensor {} has shape ({}, {}); {} values of rows {} to {} were asked for",
                                 name, info.rows, info.columns, out.size(), begin, end));
  }
  if (out.empty()) return;
  h5::reading(content_->file.path(), [&] {
    const Hdf5Dataset& dataset = content_->datasets[index];
    const bool vector = dataset.shape.size() == 1;
    h5::read_rows(dataset.id.id(), H5T_NATIVE_FLOAT, vector ? 0 : begin, vector ? info.columns : end - begin,
                  out.data());
  });
}

}  // namespace vaecf::io
