// Matrix products of the platform layer.
#include <vaecf/base/half_precision.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

#include "device/cuda/platform/sparse_products.hpp"
#include "device/cuda/split_matmuls.hpp"
#include "device/cuda_emulator/cuda_platform_support.hpp"

namespace vaecf::cuda_test {
namespace {

using cuda::DeviceArray;
using cuda::DType;
using cuda::MatmulSpec;

constexpr float untouched = 77.0F;
/// Error of fp32 sums relative to the sum of their terms' absolute values.
constexpr double fp32_sums = 16 * 0x1p-24;

std::vector<std::byte> encode(DType dtype, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(cuda::size_of(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::fp32) {
      reinterpret_cast<float*>(bytes.data())[i] = values[i];
    } else {
      reinterpret_cast<std::uint16_t*>(bytes.data())[i] =
          dtype == DType::bf16 ? to_bf16(values[i]) : to_fp16(values[i]);
    }
  }
  return bytes;
}

std::vector<float> decode(DType dtype, const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / static_cast<std::size_t>(cuda::size_of(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::fp32) {
      values[i] = reinterpret_cast<const float*>(bytes.data())[i];
    } else {
      const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(bytes.data())[i];
      values[i] = dtype == DType::bf16 ? from_bf16(bits) : from_fp16(bits);
    }
  }
  return values;
}

/// A matrix on the device, starting `offset` elements into its memory, and the values that the device reads,
/// on the host.
struct Matrix {
  DType dtype;
  std::int64_t stride;
  std::int64_t offset;
  std::vector<float> host;
  DeviceArray<std::byte> device;

  float at(std::int64_t row, std::int64_t column) const {
    return host[static_cast<std::size_t>(offset + row * stride + column)];
  }
  std::byte* data() { return device.data() + offset * cuda::size_of(dtype); }
};

struct Sizes {
  std::int64_t m, n, k;
};

class Matmul : public Platform {
 protected:
  /// Calls `run` for several sizes, transposed operands, accumulated results, biases, and alignments.
  template <class Run>
  static void for_each_kind(Run&& run) {
    for (const Sizes& sizes : {Sizes{1, 1, 1}, {3, 5, 7}, {17, 33, 9}, {64, 72, 40}, {31, 129, 257}}) {
      for (int kind = 0; kind < 12; ++kind) {
        MatmulSpec spec{.m = sizes.m, .n = sizes.n, .k = sizes.k};
        spec.a_transposed = (kind & 1) != 0;
        spec.b_transposed = (kind & 2) != 0;
        spec.accumulate = kind / 4 == 1;
        ASSERT_NO_FATAL_FAILURE(run(spec, false));
        spec.bias = kind / 4 == 2;
        ASSERT_NO_FATAL_FAILURE(run(spec, true));
      }
    }
  }

  /// Makes a matrix of random values, surrounded by NaN that no product may read.
  Matrix random(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding = 0,
                std::int64_t offset = 0) {
    Matrix matrix{dtype, columns + padding, offset, {}, {}};
    matrix.host.assign(static_cast<std::size_t>(offset + rows * matrix.stride),
                       std::numeric_limits<float>::quiet_NaN());
    std::uniform_real_distribution<float> values(-1.0F, 1.0F);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        matrix.host[static_cast<std::size_t>(offset + row * matrix.stride + column)] = values(engine_);
      }
    }
    send(matrix);
    return matrix;
  }

  void send(Matrix& matrix) {
    const auto bytes = encode(matrix.dtype, matrix.host);
    matrix.device = upload(bytes);
    matrix.host = decode(matrix.dtype, bytes);
  }

  void expect_product(cuda::Matmuls& matmuls, MatmulSpec spec, bool aligned) {
    expect_product(
        [&](const MatmulSpec& filled, Matrix& a, Matrix& b, Matrix& c, const void* bias) {
          matmuls.run(stream(), filled, a.data(), b.data(), c.data(), bias);
        },
        spec, aligned, fp32_sums);
  }

