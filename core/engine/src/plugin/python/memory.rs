//! Memory that this process shares with a worker, and where tensors are in it.

use curricle_sdk::Error;
use memmap2::MmapMut;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, RawFd};
use tch::{Kind, Tensor};

/// Offsets are multiples of this, the size of a cache line.
const ALIGNMENT: usize = 64;

/// More than the text that the memory begins with, so that the file never shrinks.
const SMALLEST: usize = 1 << 20;

/// The place of one tensor: `[kind, shape, offset]` in requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    kind: Kind,
    shape: Vec<i64>,
    offset: usize,
}

impl Slot {
    fn elements(&self) -> usize {
        self.shape.iter().product::<i64>().try_into().unwrap_or(0)
    }

    fn bytes(&self) -> usize {
        self.elements() * self.kind.elt_size_in_bytes()
    }
}

impl Serialize for Slot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (format!("{:?}", self.kind), &self.shape, self.offset).serialize(serializer)
    }
}

/// The places of all tensors of a request.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Places {
    /// The size of the whole memory.
    pub(super) memory: usize,
    /// Arguments of `forward`.
    pub(super) inputs: BTreeMap<&'static str, Slot>,
    /// Parameters and buffers.
    pub(super) tensors: BTreeMap<String, Slot>,
    /// `value` of the loss and its `gradient` with respect to the embeddings.
    pub(super) results: BTreeMap<&'static str, Slot>,
    /// Gradients with respect to parameters.
    pub(super) gradients: BTreeMap<String, Slot>,
}

/// Assigns places one after the other.
#[derive(Debug, Default)]
pub(super) struct Layout {
    end: usize,
}

impl Layout {
    /// The place of a tensor of this shape.
    pub(super) fn slot(&mut self, kind: Kind, shape: &[i64]) -> Slot {
        let slot = Slot { kind, shape: shape.to_vec(), offset: self.end };
        self.end = (self.end + slot.bytes()).next_multiple_of(ALIGNMENT);
        slot
    }

    /// The places of tensors by name.
    pub(super) fn slots<'t>(&mut self, tensors: impl Iterator<Item = (&'t str, &'t Tensor)>) -> BTreeMap<String, Slot> {
        tensors.map(|(name, tensor)| (name.to_string(), self.slot(tensor.kind(), &tensor.size()))).collect()
    }
}

/// An anonymous file, mapped by both processes. Unlike a file in `/dev/shm`, it is not subject to that folder's size
/// limit, which is 64 MB in most containers, and nothing is left behind after a crash.
#[derive(Debug)]
pub(super) struct SharedMemory {
    file: File,
    map: Option<MmapMut>,
}

impl SharedMemory {
    /// Memory with this text, which is overwritten later, and a descriptor that the next child process inherits.
    pub(super) fn with_text(text: &str) -> io::Result<Self> {
        let mut file = File::from(memfd_create("curricle", MemfdFlags::empty())?);
        file.write_all(text.as_bytes())?;
        file.rewind()?;
        Ok(Self { file, map: None })
    }

    /// The descriptor, which is the same number in the child.
    pub(super) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Keeps the descriptor from further child processes.
    pub(super) fn stop_inheriting(&self) -> io::Result<()> {
        Ok(fcntl_setfd(&self.file, FdFlags::CLOEXEC)?)
    }

    /// Makes room for a layout and returns the size of the whole memory, which only grows.
    pub(super) fn reserve(&mut self, layout: &Layout) -> Result<usize, Error> {
        self.grow(layout.end).map_err(|e| Error::other(format!("cannot reserve shared memory: {e}")))
    }

    fn grow(&mut self, wanted: usize) -> io::Result<usize> {
        let size = self.map.as_ref().map_or(0, |map| map.len());
        if size > 0 && wanted <= size {
            return Ok(size);
        }
        let size = wanted.max(SMALLEST).next_power_of_two();
        self.file.set_len(size as u64)?;
        // SAFETY: the file never shrinks. The worker writes to it only between a request and its reply, while this
        // process waits and holds no reference into the map.
        self.map = Some(unsafe { MmapMut::map_mut(&self.file) }?);
        Ok(size)
    }

    fn part(&mut self, slot: &Slot) -> Result<&mut [u8], Error> {
        let range = slot.offset..slot.offset + slot.bytes();
        self.map.as_mut().and_then(|map| map.get_mut(range)).ok_or_else(|| Error::other("no room in shared memory"))
    }

    /// Copies a tensor of the slot's shape to its place, from any device and in any precision.
    pub(super) fn write(&mut self, slot: &Slot, tensor: &Tensor) -> Result<(), Error> {
        let tensor = tensor.detach().to_kind(slot.kind);
        Ok(tensor.f_copy_data_u8(self.part(slot)?, slot.elements())?)
    }

    /// A copy of the tensor in this place.
    pub(super) fn read(&mut self, slot: &Slot) -> Result<Tensor, Error> {
        Ok(Tensor::f_from_data_size(self.part(slot)?, &slot.shape, slot.kind)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    #[test]
    fn tensors_of_all_types_are_read_as_they_were_written() {
        let mut memory = SharedMemory::with_text("").unwrap();
        let mut layout = Layout::default();
        let numbers = Tensor::arange(6, (Kind::Float, Device::Cpu)).view([2, 3]);
        let tensors: Vec<_> = [Kind::Float, Kind::Double, Kind::Int64, Kind::Int, Kind::Uint8, Kind::Bool]
            .map(|kind| numbers.to_kind(kind).tr())
            .into_iter()
            .chain([Tensor::from(2.5f32), Tensor::zeros([0, 3], (Kind::Float, Device::Cpu))])
            .map(|tensor| (layout.slot(tensor.kind(), &tensor.size()), tensor))
            .collect();
        memory.reserve(&layout).unwrap();
        for (slot, tensor) in &tensors {
            memory.write(slot, tensor).unwrap();
        }
        for (slot, tensor) in &tensors {
            assert_eq!(&memory.read(slot).unwrap(), tensor);
        }
    }

    #[test]
    fn memory_grows_and_never_shrinks() {
        let mut memory = SharedMemory::with_text("").unwrap();
        let mut large = Layout::default();
        let slot = large.slot(Kind::Double, &[300_000]);
        let grown = memory.reserve(&large).unwrap();
        assert!(grown >= 2_400_000);
        assert_eq!(memory.reserve(&Layout::default()).unwrap(), grown);
        memory.write(&slot, &Tensor::ones([300_000], (Kind::Double, Device::Cpu))).unwrap();
        let beyond = Slot { kind: Kind::Double, shape: vec![1 << 30], offset: 0 };
        assert!(memory.read(&beyond).is_err());
    }
}
