// Caffe's LeNet trained by libtorch alone, as a bound: no loop of ours, no network, no threads but
// libtorch's one, data in memory. With --layout channels_last (the default) the images and the
// weights of convolutions lie channel by channel last, and one loop over a flat arena is the
// optimizer; with
// --layout default everything is as libtorch does it unasked, torch::optim::SGD included.
//
//   bare_libtorch [--data FOLDER] [--batch-size 64] [--steps 300] [--layout channels_last|default]
//
// Without --data the images are random. Prints one JSON line. The rate leaves the first 20 steps
// out.
#include <sys/resource.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr int kWarmUp = 20;
constexpr float kRate = 0.01F;
constexpr float kMomentum = 0.9F;
constexpr float kDecay = 5e-4F;
constexpr std::int64_t kSide = 28;

struct Options {
  std::string data;
  std::int64_t batch_size = 64;
  std::int64_t steps = 300;
  bool channels_last = true;
};

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "bare_libtorch: %s\n", why.c_str());
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) refuse("a value is missing: " + name);
    const std::string value = argv[i + 1];
    if (name == "--data") {
      options.data = value;
    } else if (name == "--batch-size") {
      options.batch_size = std::atol(value.c_str());
    } else if (name == "--steps") {
      options.steps = std::atol(value.c_str());
    } else if (name == "--layout" && (value == "channels_last" || value == "default")) {
      options.channels_last = value == "channels_last";
    } else {
      refuse("no such option: " + name + " " + value);
    }
  }
  if (options.batch_size < 1)
    refuse("must be at least 1: --batch-size " + std::to_string(options.batch_size));
  if (options.steps <= kWarmUp) {
    refuse("must be more than " + std::to_string(kWarmUp) + ": --steps " +
           std::to_string(options.steps));
  }
  return options;
}

struct Data {
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
};

// Into memory of just its size: the peak of this program is what others are compared with.
std::vector<std::uint8_t> read_idx(const std::string& path, std::size_t header) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : 0;
  if (size <= static_cast<std::streamoff>(header)) refuse("not there, or empty: " + path);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size) - header);
  file.seekg(static_cast<std::streamoff>(header));
  if (!file.read(reinterpret_cast<char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()))) {
    refuse("cannot be read: " + path);
  }
  return bytes;
}

Data load(const std::string& folder) {
  Data data;
  if (!folder.empty()) {
    data.pixels = read_idx(folder + "/train-images-idx3-ubyte", 16);
    data.labels = read_idx(folder + "/train-labels-idx1-ubyte", 8);
  } else {
    constexpr std::size_t kImages = 10'000;
    std::uint32_t state = 1;
    const auto next = [&state] {
      return static_cast<std::uint8_t>((state = state * 1664525U + 1013904223U) >> 24);
    };
    for (std::size_t i = 0; i < kImages * kSide * kSide; ++i) data.pixels.push_back(next());
    for (std::size_t i = 0; i < kImages; ++i)
      data.labels.push_back(static_cast<std::uint8_t>(next() % 10));
  }
  if (data.pixels.size() != data.labels.size() * kSide * kSide)
    refuse("images and labels differ in number: " + folder);
  return data;
}

struct LeNet : torch::nn::Module {
  torch::nn::Conv2d conv1{register_module("conv1", torch::nn::Conv2d(1, 20, 5))};
  torch::nn::Conv2d conv2{register_module("conv2", torch::nn::Conv2d(20, 50, 5))};
  torch::nn::Linear ip1{register_module("ip1", torch::nn::Linear(800, 500))};
  torch::nn::Linear ip2{register_module("ip2", torch::nn::Linear(500, 10))};

  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(conv1->forward(x), 2);
    x = torch::max_pool2d(conv2->forward(x), 2);
    return ip2->forward(torch::relu(ip1->forward(x.flatten(1))));
  }
};

// Caffe's momentum, and the gradients are zero for the next step, in one pass; with the vector
// instructions that the CPU has.
__attribute__((target_clones("avx512f", "avx2", "default"))) void update(float* __restrict w,
                                                                         float* __restrict g,
                                                                         float* __restrict v,
                                                                         std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    v[i] = kMomentum * v[i] + kRate * (g[i] + kDecay * w[i]);
    w[i] -= v[i];
    g[i] = 0;
  }
}

// All parameters in one stretch of memory, their gradients in another, and the momentum.
struct FlatSgd {
  std::vector<torch::Tensor> parameters;
  std::vector<float> values, gradients, momentum;