  /// Multiplies by `multiply` and compares with fp64 sums. If `aligned` is set, start and row stride are
  /// multiples of 16 bytes, otherwise they are not.
  template <class Multiply>
  void expect_product(Multiply&& multiply, MatmulSpec spec, bool aligned, double error_of_terms) {
    const auto operand = [&](DType dtype, std::int64_t rows, std::int64_t columns) {
      return aligned ? random(dtype, rows, columns, 16 - columns % 8, 8) : random(dtype, rows, columns, 3, 1);
    };
    SCOPED_TRACE(::testing::Message()
                 << "(" << spec.m << ", " << spec.k << ") by (" << spec.k << ", " << spec.n << ")"
                 << (spec.a_transposed ? ", a'" : "") << (spec.b_transposed ? ", b'" : "")
                 << (spec.accumulate ? ", accumulated" : "") << (spec.bias ? ", bias" : "")
                 << (aligned ? ", aligned" : ""));
    Matrix a =
        spec.a_transposed ? operand(spec.operands, spec.k, spec.m) : operand(spec.operands, spec.m, spec.k);
    Matrix b =
        spec.b_transposed ? operand(spec.operands, spec.n, spec.k) : operand(spec.operands, spec.k, spec.n);
    Matrix c = operand(spec.result, spec.m, spec.n);
    Matrix bias = random(spec.result, 1, spec.n);
    for (float& value : c.host) {
      if (std::isnan(value))
        value = untouched;
      else if (!spec.accumulate)
        value = std::numeric_limits<float>::quiet_NaN();
    }
    send(c);
    spec.lda = a.stride;
    spec.ldb = b.stride;
    spec.ldc = c.stride;
    multiply(spec, a, b, c, spec.bias ? bias.data() : nullptr);
    compare(spec, a, b, c, bias, decode(spec.result, download(c.device)), error_of_terms);
  }

  static void compare(const MatmulSpec& spec, const Matrix& a, const Matrix& b, const Matrix& c,
                      const Matrix& bias, const std::vector<float>& result,
                      double error_of_terms = fp32_sums) {
    const double rounding = spec.result == DType::fp32   ? 0x1p-23
                            : spec.result == DType::bf16 ? 0x1p-8
                                                         : 0x1p-11;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(result.size()); ++i) {
      const std::int64_t row = (i - c.offset) / c.stride;
      const std::int64_t column = (i - c.offset) % c.stride;
      if (i < c.offset || column >= spec.n) {
        ASSERT_EQ(result[static_cast<std::size_t>(i)], untouched) << i;
        continue;
      }
      double sum = 0.0;
      double size = 0.0;
      const auto add = [&](double value) {
        sum += value;
        size += std::abs(value);
      };
      // Pointers along the row of op(a) and the column of op(b), because sanitizers check every access.
      const float* left = a.host.data() + a.offset + row * (spec.a_transposed ? 1 : a.stride);
      const float* right = b.host.data() + b.offset + column * (spec.b_transposed ? b.stride : 1);
      const std::int64_t left_step = spec.a_transposed ? a.stride : 1;
      const std::int64_t right_step = spec.b_transposed ? 1 : b.stride;
      for (std::int64_t k = 0; k < spec.k; ++k, left += left_step, right += right_step) {
        add(static_cast<double>(*left) * static_cast<double>(*right));
      }
      // A 16-bit result is rounded once, and cuBLASLt may also round the product before c or a bias is added.
      double rounded = spec.accumulate || spec.bias ? std::abs(sum) : 0.0;
      if (spec.accumulate) add(c.at(row, column));
      if (spec.bias) add(bias.at(0, column));
      rounded += std::abs(sum);
      const double tolerance = error_of_terms * size + rounding * rounded + 1e-7;
      ASSERT_NEAR(result[static_cast<std::size_t>(i)], sum, tolerance) << row << ", " << column;
    }
  }

 private:
  std::mt19937 engine_{11};
};

/// All kinds of products for one element type.
class MatmulKinds : public Matmul, public ::testing::WithParamInterface<std::pair<DType, DType>> {};

TEST_P(MatmulKinds, EqualSumsInFp64) {
  cuda::Matmuls matmuls(gpu(), false);
  for_each_kind([&](MatmulSpec spec, bool aligned) {
    spec.operands = GetParam().first;
    spec.result = GetParam().second;
    expect_product(matmuls, spec, aligned);
  });
}

TEST_P(MatmulKinds, LongSumsAreAccurateAndReproducible) {
  cuda::Matmuls matmuls(gpu(), true);
  MatmulSpec spec{.m = 24, .n = 40, .k = 6000};
  spec.operands = GetParam().first;
  spec.result = GetParam().second;
  ASSERT_NO_FATAL_FAILURE(expect_product(matmuls, spec, true));
  Matrix a = random(spec.operands, spec.m, spec.k);
  Matrix b = random(spec.operands, spec.k, spec.n);
  Matrix c = random(spec.result, spec.m, spec.n);
  cuda::Matmuls others(gpu(), true);
  matmuls.run(stream(), spec, a.data(), b.data(), c.data());
  const auto first = download(c.device);
  matmuls.run(stream(), spec, a.data(), b.data(), c.data());
  EXPECT_TRUE(download(c.device) == first);
  others.run(stream(), spec, a.data(), b.data(), c.data());
  EXPECT_TRUE(download(c.device) == first);
}

