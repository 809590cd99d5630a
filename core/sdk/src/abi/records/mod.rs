//! The records of `curricle.h`.
//!
//! A record starts with its size as compiled by the side that fills it in, and is always passed by pointer. The other
//! side reads it with [`read`], which copies the fields that both sides know and leaves the rest 0. So records can
//! grow at their end: an older library has smaller records, a newer one larger ones, and both work. The fields up to
//! [`Record::MINIMUM`] exist in every version; all others are optional, with 0 or null for "absent".

mod advice;
mod layout;
mod library;
mod loss;
mod sampler;
mod tensors;
mod text;
mod weights;

pub use advice::{AdviceSink, DataFacts};
pub use library::{Component, ComponentSink, ErrorSink, Host, Plugin, TextSink};
pub use loss::{Batch, Log, LossTable, StepRecord};
pub use sampler::{BatchSink, Epoch, SamplerTable};
pub use tensors::{
    INIT_CONSTANT, INIT_NORMAL, INIT_UNIFORM, KINDS, Shape, TensorList, TensorSink, TensorSpec, kind_code, kind_of,
};
pub use text::{Str, slice};
pub use weights::{LossInfo, Round, WeightSink, WeightsTable};

use crate::abi::Status;
use crate::{Error, Result};
use std::ffi::c_void;

/// A function of a table that answers a question about an instance: it writes 1 or 0. Called once.
pub type Question =
    Option<extern "C-unwind" fn(instance: *const c_void, answer: *mut u32, error: *const ErrorSink) -> Status>;

/// A record that starts with its size and may grow at its end.
///
/// # Safety
/// `repr(C)`, the first field is `size: usize`, and all bytes 0 is a valid value: functions are `Option`s.
pub unsafe trait Record: Copy {
    /// Its name in `curricle.h`.
    const NAME: &'static str;
    /// The size of the fields that every version has. It never changes.
    const MINIMUM: usize;
}

/// Copies a record of the other side: the fields that both sides know, and 0 for the rest.
///
/// # Errors
/// If the pointer is null or not aligned, or the record smaller than its minimum.
///
/// # Safety
/// `record` must be null or point to a record as large as its first field says.
pub unsafe fn read<T: Record>(record: *const T) -> Result<T> {
    if record.is_null() || !record.is_aligned() {
        return Err(Error::other(format!("passed a null or unaligned `{}`", T::NAME)));
    }
    // SAFETY: not null; `size` is the first field of every record.
    let size = unsafe { record.cast::<usize>().read() };
    if size < T::MINIMUM {
        let (name, minimum) = (T::NAME, T::MINIMUM);
        return Err(Error::other(format!("passed a `{name}` of {size} bytes; it has at least {minimum}")));
    }
    let mut copy = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: both have at least this many bytes, and all bytes 0 is a valid value of the rest.
    unsafe {
        let known = size.min(size_of::<T>());
        std::ptr::copy_nonoverlapping(record.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), known);
        Ok(copy.assume_init())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape { size: size_of::<Shape>(), classes: 1, samples: 2, embedding: 3 }
    }

    #[test]
    fn fields_that_the_other_side_lacks_are_zero_and_those_it_has_more_are_ignored() {
        // SAFETY: all bytes 0 is a valid record.
        let mut table: LossTable = unsafe { std::mem::zeroed() };
        table.size = 16;
        table.advice = Some(never);
        // SAFETY: the record is valid, and larger than it says.
        let read_back = unsafe { read(&raw const table) }.unwrap();
        assert!(read_back.advice.is_none(), "beyond the size that the record states");

        let larger = (Shape { size: size_of::<Shape>() + 8, ..shape() }, 7u64);
        // SAFETY: the record is valid and followed by 8 more bytes.
        let read_back = unsafe { read(&raw const larger.0) }.unwrap();
        assert_eq!((read_back.classes, read_back.embedding), (1, 3));
    }

    extern "C-unwind" fn never(
        _: *const c_void,
        _: *const DataFacts,
        _: *const AdviceSink,
        _: *const ErrorSink,
    ) -> Status {
        crate::abi::FAILED
    }

    #[test]
    fn records_that_are_null_or_too_small_are_errors() {
        // SAFETY: null is allowed.
        let error = unsafe { read(std::ptr::null::<Shape>()) }.map(|_| ()).unwrap_err().to_string();
        assert_eq!(error, "passed a null or unaligned `curricle_shape`");
        let short = Shape { size: 24, ..shape() };
        // SAFETY: the record is larger than it says.
        let error = unsafe { read(&raw const short) }.map(|_| ()).unwrap_err().to_string();
        assert_eq!(error, "passed a `curricle_shape` of 24 bytes; it has at least 32");
    }
}
