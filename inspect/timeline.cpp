#include "inspect/timeline.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "autotune/model/gpu_model.h"
#include "base/json_fields.h"
#include "inspect/timeline_names.h"
#include "inspect/timeline_program.h"
#include "virtual/program/program.h"
#include "virtual/program/wgmma.h"

namespace lssar {
namespace {

constexpr EnumName<SpanKind> kSpanKinds[] = {{SpanKind::kArithmetic, "arithmetic"},
                                             {SpanKind::kSpecial, "softplus and powers"},
                                             {SpanKind::kWaitData, "waits for data"},
                                             {SpanKind::kWaitRoom, "waits for room"},
                                             {SpanKind::kWaitProduct, "waits for products"},
                                             {SpanKind::kWaitOthers, "waits for other warps"},
                                             {SpanKind::kWaitStore, "waits for stores"},
                                             {SpanKind::kProduct, "matrix product"},
                                             {SpanKind::kLoad, "load on its way"},
                                             {SpanKind::kHeld, "holds data"}};

constexpr uint32_t kSubCores = 4;  // of an SM, each with its own issue slots
// A signal from one warp to another, through shared memory. This is a guess without a source.
constexpr double kSignalClocks = 20;
// With fewer special functions than one in this many instructions, a phase does not count as
// softplus.
constexpr uint32_t kSpecialShare = 40;
constexpr double kShortest = 1;  // in clocks; shorter waits are not shown

class Simulator {
 public:
  explicit Simulator(const TimelineInput& input)
      : in_(input), program_(make_program(input.trace)), names_(input, &out_.labels) {
    out_.kernel = in_.trace.kernel;
    out_.is_cut = in_.trace.is_cut;
    const GpuModel& gpu = in_.gpu;
    issue_clocks_ = in_.machine_instructions * vdev::kLanes * kSubCores / gpu.issue_slots;
    special_clocks_ = vdev::kLanes * kSubCores / gpu.special;
    bytes_per_clock_ = gpu.l2_gbps / gpu.clock_ghz / gpu.num_sms;
    warps_.resize(program_.warps.size());
    blocks_.resize(std::max(1u, in_.trace.num_blocks));
    groups_.resize((warps_.size() + vdev::kWarpsPerGroup - 1) / vdev::kWarpsPerGroup);
    make_lanes();
  }

  Timeline run() {
    while (std::optional<size_t> next = earliest()) step(*next);
    for (size_t warp = 0; warp < warps_.size(); ++warp) {
      end_work(warp);
      if (warps_[warp].at < program_.warps[warp].size()) out_.is_cut = true;
      out_.clocks = std::max(out_.clocks, warps_[warp].clock);
    }
    for (auto& [lane, held] : held_) {
      if (held.label >= 0) add(lane, SpanKind::kHeld, held.begin, out_.clocks, held.label, 0, 0);
    }
    finish();
    return std::move(out_);
  }

 private:
  struct Phase {  // work between two signals or waits
    bool is_open = false;
    double begin = 0, end = 0;
    uint32_t instructions = 0, special = 0;
    std::map<int, uint32_t> by_label;
  };
  struct WarpState {
    size_t at = 0;
    double clock = 0;
    bool waits = false;  // for a signal that has not arrived
    uint64_t products = 0;
    std::vector<double> transfers;  // when each group of copies or stores completes
    double open_transfers = 0;
    int lane = -1;
    Phase phase;
  };
  struct BlockState {
    double issue[kSubCores] = {}, special[kSubCores] = {}, mma[kSubCores] = {};
    double tensor = 0, in = 0, out = 0;  // when the units and ports become free
  };
  struct GroupState {
    // For each product: warps that issued it, and the clock of the last one.
    std::vector<std::pair<int, double>> issued;
    std::vector<double> done;
  };
  struct Signal {
    int come = 0;
    double clock = 0;
  };
  struct Held {
    double begin = 0;
    int label = -1;
    double load_begin = 0;
    SignalKey key = {};
  };

  uint32_t block_of(size_t warp) const {
    return static_cast<uint32_t>(warp / in_.trace.warps_per_block);
  }

  // ---- lanes

