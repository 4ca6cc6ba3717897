// One run of the search: its candidates and stages. Internal to search*.cpp.
//
// Threads: used from one. try_all compiles on threads of its own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autotune/search/search.h"

namespace lssar {

// A candidate that was kept, from its estimate to its fate.
struct Trial {
  enum class State {
    kWaiting,
    kAlive,  // was timed
    kOut,    // `fate` and `reason` say why
  };

  CandidateSpec spec;
  std::string algorithm;
  std::string source_hash;
  CostEstimate estimate;
  // By the sum of both models. None: not known; `why_no_sum` says why, and "" that nobody asked.
  std::optional<double> sum_ms;
  std::string why_no_sum;
  bool is_extra = false;
  bool always_tried = false;  // default, incumbent, extra: bounds, ranks and time never drop them
  bool is_compiled = false;   // in this search

  State state = State::kWaiting;
  Fate fate = Fate::kOutOfTime;
  std::string reason;
  TuningRecord record;
  std::vector<double> relative;  // each time divided by the anchor's in the same round
  double score_ms = 0;           // median of `relative` times the anchor's own time
  // The time that candidates are compared by: it includes what the candidate costs the forward for
  // training.
  double whole_ms() const { return score_ms + estimate.elsewhere_ms; }
};

class SearchRun {
 public:
  SearchRun(CandidateRunner& runner, const SearchRequest& request);

  Result<SearchOutcome> run();

 private:
  // What is kept of every ranked candidate, also of those without a trial.
  struct Ranked {
    Schedule schedule;
    CostEstimate estimate;
    const Algorithm* algorithm = nullptr;  // never null
    bool is_kept = false;                  // it has a trial, or is the same as one that has
  };

  // search.cpp: stages.
  Status run_stages();
  void finish();
  Result<SearchOutcome> no_winner() const;
  bool should_stop();  // cancelled by the caller
  double now_s() const;
  bool out_of_time(double share) const;  // of the budget
  void report(Stage stage, int done, int total);

  // search_candidates.cpp: what is tried.
  bool answer_is_known();
  Status enumerate();
  Status claim_known_trials();
  static bool by_estimate(const Ranked& a, const Ranked& b) {
    return a.estimate.whole_ms() < b.estimate.whole_ms();
  }
  std::vector<size_t> keep_blocks();
  std::vector<size_t> keep_more();
  std::vector<size_t> keep_threads(size_t trial);
  void interleave_algorithms(std::vector<size_t>* trials) const;
  Result<size_t> keep_ranked(Ranked& ranked);
  Result<size_t> add_trial(const Schedule& schedule, const std::string& algorithm,
                           const CostEstimate& estimate);
  Trial& append_trial(CandidateSpec spec, const std::string& algorithm, std::string hash,
                      const CostEstimate& cost);
  void add_extra(const CandidateSpec& spec);
  CostEstimate estimate(const Schedule& schedule);
  const TuningRecord* known_record(const std::string& source_hash) const;

  // search_trial.cpp: compile, check, time.
  Status try_all(Stage stage, const std::vector<size_t>& trials, double share);
  bool is_dropped(Trial& trial) const;
  Status try_batch(const std::vector<size_t>& batch, double share);
  Status compile_batch(const std::vector<size_t>& batch, double share);
  Status time_batch(const std::vector<size_t>& passed, double share);
  void in_parallel(size_t count, const std::function<void(size_t)>& work);
  Status check(Trial& trial, CheckDepth depth);
  Status time_trials(std::vector<size_t> trials, const TimeRequest& how);
  void note_anchor(double ms, InputKind data);
  void add_samples(Trial& trial, const std::vector<double>& ms,
                   const std::vector<double>& anchor_ms);
  Status rule_out(Trial& trial, Verdict verdict, const std::string& reason);
  Status keep(Trial& trial);
  void choose_anchor();
  std::vector<size_t> alive_by_score() const;

  // search_sums.cpp: the order by the sum of both models.
  bool needs_loops(const Trial& trial) const;
  Result<std::vector<double>> read_loops(const Trial& trial) const;
  void note_loops(Trial& trial, const Result<std::vector<double>>& loops);
  std::vector<double> sums_of(const std::vector<size_t>& trials) const;
  void order_by_sum(std::vector<size_t>* trials) const;
  void rank_by_sum();
  void count_sums();

  // search_final.cpp: who wins.
  Status halve();
  Status final_round();
  Status choose_winner();
  void leave_known_alive();
  bool beats(const Trial& challenger, const Trial& incumbent);

  CandidateRunner& runner_;
  const SearchRequest& request_;
  const Bucket bucket_;
  const std::string name_;  // of this search, in records
  const double start_s_;
  CostModel model_;
  const double saving_x_ms_;  // what a backward candidate with X costs the forward for training
  SearchOutcome outcome_;

  SearchSpace space_;
  Enumeration found_;
  std::vector<Ranked> ranked_;
  std::vector<Trial> trials_;
  size_t default_ = 0;    // index of trials_
  size_t incumbent_ = 0;  // the latest chosen record's; without one the default's
  size_t anchor_ = 0;     // timed in every call, so that a drift of clocks cancels
  bool has_anchor_ = false;
  double anchor_ms_ = 0;
  double anchor_count_ms_ = 0;  // virtual device: the anchor's counted time, which never changes
  bool was_cut_ = false;        // the final was not timed completely
  bool is_ranked_by_sum_ = false;
  size_t winner_ = 0;
  bool has_winner_ = false;
};

}  // namespace lssar