std::string kind_name(const ::testing::TestParamInfo<std::pair<DType, DType>>& kind) {
  const char* names[] = {"fp32", "bf16", "fp16"};
  return std::string(names[static_cast<int>(kind.param.first)]) + "_to_" +
         names[static_cast<int>(kind.param.second)];
}

INSTANTIATE_TEST_SUITE_P(Numbers, MatmulKinds,
                         ::testing::Values(std::pair(DType::fp32, DType::fp32),
                                           std::pair(DType::bf16, DType::fp32),
                                           std::pair(DType::bf16, DType::bf16),
                                           std::pair(DType::fp16, DType::fp32),
                                           std::pair(DType::fp16, DType::fp16)),
                         kind_name);

TEST_F(Matmul, Tf32RoundsOperandsToTenBitsAndFp32DoesNot) {
  cuda::Matmuls exact(gpu(), true);
  cuda::Matmuls rounding(gpu(), true, cuda::Fp32Products::tf32);
  const MatmulSpec spec{.m = 64, .n = 64, .k = 64};
  Matrix a = random(DType::fp32, 64, 64);
  Matrix b = random(DType::fp32, 64, 64);
  Matrix c = random(DType::fp32, 64, 64);
  // Each sum has one term: 1 + 2^-13 is lost with 10 fraction bits, 1 + 2^-10 is not.
  std::fill(a.host.begin(), a.host.end(), 0.0F);
  for (std::size_t i = 0; i < 64; ++i) a.host[65 * i] = i % 2 == 0 ? 1.0F + 0x1p-13F : 1.0F + 0x1p-10F;
  std::fill(b.host.begin(), b.host.end(), 1.0F);
  send(a);
  send(b);
  exact.run(stream(), spec, a.data(), b.data(), c.data());
  const auto kept = decode(DType::fp32, download(c.device));
  rounding.run(stream(), spec, a.data(), b.data(), c.data());
  const auto rounded = decode(DType::fp32, download(c.device));
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(kept[64 * i], a.host[65 * i]) << i;
    // Whether a GPU uses tensor cores for such a small product is unspecified.
    if (!on_gpu()) {
      EXPECT_EQ(rounded[64 * i], i % 2 == 0 ? 1.0F : 1.0F + 0x1p-10F) << i;
    }
    EXPECT_NEAR(rounded[64 * i], a.host[65 * i], 0x1p-10) << i;
  }
}

// Split within the product, or before it: the left operand, the right one, or both.
TEST_F(Matmul, Bf16x3EqualsSumsInFp64) {
  cuda::AllocationEpoch epoch;
  cuda::Scratch scratch(gpu(), epoch);
  cuda::Scratch other_scratch(gpu(), epoch);
  const auto precision = device::Precision::bf16x3;
  cuda::SplitMatmuls products(gpu(), scratch, false, precision);
  cuda::SplitMatmuls other_products(gpu(), other_scratch, false, precision);
  const auto split = [&](cuda::SplitMatmuls& by, Matrix& x) {
    const std::int64_t elements = static_cast<std::int64_t>(x.host.size()) - x.offset;
    return by.split(stream(), x.dtype, x.data(), elements);
  };
  for (const bool splits_a : {false, true}) {
    for (const bool splits_b : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "split before: " << splits_a << ", " << splits_b);
      const auto multiply = [&](const MatmulSpec& filled, Matrix& a, Matrix& b, Matrix& c, const void* bias) {
        const cuda::Operand left = splits_a ? split(products, a) : a.data();
        const cuda::Operand right = splits_b ? split(other_products, b) : b.data();
        products.run(stream(), filled, left, right, c.data(), bias);
      };
      for_each_kind(
          [&](const MatmulSpec& spec, bool aligned) { expect_product(multiply, spec, aligned, 1e-5); });
    }
  }
}

// In bf16 alone the error would be about 1e-3.
TEST_F(Matmul, Bf16x3IsAccurateTo1e5InLongSums) {
  cuda::AllocationEpoch epoch;
  cuda::Scratch scratch(gpu(), epoch);
  cuda::SplitMatmuls products(gpu(), scratch, true, device::Precision::bf16x3);
  const MatmulSpec spec{.m = 24, .n = 40, .k = 6000};
  Matrix a = random(DType::fp32, 24, 6000);
  Matrix b = random(DType::fp32, 6000, 40);
  Matrix c = random(DType::fp32, 24, 40);
  for (const bool before : {false, true}) {
    const cuda::Operand left = before ? products.split(stream(), DType::fp32, a.data(), 24 * 6000) : a.data();
    products.run(stream(), spec, left, b.data(), c.data());
    const auto result = decode(DType::fp32, download(c.device));
    double error = 0.0;
    double norm = 0.0;
    for (std::int64_t i = 0; i < 24 * 40; ++i) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < 6000; ++k) {
        sum += static_cast<double>(a.at(i / 40, k)) * static_cast<double>(b.at(k, i % 40));
      }
      error += std::pow(result[static_cast<std::size_t>(i)] - sum, 2);
      norm += sum * sum;
    }
    EXPECT_LE(std::sqrt(error / norm), 1e-5) << before;
  }
}

