// Fits factors on the cost model's terms to measured records, and measures how well estimates rank
// them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "autotune/model/cost_model.h"

namespace lssar {
namespace {

constexpr int kLeastRecords = 8;
constexpr double kPull = 0.1;  // towards 1: counts as this many records of sensitivity 1
constexpr int kSteps = 30;
constexpr double kLargestStep = 0.5;  // of a factor's logarithm
constexpr double kLargestLog = 2.0;   // factors stay within e^2 of 1

using Vector = std::array<double, kNumResources>;
using Matrix = std::array<Vector, kNumResources>;

struct Sample {
  Bucket bucket;
  CostEstimate estimate;
  double log_ms = 0;
};

std::vector<Sample> samples_of(const std::vector<TuningRecord>& measured,
                               const DeviceModel& model) {
  std::vector<Sample> samples;
  const Result<Target> target = target_from_name(model_target(model));
  if (!target.ok()) return samples;
  for (const TuningRecord& record : measured) {
    if (record.evidence != Evidence::kMeasured || record.verdict != Verdict::kOk ||
        !(record.ms > 0) || record.machine.target != model_target(model) ||
        !validate(record.problem).ok() || !validate(record.schedule, record.problem, *target).ok())
      continue;
    samples.push_back({record.bucket,
                       estimate_cost(record.problem, record.sizes, record.schedule, *target, model,
                                     record.lengths),
                       std::log(record.ms)});
  }
  return samples;
}

// REQUIRES: `a` is symmetric and positive definite; the pull makes it so.
Vector solve(Matrix a, Vector b) {
  for (size_t k = 0; k < kNumResources; ++k) {
    for (size_t row = k + 1; row < kNumResources; ++row) {
      const double ratio = a[row][k] / a[k][k];
      for (size_t col = k; col < kNumResources; ++col) a[row][col] -= ratio * a[k][col];
      b[row] -= ratio * b[k];
    }
  }
  Vector x = {};
  for (size_t k = kNumResources; k-- > 0;) {
    double sum = b[k];
    for (size_t col = k + 1; col < kNumResources; ++col) sum -= a[k][col] * x[col];
    x[k] = sum / a[k][k];
  }
  return x;
}

// By how much of itself an estimate grows with the logarithm of each factor.
Vector slopes_of(const CostEstimate& estimate) {
  constexpr double kStep = 1e-4;
  const double before = combine(estimate.terms_ms, estimate.hidden);
  const double combined = estimate.ms - estimate.stall_ms - estimate.launch_ms;
  Vector slopes = {};
  for (size_t i = 0; before > 0 && i < slopes.size(); ++i) {
    Vector terms = estimate.terms_ms;
    terms[i] *= 1 + kStep;
    slopes[i] = (combine(terms, estimate.hidden) / before - 1) / kStep * combined / estimate.ms;
  }
  return slopes;
}

// One Gauss-Newton step for the logarithms of the factors. Returns its length.
double step(const std::vector<Sample>& samples, Vector* logs) {
  Calibration now;
  for (size_t i = 0; i < logs->size(); ++i) now.factor[i] = std::exp((*logs)[i]);
  Matrix a = {};
  Vector b = {};
  for (size_t i = 0; i < logs->size(); ++i) {
    a[i][i] = kPull;
    b[i] = -kPull * (*logs)[i];
  }
  for (const Sample& sample : samples) {
    const CostEstimate fitted = apply(sample.estimate, now);
    const double error = sample.log_ms - std::log(fitted.ms);
    const Vector slope = slopes_of(fitted);
    for (size_t i = 0; i < slope.size(); ++i) {
      b[i] += slope[i] * error;
      for (size_t j = 0; j < slope.size(); ++j) a[i][j] += slope[i] * slope[j];
    }
  }
  const Vector delta = solve(a, b);
  double length = 0;
  for (size_t i = 0; i < delta.size(); ++i) {
    const double moved = std::clamp(delta[i], -kLargestStep, kLargestStep);
    (*logs)[i] = std::clamp((*logs)[i] + moved, -kLargestLog, kLargestLog);
    length = std::max(length, std::abs(moved));
  }
  return length;
}

double mean_correlation(const std::vector<Sample>& samples, const Calibration& calibration) {
  double sum = 0, weight = 0;
  std::vector<bool> is_done(samples.size(), false);
  for (size_t i = 0; i < samples.size(); ++i) {
    if (is_done[i]) continue;
    std::vector<double> estimates, times;
    for (size_t j = i; j < samples.size(); ++j) {
      if (!(samples[j].bucket == samples[i].bucket)) continue;
      is_done[j] = true;
      estimates.push_back(apply(samples[j].estimate, calibration).ms);
      times.push_back(samples[j].log_ms);
    }
    const double correlation = rank_correlation(estimates, times);
    if (std::isnan(correlation)) continue;
    sum += correlation * static_cast<double>(times.size());
    weight += static_cast<double>(times.size());
  }
  return weight > 0 ? sum / weight : std::numeric_limits<double>::quiet_NaN();
}

// The smallest has rank 1; ties have the mean of their ranks.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) ++last;
    for (size_t i = first; i <= last; ++i)
      ranks[order[i]] = 1 + 0.5 * static_cast<double>(first + last);
    first = last + 1;
  }
  return ranks;
}

}  // namespace

Calibration calibrate(const std::vector<TuningRecord>& measured, const DeviceModel& model) {
  const std::vector<Sample> samples = samples_of(measured, model);
  Calibration calibration;
  calibration.records = static_cast<int>(samples.size());
  if (calibration.records >= kLeastRecords) {
    constexpr double kConverged = 1e-6;
    Vector logs = {};
    for (int i = 0; i < kSteps && step(samples, &logs) > kConverged; ++i) {
    }
    for (size_t i = 0; i < logs.size(); ++i) calibration.factor[i] = std::exp(logs[i]);
  }
  calibration.rank_correlation = mean_correlation(samples, calibration);
  return calibration;
}

CostEstimate apply(const CostEstimate& estimate, const Calibration& calibration) {
  CostEstimate result = estimate;
  for (size_t i = 0; i < result.terms_ms.size(); ++i) result.terms_ms[i] *= calibration.factor[i];
  const double before = combine(estimate.terms_ms, estimate.hidden);
  const double ratio = before > 0 ? combine(result.terms_ms, estimate.hidden) / before : 1;
  const double fixed = estimate.stall_ms + estimate.launch_ms;
  result.ms = (estimate.ms - fixed) * ratio + fixed;
  // The bound is what the hardware can do at best. If it was measured to do better, the bound was
  // wrong.
  const double least = *std::min_element(calibration.factor.begin(), calibration.factor.end());
  result.lower_bound_ms *= std::min(1.0, least);
  result.limit = static_cast<Resource>(
      std::max_element(result.terms_ms.begin(), result.terms_ms.end()) - result.terms_ms.begin());
  return result;
}

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.size() < 3) return std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = (1 + static_cast<double>(a.size())) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  // All values of one side are equal: there is no order to agree with.
  if (xx == 0 || yy == 0) return std::numeric_limits<double>::quiet_NaN();
  return xy / std::sqrt(xx * yy);
}

}  // namespace lssar
