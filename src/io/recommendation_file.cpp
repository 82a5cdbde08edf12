#include <vaecf/io/recommendation_file.hpp>

#include "io/hdf5_values.hpp"
#include "io/hdf5_writer.hpp"

#include <array>

namespace vaecf::io {

struct RecommendationWriter::File {
  explicit File(const std::string& path) : writer(path) {}

  Hdf5Writer writer;
  h5::Handle items;
  h5::Handle scores;
  h5::Handle popular;
  Attributes attributes;
  std::int64_t users = 0;
  std::int64_t written = 0;
};

RecommendationWriter::RecommendationWriter(const std::string& path, const RecommendationHead& head)
    : file_(std::make_unique<File>(path)) {
  file_->users = head.users.size();
  file_->attributes = head.attributes;
  file_->writer.write([&] {
    const hid_t file = file_->writer.id();
    write_id_list(file, "user_id", head.users);
    write_id_list(file, "item_id", head.items);
    if (head.titles.size() > 0) write_id_list(file, "item_title", head.titles);
    const std::array<hsize_t, 2> shape = {static_cast<hsize_t>(head.users.size()),
                                          static_cast<hsize_t>(head.k)};
    file_->items = h5::create_dataset(file, "item", H5T_STD_I32LE, shape, 0);
    file_->scores = h5::create_dataset(file, "score", H5T_IEEE_F32LE, shape, 0);
    file_->popular = h5::create_dataset(file, "popular", H5T_STD_U8LE, {shape.data(), 1}, 0);
  });
}

RecommendationWriter::~RecommendationWriter() = default;

void RecommendationWriter::append(std::span<const std::int32_t> items, std::span<const float> scores,
                                  std::span<const std::uint8_t> popular) {
  const auto rows = static_cast<std::int64_t>(popular.size());
  file_->writer.write([&] {
    h5::write_rows(file_->items.id(), H5T_NATIVE_INT32, file_->written, rows, items.data());
    h5::write_rows(file_->scores.id(), H5T_NATIVE_FLOAT, file_->written, rows, scores.data());
    h5::write_rows(file_->popular.id(), H5T_NATIVE_UINT8, file_->written, rows, popular.data());
  });
  file_->written += rows;
}

void RecommendationWriter::commit() {
  if (file_->written != file_->users) {
    throw RunError(format("{}: {} of {} users were written before the commit", file_->writer.path(),
                          file_->written, file_->users));
  }
  for (h5::Handle* dataset : {&file_->items, &file_->scores, &file_->popular}) dataset->reset();
  file_->writer.write([&] { write_attributes(file_->writer.id(), file_->attributes); });
  file_->writer.finish();
  file_->writer.commit();
}

}  // namespace vaecf::io
