#include "device/cpu/cpu_launch_timer.h"

#include <chrono>
#include <vector>

#include <fmt/format.h>

namespace lssar {
namespace {

class CpuLaunchTimer final : public LaunchTimer {
 public:
  explicit CpuLaunchTimer(size_t num_samples) : samples_(num_samples) {}

  Status begin(size_t sample, Stream /*stream*/) override {
    LSSAR_RETURN_IF_ERROR(check(sample));
    samples_[sample] = {Clock::now(), {}};
    return {};
  }
  Status end(size_t sample, Stream /*stream*/) override {
    LSSAR_RETURN_IF_ERROR(check(sample));
    samples_[sample].end = Clock::now();
    return {};
  }
  Result<double> ms(size_t sample) override {
    LSSAR_RETURN_IF_ERROR(check(sample));
    const Sample& one = samples_[sample];
    if (one.end < one.begin || one.begin == Clock::time_point())
      return invalid_argument(fmt::format("cpu device: sample {} has no begin and end", sample));
    return std::chrono::duration<double, std::milli>(one.end - one.begin).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Sample {
    Clock::time_point begin, end;
  };

  Status check(size_t sample) const {
    if (sample < samples_.size()) return {};
    return invalid_argument(
        fmt::format("cpu device: sample {} of a timer of {}", sample, samples_.size()));
  }

  std::vector<Sample> samples_;
};

}  // namespace

std::unique_ptr<LaunchTimer> make_cpu_launch_timer(size_t num_samples) {
  return std::make_unique<CpuLaunchTimer>(num_samples);
}

}  // namespace lssar
