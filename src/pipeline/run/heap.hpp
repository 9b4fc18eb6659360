#pragma once

/// What the C library does with memory that analyses have given back.
namespace nsys_explain::pipeline {

/// From now on memory that is freed is kept for whoever asks next: analyses take and free arrays with a value for each
/// of millions of events, and to get the pages anew from the system each time takes a fifth of the time of a run.
/// `threads` share it, so that the next analysis finds it whichever thread it runs on; large arrays of several threads
/// are not kept. No effect but with glibc.
void keep_freed_memory(int threads);

/// Gives what is free back to the system.
void return_freed_memory();

}  // namespace nsys_explain::pipeline
