#include <vaecf/io/user_columns_file.hpp>

#include "io/hdf5/hdf5_writer.hpp"

namespace vaecf::io {

void write_user_columns(const std::string& path, const UserColumns& content) {
  Hdf5Writer writer(path);
  const std::int64_t users = content.users.size();
  const auto shape = static_cast<hsize_t>(users);
  writer.write_ids("user_id", content.users);
  for (const UserColumns::Column& column : content.columns) {
    const bool integers = std::holds_alternative<std::vector<std::int64_t>>(column.values);
    const h5::Handle dataset =
        writer.create(column.path, integers ? H5T_STD_I64LE : H5T_IEEE_F64LE, {&shape, 1});
    const hid_t type = integers ? H5T_NATIVE_INT64 : H5T_NATIVE_DOUBLE;
    std::visit(
        [&](const auto& values) {
          writer.write([&] { h5::write_rows(dataset.id(), type, 0, users, values.data()); });
        },
        column.values);
  }
  writer.write_attributes(content.attributes);
  writer.finish();
  writer.commit();
}

}  // namespace vaecf::io
