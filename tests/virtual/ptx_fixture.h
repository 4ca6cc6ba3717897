// What the tests of the virtual device share: they run a kernel given as PTX text, and compare one
// instruction with a scalar function, lane by lane, on every SIMD level of the machine.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "virtual/run/virtual_device.h"

namespace lssar::test {

// Levels of this machine; every test that executes runs on all of them.
std::vector<SimdLevel> levels();

std::shared_ptr<Device> open_device(SimdLevel level, int num_threads = 1);

// A module of one kernel "k" with the given parameter list and body (with its .reg lines).
std::string kernel_text(const std::string& params, const std::string& body,
                        const std::string& module_variables = "",
                        const std::string& target = "sm_90");

struct Launch {
  uint32_t grid = 1;
  uint32_t block = 32;
  uint32_t shared_bytes = 0;
};

// Loads the text and launches its kernel "k" with these 8-byte arguments.
Status run(Device& device, const std::string& text, const Launch& launch,
           const std::vector<uint64_t>& args);

// Memory of a test that the device knows as long as this lives.
template <class T>
class Buffer {
 public:
  Buffer(Device& device, std::vector<T> values) : device_(device), values_(std::move(values)) {
    const Status status = device_.import_range(address(), bytes());
    if (!status.ok()) values_.clear();
  }
  ~Buffer() { device_.release_range(address(), bytes()); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  uint64_t address() const { return reinterpret_cast<uint64_t>(values_.data()); }
  size_t bytes() const { return values_.size() * sizeof(T); }
  const T& operator[](size_t i) const { return values_[i]; }
  const std::vector<T>& values() const { return values_; }

 private:
  Device& device_;
  std::vector<T> values_;
};

// What a lane's 64 bits hold.
enum class Kind { kInteger, kFloat, kDouble, kHalf, kBfloat };

// One instruction or a few: "add.s32 $0, $1, $2;", with the widths of its operands, the result
// first: p h w l. `expect` returns the result from the inputs, all as zero-extended bits. Results
// of a floating `out` kind are equal if both are NaN.
struct LaneCase {
  std::string instruction;
  std::string letters;
  Kind in = Kind::kInteger;
  Kind out = Kind::kInteger;
  std::function<uint64_t(const uint64_t* in)> expect;
  double tolerance = 0;  // relative, of floating results
};

inline void PrintTo(const LaneCase& test, std::ostream* out) { *out << test.instruction; }

// Runs the case on special and random values: unguarded, guarded by a predicate, and in a divergent
// branch, where lanes that do not execute must keep their value. Fails the test at a difference.
void check_lanes(const LaneCase& test);

// Bits <-> values.
float as_float(uint64_t bits);
double as_double(uint64_t bits);
uint64_t bits_of(float value);
uint64_t bits_of(double value);
// Independent of the device's own conversions: exact arithmetic in double.
double half_value(uint16_t bits);
double bfloat_value(uint16_t bits);
uint16_t half_bits(long double value);    // to nearest even
uint16_t bfloat_bits(long double value);  // to nearest even

}  // namespace lssar::test