  FlatSgd(LeNet& net, bool channels_last) : parameters(net.parameters()) {
    std::size_t size = 0;
    for (const auto& p : parameters) size += static_cast<std::size_t>(p.numel());
    values.resize(size);
    gradients.resize(size);
    momentum.resize(size);
    std::size_t at = 0;
    for (auto& p : parameters) {
      const auto place = [&](std::vector<float>& memory) {
        if (!channels_last || p.dim() != 4) return torch::from_blob(memory.data() + at, p.sizes());
        const auto o = p.size(0), c = p.size(1), h = p.size(2), w = p.size(3);
        return torch::from_blob(memory.data() + at, {o, c, h, w}, {h * w * c, 1, w * c, c});
      };
      torch::Tensor value = place(values);
      value.copy_(p.detach());
      p.set_data(value);
      p.mutable_grad() = place(gradients);
      at += static_cast<std::size_t>(p.numel());
    }
  }

  void step() { update(values.data(), gradients.data(), momentum.data(), values.size()); }
};

double seconds_since_exec() {
  std::ifstream stat("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
  text = text.substr(text.rfind(')') + 2);
  for (int field = 3; field < 22; ++field) text = text.substr(text.find(' ') + 1);
  double up = 0;
  std::ifstream("/proc/uptime") >> up;
  return up - std::stod(text) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

torch::Tensor take(const Data& data, std::int64_t step, const Options& options,
                   torch::Tensor& labels) {
  const auto batches = data.count() / options.batch_size;
  const auto first = step % batches * options.batch_size;
  auto& mutable_data = const_cast<Data&>(data);
  labels = torch::from_blob(mutable_data.labels.data() + first, {options.batch_size}, torch::kUInt8)
               .to(torch::kInt64);
  const auto pixels = torch::from_blob(mutable_data.pixels.data() + first * kSide * kSide,
                                       {options.batch_size, 1, kSide, kSide}, torch::kUInt8);
  const auto floats = torch::TensorOptions(torch::kFloat32);
  // With one channel only the explicit form changes the strides that libtorch goes by.
  const auto images = options.channels_last
                          ? pixels.to(floats, false, true, torch::MemoryFormat::ChannelsLast)
                          : pixels.to(floats);
  return images.mul_(1.0F / 256);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  torch::set_num_threads(1);
  torch::manual_seed(1);
  const Data data = load(options.data);
  if (data.count() < options.batch_size)
    refuse("larger than the data: --batch-size " + std::to_string(options.batch_size));
  LeNet net;
  for (auto& p : net.parameters()) {
    torch::NoGradGuard no_gradient;
    if (p.dim() > 1) {
      torch::nn::init::xavier_uniform_(p);
    } else {
      p.zero_();
    }
  }
  std::unique_ptr<FlatSgd> flat;
  std::unique_ptr<torch::optim::SGD> sgd;
  if (options.channels_last) {
    flat = std::make_unique<FlatSgd>(net, true);
  } else {
    sgd = std::make_unique<torch::optim::SGD>(
        net.parameters(), torch::optim::SGDOptions(kRate).momentum(kMomentum).weight_decay(kDecay));
  }

  double first_step = 0;
  double loss_value = 0;
  std::chrono::steady_clock::time_point start;
  for (std::int64_t step = 0; step < options.steps; ++step) {
    if (step == kWarmUp) start = std::chrono::steady_clock::now();
    torch::Tensor labels;
    const torch::Tensor images = take(data, step, options, labels);
    if (sgd) sgd->zero_grad();
    const torch::Tensor loss = torch::nll_loss(torch::log_softmax(net.forward(images), 1), labels);
    loss.backward();
    if (flat) {
      flat->step();
    } else {
      sgd->step();
    }
    loss_value = loss.item<double>();
    if (step == 0) first_step = seconds_since_exec();
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"images_per_second\": %.1f, \"first_step_seconds\": %.3f, \"peak_rss_bytes\": %lld, "
      "\"loss\": %.4f, "
      "\"steps\": %lld, \"layout\": \"%s\", \"libtorch\": \"%s\"}\n",
      static_cast<double>((options.steps - kWarmUp) * options.batch_size) / seconds, first_step,
      1024LL * usage.ru_maxrss, loss_value, static_cast<long long>(options.steps),
      options.channels_last ? "channels_last" : "default", TORCH_VERSION);
  return 0;
}
