//! Runs many matrix multiplications in parallel, each on a single thread.
//!
//! With one multiplication spread over all threads, they wait for each other at every block, and
//! libtorch's threads keep spinning for a while after each: on a machine with other work, most of
//! the time is spent there. Blocks are independent, so each thread takes whole blocks.

use rayon::prelude::*;

/// Calls `work` on each task, on rayon's threads, and returns the results in order.
pub(super) fn each<T: Send, R: Send>(tasks: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let _restore = Restore(tch::get_num_threads());
    let alone = |task| {
        // Applies to the calling thread; new libtorch threads take the last value set, hence
        // `Restore`.
        tch::set_num_threads(1);
        work(task)
    };
    tasks.into_par_iter().with_max_len(1).map(alone).collect()
}

/// Restores libtorch's number of threads, even after a panic.
struct Restore(i32);

impl Drop for Restore {
    fn drop(&mut self) {
        tch::set_num_threads(self.0);
    }
}
