// A small GPT over bytes that learns with lssar's attention, and its loss beyond the length it was
// trained at.
//
//     example_gpt --train train.txt --validation validation.txt --attention lssar --json run.json
//
// examples/gpt/text.sh makes the two texts, examples/gpt/plot.py draws what the runs wrote.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "attention.h"
#include "model.h"
#include "training.h"

namespace gpt {
namespace {

constexpr char kHelp[] =
    "example_gpt: trains a small GPT over bytes, then measures its loss at 1, 2, 4 and 8 times "
    "the\n"
    "length it was trained at.\n\n"
    "  --train FILE        what it learns from (required)\n"
    "  --validation FILE   what the loss is measured on (required)\n"
    "  --attention KIND    lssar (default), lssa or softmax\n"
    "  --p N               lssar: power of the re-weighting, 1 to 1024 (default 15)\n"
    "  --device NAME       auto (default), cuda, cpu or virtual\n"
    "  --steps N           (default 600)\n"
    "  --length N          of a window in bytes (default 64)\n"
    "  --windows N         per step (default 8)\n"
    "  --layers N, --heads N, --head-dim N   (defaults 2, 2, 16)\n"
    "  --rate X            learning rate (default 0.003)\n"
    "  --seed N            of weights and batches (default 1)\n"
    "  --json FILE         writes the losses there\n";

struct Options {
  std::string train, validation, attention = "lssar", device = "auto", json;
  int p = 15;
  ModelShape model;
  TrainingOptions training;
};

template <typename T>
void read_number(const std::string& name, const std::string& text, T& value) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(number >= 0) || number > 1e9) {
    throw std::runtime_error(name + " " + text + ": allowed are numbers from 0 to 1e9");
  }
  value = static_cast<T>(number);
}

Options read_options(const std::vector<std::string>& arguments) {
  Options options;
  using Reader = std::function<void(const std::string& name, const std::string& text)>;
  const auto text_into = [](std::string& value) -> Reader {
    return [&value](const std::string&, const std::string& text) { value = text; };
  };
  const auto number_into = [](auto& value) -> Reader {
    return [&value](const std::string& name, const std::string& text) {
      read_number(name, text, value);
    };
  };
  const std::map<std::string, Reader> readers = {
      {"--train", text_into(options.train)},
      {"--validation", text_into(options.validation)},
      {"--attention", text_into(options.attention)},
      {"--p", number_into(options.p)},
      {"--device", text_into(options.device)},
      {"--steps", number_into(options.training.steps)},
      {"--length", number_into(options.training.length)},
      {"--windows", number_into(options.training.windows)},
      {"--layers", number_into(options.model.layers)},
      {"--heads", number_into(options.model.heads)},
      {"--head-dim", number_into(options.model.head_dim)},
      {"--rate", number_into(options.training.learning_rate)},
      {"--seed", number_into(options.training.seed)},
      {"--json", text_into(options.json)}};
  for (size_t i = 0; i < arguments.size(); i += 2) {
    const auto reader = readers.find(arguments[i]);
    if (reader == readers.end()) {
      throw std::runtime_error(arguments[i] + ": no such option; see --help");
    }
    if (i + 1 == arguments.size()) throw std::runtime_error(arguments[i] + ": needs a value");
    reader->second(arguments[i], arguments[i + 1]);
  }
  if (options.train.empty() || options.validation.empty()) {
    throw std::runtime_error("--train and --validation are required; see --help");
  }
  if (options.model.head_dim % 2 != 0 || options.model.head_dim == 0 || options.model.heads == 0 ||
      options.model.layers == 0 || options.training.length == 0 || options.training.windows == 0) {
    throw std::runtime_error("sizes must be at least 1, and --head-dim even");
  }
  return options;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw std::runtime_error(path + ": cannot be read");
  return text;
}

std::unique_ptr<Attention<float>> make_attention(const Options& options) {
  const int num_layers = static_cast<int>(options.model.layers);
  if (options.attention == "softmax") return make_softmax_attention<float>(num_layers);
  if (options.attention != "lssar" && options.attention != "lssa") {
    throw std::runtime_error("--attention " + options.attention +
                             ": allowed are lssar, lssa and softmax");
  }
  LssarOptions lssar;
  lssar.p = options.attention == "lssa" ? 0 : options.p;
  lssar.device = options.device;
  lssar.head_dim = options.model.head_dim;
  lssar.num_layers = num_layers;
  return make_lssar_attention(lssar);
}

