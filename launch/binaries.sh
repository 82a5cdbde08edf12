# shellcheck shell=bash
# What launch/bundle and launch/wheel know of programs and libraries, to be sourced after lib.sh.

# Names of libraries that come with every machine, and with CUDA.
# shellcheck disable=SC2034
glibc_names='^(linux-vdso|ld-linux|libc|libm|libmvec|libpthread|libdl|librt|libresolv|libutil|libanl|libnss_.*|libnsl)[-.]'
# shellcheck disable=SC2034
cuda_names='^lib(cuda|cudart|cublas|cublasLt|cusparse|nccl|nvJitLink|nvidia-.*)\.so'

# check_built FOLDER: fails if the program or libvaecf.so is not in this build folder. Requires the function `usage_error`.
check_built() {
  local file
  for file in bin/vaecf_dist lib/libvaecf.so.1; do
    [ -f "$1/$file" ] || usage_error "$1/$file does not exist; build it (launch/build), or set --build"
  done
}

# copy_licenses FOLDER: copies the licenses of the Debian packages of the files whose names it reads.
copy_licenses() {
  mkdir -p "$1"
  # Packages may list /lib for what is in /usr/lib.
  sed 'p; s|^/usr||' | xargs -d '\n' dpkg-query -S 2>/dev/null | sed 's/:.*//' | sort -u | while read -r package; do
    if [ -f "/usr/share/doc/$package/copyright" ]; then cp -L "/usr/share/doc/$package/copyright" "$1/$package"; fi
  done || true  # a library may come from no package
}

# newest_glibc: prints the newest version of glibc that the files whose names it reads need.
newest_glibc() { xargs -d '\n' readelf -V 2>/dev/null | grep -o 'GLIBC_2\.[0-9.]*' | sort -Vu | tail -n 1 | sed 's/^GLIBC_//'; }
