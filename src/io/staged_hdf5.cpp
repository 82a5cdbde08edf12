#include "io/staged_hdf5.hpp"

#include <utility>

namespace vaecf::io {

StagedHdf5::StagedHdf5(std::string path, hsize_t user_block) : staged_(std::move(path)) {
  target_.descriptor = staged_.descriptor();
  write([&] {
    driver_ = register_staged_driver();
    const h5::Handle access(H5Pcreate(H5P_FILE_ACCESS), "prepare a file");
    use_staged_driver(access.id(), driver_.id(), target_);
    // The format of 1.8: attributes beyond 64 KiB, and still readable by every HDF5 in use.
    h5::check(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_V18), "prepare a file");
    const h5::Handle creation(H5Pcreate(H5P_FILE_CREATE), "prepare a file");
    h5::check(H5Pset_userblock(creation.id(), user_block), "prepare a file");
    h5::check(H5Pset_obj_track_times(creation.id(), false), "prepare a file");
    file_ = h5::Handle(H5Fcreate(this->path().c_str(), H5F_ACC_TRUNC, creation.id(), access.id()),
                       "create the file");
  });
}

StagedHdf5::~StagedHdf5() {
  // Whatever is still buffered is on its way to nowhere: spare the disk.
  if (target_.error == 0) target_.error = -1;
}

void StagedHdf5::finish() {
  write([&] {
    h5::check(H5Fflush(file_.id(), H5F_SCOPE_LOCAL), "write the file");
    file_.reset();
  });
}

void StagedHdf5::throw_if_disk_failed() const {
  if (target_.error != 0) throw_write_error(path(), target_.error);
}

}  // namespace vaecf::io
