//! Threads are set once in a process, so this needs a process of its own.

use curricle_engine::device::set_threads;

#[test]
fn libtorch_and_rayon_get_the_same_number_once() {
    assert_eq!(set_threads(Some(3)).unwrap(), 3);
    assert_eq!((tch::get_num_threads(), tch::get_num_interop_threads()), (3, 1));
    assert_eq!(rayon::current_num_threads(), 3);

    assert_eq!(set_threads(Some(3)).unwrap(), 3, "the same again is no change");
    let message = set_threads(Some(2)).unwrap_err().to_string();
    assert!(message.contains("the number of threads is already 3"), "{message}");
    assert_eq!(tch::get_num_threads(), 3, "a refused change changes nothing");
}