// FNV-1a: says whether two runs had the same text.
uint32_t checksum(const std::string& text) {
  uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return hash;
}

struct LengthLoss {
  int64_t length;
  double loss;
};

void write_json(const Options& options, const std::string& description,
                const std::vector<double>& training, const std::vector<LengthLoss>& by_length,
                const std::string& train_text, const std::string& validation_text) {
  std::FILE* file = std::fopen(options.json.c_str(), "w");
  if (file == nullptr) throw std::runtime_error(options.json + ": cannot be written");
  const ModelShape& model = options.model;
  const TrainingOptions& of = options.training;
  std::fprintf(file, "{\n  \"attention\": \"%s\",\n  \"runs_on\": \"%s\",\n",
               options.attention.c_str(), description.c_str());
  std::fprintf(file, "  \"layers\": %d, \"heads\": %d, \"head_dim\": %d, \"p\": %d,\n",
               static_cast<int>(model.layers), static_cast<int>(model.heads),
               static_cast<int>(model.head_dim), options.attention == "lssar" ? options.p : 0);
  std::fprintf(file,
               "  \"steps\": %d, \"windows\": %d, \"length\": %d, \"rate\": %g, \"seed\": %d,\n",
               static_cast<int>(of.steps), static_cast<int>(of.windows),
               static_cast<int>(of.length), of.learning_rate, static_cast<int>(of.seed));
  std::fprintf(file, "  \"train_bytes\": %zu, \"train_fnv1a\": \"%08x\",\n", train_text.size(),
               static_cast<unsigned>(checksum(train_text)));
  std::fprintf(file, "  \"validation_bytes\": %zu, \"validation_fnv1a\": \"%08x\",\n",
               validation_text.size(), static_cast<unsigned>(checksum(validation_text)));
  std::fprintf(file, "  \"validation\": [");
  for (size_t i = 0; i < by_length.size(); ++i) {
    std::fprintf(file, "%s{\"length\": %d, \"loss\": %.4f}", i == 0 ? "" : ", ",
                 static_cast<int>(by_length[i].length), by_length[i].loss);
  }
  // Means of 1/50 of the steps each: a curve to look at.
  std::fprintf(file, "],\n  \"training\": [");
  const size_t chunk = training.size() / 50 + 1;
  for (size_t begin = 0; begin < training.size(); begin += chunk) {
    const size_t end = std::min(training.size(), begin + chunk);
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += training[i];
    std::fprintf(file, "%s{\"step\": %zu, \"loss\": %.4f}", begin == 0 ? "" : ", ", end,
                 sum / static_cast<double>(end - begin));
  }
  std::fprintf(file, "]\n}\n");
  if (std::fclose(file) != 0) throw std::runtime_error(options.json + ": cannot be written");
}

void run(const Options& options) {
  const std::string train_text = read_text(options.train);
  const std::string validation_text = read_text(options.validation);
  Gpt<float> model(options.model, options.training.seed);
  const std::unique_ptr<Attention<float>> attention = make_attention(options);
  const std::string description = attention->description();
  std::printf("%zu parameters, attention: %s\n", model.parameters().size(), description.c_str());

  const auto start = std::chrono::steady_clock::now();
  std::vector<double> losses;
  double sum = 0;
  train(model, *attention, train_text, options.training, [&](int64_t step, double loss) {
    losses.push_back(loss);
    sum += loss;
    const int64_t every = std::max<int64_t>(1, options.training.steps / 15);
    if ((step + 1) % every != 0) return;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    std::printf("step %5d  loss %.4f  (mean of %d)  %.0f s\n", static_cast<int>(step + 1),
                sum / static_cast<double>(every), static_cast<int>(every), elapsed.count());
    std::fflush(stdout);
    sum = 0;
  });

  std::vector<LengthLoss> by_length;
  const int64_t longest = 8 * options.training.length;
  for (int64_t length = options.training.length; length <= longest; length *= 2) {
    by_length.push_back({length, evaluate(model, *attention, validation_text, length, longest)});
    std::printf("validation at length %5d: %.4f\n", static_cast<int>(length),
                by_length.back().loss);
  }
  if (!options.json.empty()) {
    write_json(options, description, losses, by_length, train_text, validation_text);
  }
}

}  // namespace
}  // namespace gpt

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h")) {
    std::fputs(gpt::kHelp, stdout);
    return 0;
  }
  try {
    gpt::run(gpt::read_options(arguments));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "example_gpt: %s\n", error.what());
    return 1;
  }
}