TEST_F(Matmul, CapturedProductsReadCurrentOperands) {
  cuda::Matmuls matmuls(gpu(), false);
  MatmulSpec spec{.m = 20, .n = 32, .k = 40, .bias = true};
  spec.operands = DType::bf16;
  Matrix a = random(DType::bf16, 20, 40);
  Matrix b = random(DType::bf16, 40, 32);
  Matrix c = random(DType::fp32, 20, 32);
  Matrix bias = random(DType::fp32, 1, 32);
  Matrix other_bias = random(DType::fp32, 1, 32);
  matmuls.run(stream(), spec, a.data(), b.data(), c.data(), other_bias.data());
  stream().synchronize();
  stream().begin_capture();
  matmuls.run(stream(), spec, a.data(), b.data(), c.data(), bias.data());
  const cuda::CapturedGraph graph = stream().end_capture();
  // A later call with another bias must not change the captured product.
  matmuls.run(stream(), spec, a.data(), b.data(), c.data(), other_bias.data());
  for (float& value : a.host) value = -value;
  const auto negative = encode(DType::bf16, a.host);
  stream().copy_h2d(a.data(), negative.data(), a.device.bytes());
  stream().run(graph);
  ASSERT_NO_FATAL_FAILURE(compare(spec, a, b, c, bias, decode(DType::fp32, download(c.device))));
}

// Large enough for the algorithms to be timed; with long sums, as in the decoder's backward pass, and short
// ones.
TEST_F(Matmul, LargeProductsAreCorrect) {
  if (!on_gpu()) GTEST_SKIP() << "the host emulation has no choice of algorithms";
  cuda::Matmuls matmuls(gpu(), false);
  cuda::Matmuls fixed(gpu(), true);
  for (const Sizes& sizes : {Sizes{640, 600, 1536}, {600, 1536, 640}}) {
    MatmulSpec spec{.m = sizes.m, .n = sizes.n, .k = sizes.k};
    spec.operands = DType::bf16;
    ASSERT_NO_FATAL_FAILURE(expect_product(matmuls, spec, true));
    spec.b_transposed = true;
    spec.bias = true;
    ASSERT_NO_FATAL_FAILURE(expect_product(matmuls, spec, true));
    ASSERT_NO_FATAL_FAILURE(expect_product(fixed, spec, true));
  }
}

TEST_F(Platform, SparseProductEqualsFp64AndLeavesThePaddingAlone) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> value(-1.0F, 1.0F);
  for (const bool deterministic : {false, true}) {
    cuda::SparseProducts products(gpu(), deterministic);
    for (const auto& [rows, depth, n] : {std::array<std::int64_t, 3>{1, 1, 1}, {70, 300, 256}, {5, 40, 33}}) {
      const std::int64_t ldb = n + 4, ldc = n + 8;
      std::vector<std::int32_t> offsets{0}, indices;
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t k = row == 3 ? depth : row % 2; k < depth; k += 1 + row % 5)  // row 3 is empty
          indices.push_back(static_cast<std::int32_t>(k));
        offsets.push_back(static_cast<std::int32_t>(indices.size()));
      }
      std::vector<float> values(indices.size()), b(static_cast<std::size_t>(depth * ldb));
      for (std::vector<float>* all : {&values, &b})
        for (float& one : *all) one = value(random);
      const std::vector<float> before(static_cast<std::size_t>(rows * ldc), untouched);
      const auto device_offsets = upload(offsets);
      const auto device_indices = upload(indices);
      const auto device_values = upload(values);
      const auto device_b = upload(b);
      auto c = upload(before);
      products.run(stream(),
                   {device_offsets.data(), device_indices.data(), device_values.data(), rows, depth,
                    std::ssize(indices)},
                   device_b.data(), ldb, n, c.data(), ldc);
      const std::vector<float> found = download(c);
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t j = 0; j < ldc; ++j) {
          double expected = 0.0, size = 0.0;
          for (std::int32_t k = offsets[row]; k < offsets[row + 1] && j < n; ++k) {
            const double term = static_cast<double>(values[k]) * b[indices[k] * ldb + j];
            expected += term;
            size += std::abs(term);
          }
          if (j >= n) expected = untouched;
          ASSERT_NEAR(found[row * ldc + j], expected, 1e-5 * size) << row << ", " << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace vaecf::cuda_test
