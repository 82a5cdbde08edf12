#include <vaecf/io/text_file.hpp>

#include "io/staged_file.hpp"

namespace vaecf::io {

void write_text_file(const std::string& path, std::string_view text) {
  StagedFile staged(path);
  write_bytes(staged.descriptor(), text, path);
  staged.publish();
}

}  // namespace vaecf::io
