#pragma once

#include "model/schema/declaration.hpp"

/// What files of other tools tell of the whole job.
namespace nsys_explain::schema {

inline constexpr struct EngineLayers : Declaration {
  Text layer{*this, "layer", "", "as TensorRT calls it; a fused one names its parts"};
  Integer iterations{*this, "iterations", "", "of the whole engine"};
  Integer total_ns{*this, "total_ns", "ns", "over all iterations"};
  Integer mean_ns{*this, "mean_ns", "ns", "of an iteration"};
  Integer median_ns{*this, "median_ns", "ns", "of an iteration; -1: not in the file (TensorRT before 8.4)"};
  Real share_percent{*this, "share_percent", "%", "of all layers"};
} engine_layers{{"engine_layers", "Layers of a TensorRT engine (--trt-profile), in their order"}};

inline constexpr struct AllocatorSummary : Declaration {
  Integer device{*this, "device", "", "CUDA ordinal in the process that wrote the snapshot"};
  Integer events{*this, "events", "", "of the recorded history"};
  Integer peak_bytes{*this, "peak_bytes", "bytes", "most in use at once within the history"};
  Integer peak_event{*this, "peak_event", "",
                     "number of the event that reached it first; -1: it was so from the start"};
  Integer peak_utc_ns{*this, "peak_utc_ns", "ns", "when that was, since 1970; -1: not recorded"};
  Integer final_bytes{*this, "final_bytes", "bytes", "in use when the snapshot was taken"};
  Integer reserved_bytes{*this, "reserved_bytes", "bytes", "held from CUDA then, in use or not"};
  Integer out_of_memory{*this, "out_of_memory", "", "how often an allocation failed"};
} allocator_summary{{"allocator_summary", "Memory of PyTorch's allocator (--memory-snapshot), by device"}};

inline constexpr struct AllocatorMemory : Declaration {
  Integer device{*this, "device"};
  Integer event{*this, "event", "", "number of the first event of this part of the history"};
  Integer utc_ns{*this, "utc_ns", "ns", "its time, since 1970; -1: not recorded"};
  Integer peak_bytes{*this, "peak_bytes", "bytes", "most in use within the part"};
  Integer in_use_bytes{*this, "in_use_bytes", "bytes", "at its end"};
  Integer reserved_bytes{*this, "reserved_bytes", "bytes", "held from CUDA at its end"};
} allocator_memory{
    {"allocator_memory", "Memory that PyTorch's allocator gave out over time; at most 1,000 parts of equal events"}};

inline constexpr struct AllocatorPeak : Declaration {
  Integer device{*this, "device"};
  Text stack{*this, "stack", "", "who allocated it, innermost first; empty: allocated before the history began"};
  Integer blocks{*this, "blocks"};
  Integer bytes{*this, "bytes", "bytes", "as asked for"};
  Real share_percent{*this, "share_percent", "%", "of the device's peak"};
} allocator_peak{{"allocator_peak", "Who held the memory of PyTorch's allocator at its peak, most bytes first"}};

inline constexpr struct ServedModels : Declaration {
  Text model{*this, "model"};
  Text version{*this, "version"};
  Integer requests{*this, "requests", "", "that succeeded"};
  Integer failed{*this, "failed"};
  Integer inferences{*this, "inferences", "", "a request of a batch of n counts n"};
  Integer executions{*this, "executions", "", "of the model, each for a batch"};
  Integer cache_hits{*this, "cache_hits", "", "requests that were not executed"};
  Integer request_ns{*this, "request_ns", "ns", "sum over the requests, from arrival to answer"};
  Integer queue_ns{*this, "queue_ns", "ns", "of it, waiting in the scheduler's queue"};
  Integer input_ns{*this, "input_ns", "ns", "of it, preparing inputs"};
  Integer infer_ns{*this, "infer_ns", "ns", "of it, executing the model"};
  Integer output_ns{*this, "output_ns", "ns", "of it, preparing outputs"};
} served_models{
    {"served_models",
     "What a Triton server counted of each model (--requests): from the first scrape in the file to the last, or since it started"}};

}  // namespace nsys_explain::schema
