//! The number of threads is set once per process, so this test needs a separate one.

use curricle_engine::device::set_threads;

#[test]
fn libtorch_and_rayon_get_the_same_number_once() {
    assert_eq!(set_threads(Some(3)).unwrap(), 3);
    assert_eq!((tch::get_num_threads(), tch::get_num_interop_threads()), (3, 1));
    assert_eq!(rayon::current_num_threads(), 3);

    assert_eq!(set_threads(Some(3)).unwrap(), 3, "setting the same number again is allowed");
    let message = set_threads(Some(2)).unwrap_err().to_string();
    assert!(message.contains("the number of threads is already 3"), "{message}");
    assert_eq!(tch::get_num_threads(), 3, "a refused change has no effect");
}
