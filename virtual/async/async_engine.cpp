#include "virtual/async/async_engine.h"

#include <algorithm>

#include "virtual/check/checker.h"
#include "virtual/state/mbarrier_table.h"
#include "virtual/state/units.h"

namespace lssar::vdev {
namespace {
constexpr size_t kMostShared = 64;  // of a thread
}  // namespace

void AsyncEngine::reset(AsyncTiming timing, Random* random) {
  timing_ = timing;
  random_ = random;
  operations_.clear();
  committed_.clear();
  agents_.clear();
  shared_.clear();
}

void AsyncEngine::advance(AsyncOperation& operation) {
  operation.read();
  operation.was_read = true;
  operation.reads_shared_of = 0;
}

void AsyncEngine::complete(AsyncOperation& operation) {
  if (!operation.was_read) advance(operation);
  operation.finish();
}

// NOTE: a kernel that never waits must not fill the memory, so the older half of many operations
// completes.
void AsyncEngine::issue(std::unique_ptr<AsyncOperation> operation) {
  if (timing_ == AsyncTiming::kEarliest) {
    complete(*operation);
  } else {
    operations_.push_back(std::move(operation));
    if (operations_.size() < kMostInFlight) return;
    for (size_t i = 0; i < kMostInFlight / 2; ++i) {
      complete(*operations_[i]);
      operations_[i].reset();
    }
    remove_done();
  }
}

uint32_t AsyncEngine::committed(uint32_t thread) const {
  const auto found = committed_.find(thread);
  return found == committed_.end() ? 0 : found->second;
}

BulkAgents AsyncEngine::agents(uint32_t thread, Checker& checker) {
  const auto [place, added] = agents_.try_emplace(thread / kLanes);
  WarpAgents& warp = place->second;
  if (added) {
    warp.first = thread;
    warp.own = {checker.add_agent(), checker.add_agent()};
  }
  if (thread == warp.first) return warp.own;
  if (!warp.others.by_lane) warp.others = {checker.add_agent(), checker.add_agent(), true};
  return warp.others;
}

void AsyncEngine::remove_done() {
  operations_.erase(std::remove(operations_.begin(), operations_.end(), nullptr),
                    operations_.end());
}

void AsyncEngine::wait_groups(uint32_t thread, uint32_t pending, bool read_only) {
  const uint32_t have = committed(thread);
  const uint32_t before = have < pending ? 0 : have - pending;
  for (auto& operation : operations_) {
    if (operation->barrier != nullptr || operation->warp != thread / kLanes) continue;
    const uint32_t lane = thread % kLanes;
    if (((operation->lanes >> lane) & 1) == 0 || operation->groups[lane] >= before) continue;
    if (read_only) {
      if (!operation->was_read) advance(*operation);
      continue;
    }
    complete(*operation);
    operation.reset();
  }
  remove_done();
}

// NOTE: if a thread does not wait for its many groups, the oldest are seen only together with later
// ones.
void AsyncEngine::share(uint32_t thread, const Shared& shared) {
  std::vector<Shared>& all = shared_[thread];
  if (!all.empty() && all.back().group == shared.group && all.back().issuer == shared.issuer) {
    all.back().floor = shared.floor;
    return;
  }
  if (all.size() == kMostShared) all.erase(all.begin());
  all.push_back(shared);
}

std::vector<AsyncEngine::Shared> AsyncEngine::shared_before(uint32_t thread, uint32_t before,
                                                            bool read_only) {
  const auto found = shared_.find(thread);
  if (found == shared_.end()) return {};
  std::vector<Shared>& all = found->second;
  const auto end = std::find_if(all.begin(), all.end(),
                                [&](const Shared& shared) { return shared.group >= before; });
  std::vector<Shared> seen(all.begin(), end);
  if (!read_only) all.erase(all.begin(), end);
  return seen;
}

bool AsyncEngine::finish_for(const Mbarrier& barrier) {
  bool any = false;
  for (auto& operation : operations_) {
    if (operation->barrier != &barrier) continue;
    complete(*operation);
    operation.reset();
    any = true;
  }
  remove_done();
  return any;
}

bool AsyncEngine::waits_for(const Mbarrier& barrier) const {
  return std::any_of(operations_.begin(), operations_.end(),
                     [&](const auto& operation) { return operation->barrier == &barrier; });
}

void AsyncEngine::step() {
  if (timing_ != AsyncTiming::kRandom || operations_.empty()) return;
  for (auto& operation : operations_) {
    if (random_->below(4) != 0) continue;
    if (!operation->was_read) {
      advance(*operation);
    } else {
      operation->finish();
      operation.reset();
    }
  }
  remove_done();
}

bool AsyncEngine::force_oldest() {
  if (operations_.empty()) return false;
  const std::unique_ptr<AsyncOperation> oldest = std::move(operations_.front());
  operations_.erase(operations_.begin());
  complete(*oldest);
  return true;
}

const AsyncOperation* AsyncEngine::using_shared_of(uint32_t rank, bool reads) const {
  for (const auto& operation : operations_) {
    const uint32_t ranks = reads ? operation->reads_shared_of : operation->writes_shared_of;
    if ((ranks >> rank) & 1) return operation.get();
  }
  return nullptr;
}

}  // namespace lssar::vdev
