#include <vaecf/io/user_files.hpp>

#include <array>

#include "io/hdf5/hdf5_writer.hpp"

namespace vaecf::io {

struct RecommendationWriter::File {
  File(const std::string& path, Attributes all) : writer(path), attributes(std::move(all)) {}

  Hdf5Writer writer;
  Attributes attributes;
  h5::Handle items;
  h5::Handle scores;
  h5::Handle popular;
  std::int64_t written = 0;
};

RecommendationWriter::RecommendationWriter(const std::string& path, const RecommendationHeader& header)
    : file_(std::make_unique<File>(path, header.attributes)) {
  Hdf5Writer& writer = file_->writer;
  writer.write_ids("user_id", header.users);
  writer.write_ids("item_id", header.items);
  if (header.titles.size() > 0) writer.write_ids("item_title", header.titles);
  const std::array<hsize_t, 2> shape = {static_cast<hsize_t>(header.users.size()),
                                        static_cast<hsize_t>(header.k)};
  file_->items = writer.create("item", H5T_NATIVE_INT32, shape);
  file_->scores = writer.create("score", H5T_NATIVE_FLOAT, shape);
  file_->popular = writer.create("popular", H5T_NATIVE_UINT8, {shape.data(), 1});
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
  for (h5::Handle* dataset : {&file_->items, &file_->scores, &file_->popular}) dataset->reset();
  file_->writer.write_attributes(file_->attributes);
  file_->writer.finish();
  file_->writer.commit();
}

void write_user_columns(const std::string& path, const UserColumns& content) {
  Hdf5Writer writer(path);
  writer.write_ids("user_id", content.users);
  for (const UserColumns::Column& column : content.columns)
    std::visit([&](const auto& values) { writer.write_array(column.path, std::span(values)); },
               column.values);
  writer.write_attributes(content.attributes);
  writer.finish();
  writer.commit();
}

}  // namespace vaecf::io
