#pragma once

namespace vaecf::cuda {

/// A library of the CUDA toolkit that is loaded when a GPU is used. Loading all of them at program start
/// would cost every process 0.1 s and 200 MB, even without a GPU.
class Library {
 public:
  /// Loads the first available of two libraries: `file`, found by the loader's search path, or `built_with`.
  /// `name` is that of messages, such as "cuBLASLt". The strings must outlive this object. Throws RunError if
  /// neither can be loaded.
  Library(const char* name, const char* file, const char* built_with);
  /// Returns the address of a function. Throws RunError if the library does not contain it.
  void* find(const char* function) const;

 private:
  const char* name_;
  const char* file_;
  void* handle_;
};

}  // namespace vaecf::cuda
