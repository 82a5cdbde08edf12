#pragma once

#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace vaecf::models {

/// Reader of the file written by tests/reference/make_reference.py, which describes its format.
class ReferenceFile {
 public:
  explicit ReferenceFile(const std::string& path) {
    std::ifstream stream(path);
    if (!stream) throw std::runtime_error(path + " cannot be read");
    while (stream.peek() == '#') {
      std::string comment;
      std::getline(stream, comment);
    }
    std::string name;
    for (int dimensions = 0; stream >> name >> dimensions;) {
      std::size_t count = 1;
      for (int d = 0; d < dimensions; ++d) {
        std::size_t size = 0;
        stream >> size;
        count *= size;
      }
      std::vector<double> values(count);
      for (double& value : values) stream >> value;
      if (!stream) throw std::runtime_error(path + ": entry " + name + " is truncated");
      entries_[name] = std::move(values);
    }
  }

  const std::vector<double>& at(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) throw std::out_of_range("the reference file has no entry " + name);
    return found->second;
  }
  double number(const std::string& name) const { return at(name).at(0); }
  template <class T>
  std::vector<T> as(const std::string& name) const {
    const std::vector<double>& values = at(name);
    return {values.begin(), values.end()};
  }

 private:
  std::map<std::string, std::vector<double>> entries_;
};

}  // namespace vaecf::models