  void make_lanes() {
    const size_t warps = std::min<size_t>(in_.trace.warps_per_block, warps_.size());
    const bool has_groups = uses(0, warps, WarpStep::Kind::kProduct);
    int consumers = 0;
    for (size_t warp = 0; warp < warps; ++warp) {
      if (has_groups && warp % vdev::kWarpsPerGroup != 0) continue;
      if (program_.warps[warp].empty()) continue;
      std::string name = fmt::format("warp {}", warp);
      if (has_groups) {
        name = uses(warp, warp + 1, WarpStep::Kind::kProduct)
                   ? fmt::format("consumer {}", consumers++)
                   : "producer";
      }
      warps_[warp].lane = int(out_.lanes.size());
      out_.lanes.push_back({std::move(name), "warp"});
    }
    if (has_groups) {
      tensor_lane_ = int(out_.lanes.size());
      out_.lanes.push_back({"tensor cores", "tensor"});
    }
    const std::set<const SharedPart*> loaded = loaded_parts();
    for (const SharedPart& part : in_.layout) {
      if (loaded.count(&part) == 0) continue;
      const std::string name = names_.place_name(part);
      if (lane_of_place_.try_emplace(name, int(out_.lanes.size())).second)
        out_.lanes.push_back({name, "memory"});
    }
  }

  bool uses(size_t first, size_t last, WarpStep::Kind kind) const {
    for (size_t warp = first; warp < last; ++warp) {
      for (const WarpStep& step : program_.warps[warp])
        if (step.kind == kind) return true;
    }
    return false;
  }

  std::set<const SharedPart*> loaded_parts() const {
    std::set<const SharedPart*> parts;
    for (const std::vector<WarpStep>& steps : program_.warps) {
      for (const WarpStep& step : steps)
        if (step.kind == WarpStep::Kind::kLoad) parts.insert(names_.part_at(step.address));
    }
    return parts;
  }

  // ---- the clock

  std::optional<size_t> earliest() const {
    std::optional<size_t> best;
    for (size_t warp = 0; warp < warps_.size(); ++warp) {
      const WarpState& state = warps_[warp];
      if (state.waits || state.at >= program_.warps[warp].size()) continue;
      if (!best || state.clock < warps_[*best].clock) best = warp;
    }
    return best;
  }

  void step(size_t warp) {
    WarpState& state = warps_[warp];
    const WarpStep& now = program_.warps[warp][state.at];
    switch (now.kind) {
      case WarpStep::Kind::kWork:
        work(warp, now);
        break;
      case WarpStep::Kind::kSignal:
        signal(now.key, state.clock + kSignalClocks);
        break;
      case WarpStep::Kind::kLoad:
        load(warp, now);
        break;
      case WarpStep::Kind::kWait:
        if (!wait_for(warp, now)) return;
        break;
      case WarpStep::Kind::kProduct:
        product(warp, now);
        break;
      case WarpStep::Kind::kProductWait:
        if (!wait_products(warp, now)) return;
        break;
      case WarpStep::Kind::kStore:
        state.open_transfers = std::max(state.open_transfers, store(warp, now.amount));
        break;
      case WarpStep::Kind::kCopy:
        state.open_transfers = std::max(state.open_transfers, transfer(warp, now.amount));
        break;
      case WarpStep::Kind::kGroupEnd:
        state.transfers.push_back(state.open_transfers);
        state.open_transfers = 0;
        break;
      case WarpStep::Kind::kGroupWait:
        if (state.transfers.size() > now.amount) {
          const size_t last = state.transfers.size() - 1 - size_t(now.amount);
          double clock = state.clock;
          for (size_t i = 0; i <= last; ++i) clock = std::max(clock, state.transfers[i]);
          wait_until(warp, clock, is_copy(now) ? SpanKind::kWaitData : SpanKind::kWaitStore,
                     names_.function_label(now.instruction));
        }
        break;
    }
    ++state.at;
  }

  bool is_copy(const WarpStep& step) const {
    return in_.trace.instructions[step.instruction].use == TraceUse::kCopyWait;
  }

  void work(size_t warp, const WarpStep& now) {
    WarpState& state = warps_[warp];
    BlockState& block = blocks_[block_of(warp)];
    const size_t sub = warp % kSubCores;
    const double begin = std::max(state.clock, block.issue[sub]);
    block.issue[sub] = begin + now.instructions * issue_clocks_;
    double end = block.issue[sub];
    if (now.special > 0) {
      block.special[sub] = std::max(begin, block.special[sub]) + now.special * special_clocks_;
      end = std::max(end, block.special[sub]);
    }
    if (now.amount > 0) {
      block.mma[sub] =
          std::max(begin, block.mma[sub]) + double(now.amount) * kSubCores / in_.gpu.tensor_flop;
      end = std::max(end, block.mma[sub]);
    }
    Phase& phase = state.phase;
    if (!phase.is_open) phase = {true, state.clock, 0, 0, 0, {}};
    phase.end = end;
    phase.instructions += now.instructions;
    phase.special += now.special;
    if (state.lane >= 0) phase.by_label[names_.function_label(now.instruction)] += now.instructions;
    state.clock = end;
  }

