#pragma once

#include <string>
#include <string_view>

namespace vaecf::data {

/// Throws InputError if `first_bytes`, the beginning of the file `name`, are those of a format that is not
/// text (Parquet, Arrow, Excel, SQLite, NumPy, HTML, HDF5) or of UTF-16. The message states how to convert
/// the file.
void refuse_foreign_format(const std::string& name, std::string_view first_bytes);

/// Throws InputError if `member` is a file that only the archives of Excel and other Office programs contain.
/// `name`: its path, for the message.
void refuse_office_file(const std::string& name, std::string_view member);

}  // namespace vaecf::data
