#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/digest.hpp>

#include <openssl/err.h>
#include <openssl/evp.h>

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

struct Sha256::State {
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context{EVP_MD_CTX_new()};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  check_openssl(state_->context != nullptr &&
                EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const char> bytes) {
  check_openssl(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::finish() {
  std::array<unsigned char, 32> sum{};
  check_openssl(EVP_DigestFinal_ex(state_->context.get(), sum.data(), nullptr) == 1);
  std::string digits;
  for (const unsigned char byte : sum) digits += format("{:02x}", byte);
  return digits;
}

}  // namespace vaecf::io