  void end_work(size_t warp) {
    WarpState& state = warps_[warp];
    Phase& phase = state.phase;
    if (phase.is_open && state.lane >= 0) {
      const auto most =
          std::max_element(phase.by_label.begin(), phase.by_label.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      const bool is_special = phase.special * kSpecialShare > phase.instructions;
      add(state.lane, is_special ? SpanKind::kSpecial : SpanKind::kArithmetic, phase.begin,
          phase.end, most->first, phase.instructions, phase.special);
    }
    phase.is_open = false;
  }

  void wait_until(size_t warp, double clock, SpanKind kind, int what) {
    WarpState& state = warps_[warp];
    if (clock >= state.clock + kShortest) {
      end_work(warp);
      if (state.lane >= 0) add(state.lane, kind, state.clock, clock, what, 0, 0);
    }
    state.clock = std::max(state.clock, clock);
  }

  void signal(const SignalKey& key, double clock) {
    Signal& signal = signals_[key];
    ++signal.come;
    signal.clock = std::max(signal.clock, clock);
    if (!is_complete(key)) return;
    for (size_t warp = 0; warp < warps_.size(); ++warp) {
      if (!warps_[warp].waits) continue;
      const WarpStep& step = program_.warps[warp][warps_[warp].at];
      if (step.kind == WarpStep::Kind::kWait && step.key == key) warps_[warp].waits = false;
    }
    arrived(key, signal.clock);
  }

  bool is_complete(const SignalKey& key) const {
    const auto signal = signals_.find(key);
    const auto needed = program_.signals.find(key);
    return needed == program_.signals.end() ||
           (signal != signals_.end() && signal->second.come >= needed->second);
  }

  bool wait_for(size_t warp, const WarpStep& now) {
    if (!is_complete(now.key)) {
      warps_[warp].waits = true;
      return false;
    }
    const auto signal = signals_.find(now.key);
    const double clock = signal == signals_.end() ? 0 : signal->second.clock;
    const bool is_named = (now.key.first & kNamedBarrier) != 0;
    wait_until(warp, clock,
               is_named                           ? SpanKind::kWaitOthers
               : names_.is_of_free_place(now.key) ? SpanKind::kWaitRoom
                                                  : SpanKind::kWaitData,
               names_.barrier_label(now.key));
    return true;
  }

  // ---- copies

  double transfer(size_t warp, uint64_t bytes) {
    BlockState& block = blocks_[block_of(warp)];
    block.in = std::max(block.in, warps_[warp].clock) + double(bytes) / bytes_per_clock_;
    return block.in + in_.gpu.constants.load_clocks;
  }

  // When the bytes have left shared memory, because kernels wait for that.
  double store(size_t warp, uint64_t bytes) {
    BlockState& block = blocks_[block_of(warp)];
    block.out = std::max(block.out, warps_[warp].clock) + double(bytes) / bytes_per_clock_;
    return block.out;
  }

  void load(size_t warp, const WarpStep& now) {
    const double done = transfer(warp, now.amount);
    const SharedPart* part = names_.part_at(now.address);
    if (part != nullptr && now.key.first >> 24 == 0) {
      const auto lane = lane_of_place_.find(names_.place_name(*part));
      if (lane != lane_of_place_.end()) begin_load(lane->second, warp, now);
    }
    signal(now.key, done);
  }

  // Copies that complete one phase of a barrier form one load of their place.
  void begin_load(int lane, size_t warp, const WarpStep& now) {
    Held& held = held_[lane];
    const double clock = warps_[warp].clock;
    if (held.label >= 0 && held.key == now.key) return;
    if (held.label >= 0) add(lane, SpanKind::kHeld, held.begin, clock, held.label, 0, 0);
    held = {clock, names_.function_label(now.instruction), clock, now.key};
  }

  // Ends the loads that this signal completes.
  void arrived(const SignalKey& key, double clock) {
    for (auto& [lane, held] : held_) {
      if (held.label < 0 || held.key != key) continue;
      add(lane, SpanKind::kLoad, held.load_begin, clock, held.label, 0, 0);
      held.begin = clock;
    }
  }

  // ---- wgmma

  void product(size_t warp, const WarpStep& now) {
    WarpState& state = warps_[warp];
    GroupState& group = groups_[warp / vdev::kWarpsPerGroup];
    BlockState& block = blocks_[block_of(warp)];
    const size_t number = size_t(state.products++);
    if (group.issued.size() <= number) group.issued.resize(number + 1);
    auto& [warps, clock] = group.issued[number];
    ++warps;
    clock = std::max(clock, state.clock);
    if (warps < int(vdev::kWarpsPerGroup)) return;
    const double begin = std::max(block.tensor, clock);
    block.tensor = begin + double(now.amount) / in_.gpu.tensor_flop;
    if (group.done.size() <= number) group.done.resize(number + 1);
    group.done[number] = block.tensor;
    if (tensor_lane_ >= 0 && block_of(warp) == 0) add_product(warp, now, begin, block.tensor);
    for (size_t i = warp / vdev::kWarpsPerGroup * vdev::kWarpsPerGroup;
         i < std::min(warps_.size(), (warp / vdev::kWarpsPerGroup + 1) * vdev::kWarpsPerGroup);
         ++i) {
      if (warps_[i].waits && program_.warps[i][warps_[i].at].kind == WarpStep::Kind::kProductWait)
        warps_[i].waits = false;
    }
  }

  // Merges consecutive products of one group and function into one span.
  void add_product(size_t warp, const WarpStep& now, double begin, double end) {
    const size_t first = warp / vdev::kWarpsPerGroup * vdev::kWarpsPerGroup;
    const int lane = warps_[first].lane;
    const std::string who = lane < 0 ? "" : out_.lanes[size_t(lane)].name + ": ";
    const int what =
        names_.label(who + out_.labels[size_t(names_.function_label(now.instruction))]);
    if (last_product_ >= 0) {
      TimelineSpan& last = out_.spans[size_t(last_product_)];
      if (last.label == what && begin < last.end + kShortest) {
        last.end = end;
        last.instructions += uint32_t(now.amount >> 10);
        return;
      }
    }
    last_product_ = int(out_.spans.size());
    add(tensor_lane_, SpanKind::kProduct, begin, end, what, uint32_t(now.amount >> 10), 0);
  }

  bool wait_products(size_t warp, const WarpStep& now) {
    const GroupState& group = groups_[warp / vdev::kWarpsPerGroup];
    const auto upto = size_t(now.amount);
    if (upto == 0) return true;
    if (group.done.size() < upto || group.done[upto - 1] == 0) {
      warps_[warp].waits = true;
      return false;
    }
    wait_until(warp, group.done[upto - 1], SpanKind::kWaitProduct,
               names_.function_label(now.instruction));
    return true;
  }

  // ---- output

  void add(int lane, SpanKind kind, double begin, double end, int what, uint32_t instructions,
           uint32_t special) {
    if (end <= begin) return;
    out_.spans.push_back({lane, kind, begin, end, what, instructions, special});
  }

  void finish() {
    std::vector<TimelineSpan>& spans = out_.spans;
    if (spans.size() > in_.max_spans) {  // the first ones by time, over all lanes
      std::stable_sort(spans.begin(), spans.end(),
                       [](const auto& a, const auto& b) { return a.begin < b.begin; });
      out_.clocks = spans[in_.max_spans].begin;
      spans.resize(in_.max_spans);
      for (TimelineSpan& span : spans) span.end = std::min(span.end, out_.clocks);
      out_.is_cut = true;
    }
    std::stable_sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
      return a.lane != b.lane ? a.lane < b.lane : a.begin < b.begin;
    });
  }

  const TimelineInput& in_;
  const TraceProgram program_;
  Timeline out_;
  TimelineNames names_;
  double issue_clocks_ = 1, special_clocks_ = 8, bytes_per_clock_ = 32;
  int tensor_lane_ = -1;
  int last_product_ = -1;
  std::vector<WarpState> warps_;
  std::vector<BlockState> blocks_;
  std::vector<GroupState> groups_;
  std::map<SignalKey, Signal> signals_;
  std::map<std::string, int> lane_of_place_;
  std::map<int, Held> held_;  // by lane
};

}  // namespace

const char* span_name(SpanKind kind) { return enum_name(kSpanKinds, kind); }

Timeline make_timeline(const TimelineInput& input) { return Simulator(input).run(); }

}  // namespace lssar
