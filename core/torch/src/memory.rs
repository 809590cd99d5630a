//! Pinned memory, and copies of many tensors to the host.

use crate::Result;
use crate::ffi::{check, curricle_gather, curricle_pinned, pointers};
use tch::{Device, Kind, Tensor};

/// Where tensors begin in a buffer of [`gather`]: at multiples of this many bytes, for any type.
const ALIGNMENT: usize = 16;

/// Uninitialised bytes in pinned memory, from and to which copies of a CUDA device are asynchronous.
pub fn pinned(size: &[i64]) -> Result<Tensor> {
    let mut pinned = std::ptr::null_mut();
    // SAFETY: pointer and length are those of one slice, and on success the call returns a new tensor.
    check(unsafe { curricle_pinned(size.as_ptr(), size.len(), &raw mut pinned) })?;
    // SAFETY: as above; it has no other owner.
    Ok(unsafe { Tensor::from_ptr(pinned) })
}

/// Copies tensors to the host together: returns their bytes in one buffer, and where each begins. A CUDA device is
/// waited for once. Each tensor is contiguous in the buffer, whatever its layout.
pub fn gather(tensors: &[&Tensor]) -> Result<(Tensor, Vec<usize>)> {
    let mut total = 0;
    let offsets: Vec<usize> = tensors
        .iter()
        .map(|tensor| {
            let offset = total;
            total += (tensor.numel() * tensor.kind().elt_size_in_bytes()).next_multiple_of(ALIGNMENT);
            offset
        })
        .collect();
    let from_cuda = tensors.iter().any(|tensor| tensor.device().is_cuda());
    let size = [total as i64];
    let buffer = if from_cuda { pinned(&size)? } else { Tensor::f_empty(size, (Kind::Uint8, Device::Cpu))? };
    let list = pointers(tensors);
    let places: Vec<i64> = offsets.iter().map(|&offset| offset as i64).collect();
    // SAFETY: both lists have the stated length, and the tensors are borrowed for the call.
    check(unsafe { curricle_gather(list.as_ptr(), places.as_ptr(), list.len(), buffer.as_ptr()) })?;
    Ok((buffer, offsets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_of_any_type_and_layout_are_gathered() {
        let transposed = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).view([2, 3]).tr();
        let parameter = Tensor::from_slice(&[7.0f64]).set_requires_grad(true);
        let (flags, empty) =
            (Tensor::from_slice(&[true, false, true]), Tensor::zeros([0, 2], (Kind::Half, Device::Cpu)));
        let tensors = [&transposed, &parameter, &flags, &empty, &Tensor::from(9i64)];
        let (buffer, offsets) = gather(&tensors).unwrap();
        assert!(!buffer.requires_grad());
        for (tensor, offset) in tensors.into_iter().zip(offsets) {
            let bytes = tensor.numel() * tensor.kind().elt_size_in_bytes();
            let place = buffer.narrow(0, offset as i64, bytes as i64).view_dtype(tensor.kind());
            assert_eq!(place.view(tensor.size().as_slice()), tensor.detach());
        }
    }
}
