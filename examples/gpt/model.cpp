#include "model.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "layers.h"
#include "matmul.h"

namespace gpt {
namespace {

constexpr double kEmbeddingDeviation = 0.05;
constexpr int64_t kMlpFactor = 4;

template <typename Real>
void add_to(std::vector<Real>& sum, const std::vector<Real>& x) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
}

}  // namespace

template <typename Real>
Gpt<Real>::Gpt(const ModelShape& shape, uint64_t seed) : shape_(shape) {
  const int64_t width = shape_.width(), wide = kMlpFactor * width;
  embedding_ = add(kVocabulary * width, true);
  for (int64_t i = 0; i < shape_.layers; ++i) {
    LayerParameters layer;
    layer.norm1 = add(width, false);
    layer.qkv = add(width * 3 * width, true);
    layer.projection = add(width * width, true);
    layer.norm2 = add(width, false);
    layer.up = add(width * wide, true);
    layer.down = add(wide * width, true);
    layers_.push_back(layer);
  }
  final_norm_ = add(width, false);
  parameters_.assign(static_cast<size_t>(list_.back().offset + list_.back().count), Real{1});
  gradient_.assign(parameters_.size(), Real{0});
  values_.resize(layers_.size());

  std::mt19937_64 bits(seed);
  const auto fill = [&](const Parameter& parameter, double deviation) {
    for (int64_t i = 0; i < parameter.count; ++i) {
      // Sums of four uniform numbers: near to normal ones, and the same with every C++ library.
      double sum = -2;
      for (int j = 0; j < 4; ++j) sum += static_cast<double>(bits() >> 11) * 0x1p-53;
      parameters_[parameter.offset + i] = static_cast<Real>(sum * std::sqrt(3.0) * deviation);
    }
  };
  const double in = 1 / std::sqrt(static_cast<double>(width));
  const double residual = 1 / std::sqrt(2.0 * static_cast<double>(shape_.layers));
  fill(embedding_, kEmbeddingDeviation);
  for (const LayerParameters& layer : layers_) {
    fill(layer.qkv, in);
    fill(layer.projection, in * residual);
    fill(layer.up, in);
    fill(layer.down, in * residual / std::sqrt(static_cast<double>(kMlpFactor)));
  }
}

template <typename Real>
Parameter Gpt<Real>::add(int64_t count, bool is_matrix) {
  const int64_t offset = list_.empty() ? 0 : list_.back().offset + list_.back().count;
  list_.push_back({offset, count, is_matrix});
  return list_.back();
}

template <typename Real>
void Gpt<Real>::linear(int64_t rows, int64_t in, int64_t out, const std::vector<Real>& x,
                       const Parameter& weight, std::vector<Real>& y) const {
  y.resize(static_cast<size_t>(rows * out));
  matmul<Real>(rows, out, in, {x.data(), in}, {at(weight), out}, y.data(), false);
}

template <typename Real>
void Gpt<Real>::linear_backward(int64_t rows, int64_t in, int64_t out, const std::vector<Real>& x,
                                const Parameter& weight, const std::vector<Real>& grad_y,
                                std::vector<Real>& grad_x) {
  matmul<Real>(in, out, rows, {x.data(), 1, in}, {grad_y.data(), out}, grad_at(weight), true);
  grad_x.resize(static_cast<size_t>(rows * in));
  matmul<Real>(rows, in, out, {grad_y.data(), out}, {at(weight), 1, out}, grad_x.data(), false);
}

template <typename Real>
void Gpt<Real>::embed(const Batch& batch) {
  const int64_t width = shape_.width();
  stream_.resize(static_cast<size_t>(batch.rows() * width));
  for (int64_t r = 0; r < batch.rows(); ++r) {
    std::copy_n(at(embedding_) + batch.bytes[r] * width, width, &stream_[r * width]);
  }
}

template <typename Real>
void Gpt<Real>::forward_layer(Attention<Real>& attention, const Batch& batch, int layer,
                              bool trains) {
  const LayerParameters& parameters = layers_[static_cast<size_t>(layer)];
  LayerValues& values = values_[static_cast<size_t>(layer)];
  const int64_t rows = batch.rows(), width = shape_.width(), wide = kMlpFactor * width;
  values.in = stream_;
  values.normed1.resize(stream_.size());
  rms_norm(rows, width, stream_.data(), at(parameters.norm1), values.normed1.data());
  linear(rows, width, 3 * width, values.normed1, parameters.qkv, values.qkv);
  rope(rows, batch.length, shape_.heads, shape_.head_dim, false, values.qkv.data());
  values.o.resize(stream_.size());
  const AttentionShape shape = {batch.windows, batch.length, shape_.heads, shape_.head_dim};
  if (trains) {
    attention.forward_train(layer, shape, values.qkv.data(), values.o.data());
  } else {
    attention.forward(shape, values.qkv.data(), values.o.data());
  }
  linear(rows, width, width, values.o, parameters.projection, scratch_);
  add_to(stream_, scratch_);

  values.middle = stream_;
  values.normed2.resize(stream_.size());
  rms_norm(rows, width, stream_.data(), at(parameters.norm2), values.normed2.data());
  linear(rows, width, wide, values.normed2, parameters.up, values.up);
  values.activated.resize(values.up.size());
  squared_relu(rows * wide, values.up.data(), values.activated.data());
  linear(rows, wide, width, values.activated, parameters.down, scratch_);
  add_to(stream_, scratch_);
}

