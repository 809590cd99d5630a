//! Many multiplications side by side, each on a thread of its own.
//!
//! One multiplication spread over all threads makes them wait for each other at every block, and
//! libtorch's threads keep a core busy for a while after each: on a machine that has other work
//! too, most of the time goes there. Blocks are independent, so each thread takes whole blocks.

use rayon::prelude::*;

/// Calls `work` on each task, on rayon's threads, and returns the results in order.
pub(super) fn each<T: Send, R: Send>(tasks: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let _restore = Restore(tch::get_num_threads());
    let alone = |task| {
        // Counts for the calling thread; new threads of libtorch's take the last value set, hence
        // `Restore`.
        tch::set_num_threads(1);
        work(task)
    };
    tasks.into_par_iter().with_max_len(1).map(alone).collect()
}

/// Sets libtorch's number of threads back, even after a panic.
struct Restore(i32);

impl Drop for Restore {
    fn drop(&mut self) {
        tch::set_num_threads(self.0);
    }
}
