#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/digest.hpp>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <xxhash.h>

#include <array>

namespace vaecf::io {
namespace {

void check_openssl(bool good) {
  if (good) return;
  std::array<char, 256> why{};
  ERR_error_string_n(ERR_get_error(), why.data(), why.size());
  ERR_clear_error();
  throw RunError(format(
      "OpenSSL cannot compute SHA-256 ({}); check openssl.cnf, or the file in the environment variable OPENSSL_CONF",
      why.data()));
}

}  // namespace

std::uint64_t xxh64(std::string_view bytes, std::uint64_t seed) {
  return XXH64(bytes.data(), bytes.size(), seed);
}

void Sha256::Free::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  check_openssl(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::update(std::span<const char> bytes) {
  check_openssl(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::finish() {
  std::array<unsigned char, 32> sum{};
  check_openssl(EVP_DigestFinal_ex(context_.get(), sum.data(), nullptr) == 1);
  std::string digits;
  for (const unsigned char byte : sum) digits += format("{:02x}", byte);
  return digits;
}

}  // namespace vaecf::io