// grad_stream_ goes from behind the layer to before it.
template <typename Real>
void Gpt<Real>::backward_layer(Attention<Real>& attention, const Batch& batch, int layer) {
  const LayerParameters& parameters = layers_[static_cast<size_t>(layer)];
  const LayerValues& values = values_[static_cast<size_t>(layer)];
  const int64_t rows = batch.rows(), width = shape_.width(), wide = kMlpFactor * width;
  linear_backward(rows, wide, width, values.activated, parameters.down, grad_stream_, grad_wide_);
  squared_relu_backward(rows * wide, values.up.data(), grad_wide_.data(), grad_wide_.data());
  linear_backward(rows, width, wide, values.normed2, parameters.up, grad_wide_, grad_normed_);
  grad_in_.resize(stream_.size());
  rms_norm_backward(rows, width, values.middle.data(), at(parameters.norm2), grad_normed_.data(),
                    grad_in_.data(), grad_at(parameters.norm2));
  add_to(grad_stream_, grad_in_);

  linear_backward(rows, width, width, values.o, parameters.projection, grad_stream_, scratch_);
  grad_wide_.resize(values.qkv.size());
  attention.backward(layer, scratch_.data(), grad_wide_.data());
  rope(rows, batch.length, shape_.heads, shape_.head_dim, true, grad_wide_.data());
  linear_backward(rows, width, 3 * width, values.normed1, parameters.qkv, grad_wide_, grad_normed_);
  rms_norm_backward(rows, width, values.in.data(), at(parameters.norm1), grad_normed_.data(),
                    grad_in_.data(), grad_at(parameters.norm1));
  add_to(grad_stream_, grad_in_);
}

template <typename Real>
double Gpt<Real>::head(const Batch& batch, bool trains) {
  const int64_t rows = batch.rows(), width = shape_.width();
  std::vector<Real> normed(stream_.size()), logits(static_cast<size_t>(rows * kVocabulary));
  rms_norm(rows, width, stream_.data(), at(final_norm_), normed.data());
  const View<Real> transposed = {at(embedding_), 1, width};
  matmul<Real>(rows, kVocabulary, width, {normed.data(), width}, transposed, logits.data(), false);
  // The gradient takes the logits' place.
  const double loss = cross_entropy(rows, kVocabulary, logits.data(), batch.targets,
                                    trains ? logits.data() : nullptr);
  if (!trains) return loss;

  matmul<Real>(kVocabulary, width, rows, {logits.data(), 1, kVocabulary}, {normed.data(), width},
               grad_at(embedding_), true);
  grad_normed_.resize(stream_.size());
  matmul<Real>(rows, width, kVocabulary, {logits.data(), kVocabulary}, {at(embedding_), width},
               grad_normed_.data(), false);
  grad_stream_.resize(stream_.size());
  rms_norm_backward(rows, width, stream_.data(), at(final_norm_), grad_normed_.data(),
                    grad_stream_.data(), grad_at(final_norm_));
  return loss;
}

template <typename Real>
double Gpt<Real>::loss(Attention<Real>& attention, int64_t windows, int64_t length,
                       const uint8_t* bytes, const uint8_t* targets) {
  const Batch batch = {windows, length, bytes, targets};
  embed(batch);
  for (int i = 0; i < static_cast<int>(shape_.layers); ++i) {
    forward_layer(attention, batch, i, false);
  }
  return head(batch, false);
}

template <typename Real>
double Gpt<Real>::loss_and_gradient(Attention<Real>& attention, int64_t windows, int64_t length,
                                    const uint8_t* bytes, const uint8_t* targets) {
  const Batch batch = {windows, length, bytes, targets};
  std::fill(gradient_.begin(), gradient_.end(), Real{0});
  embed(batch);
  const int num_layers = static_cast<int>(shape_.layers);
  for (int i = 0; i < num_layers; ++i) forward_layer(attention, batch, i, true);
  const double loss = head(batch, true);
  for (int i = num_layers; i-- > 0;) backward_layer(attention, batch, i);
  const int64_t width = shape_.width();
  for (int64_t r = 0; r < batch.rows(); ++r) {
    Real* row = grad_at(embedding_) + bytes[r] * width;
    for (int64_t i = 0; i < width; ++i) row[i] += grad_stream_[r * width + i];
  }
  return loss;
}

template class Gpt<float>;
template class Gpt<double>;

}  // namespace gpt
