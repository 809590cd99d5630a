//! Feeds batches to the device, in order and prefetched.
//!
//! Samples in memory are gathered on the device on demand. Files are read, decoded and transformed
//! by worker threads a few batches ahead, directly into the batch buffer, which is pinned memory
//! when the device is a GPU. The batches do not depend on the number of workers.

use super::files::Files;
use super::images::{Occurrence, Pipeline, View};
use super::split::Inputs;
use crate::device::decoder_threads;
use crate::{Error, Result};
use curricle_sdk::guard;
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use tch::{Device, Kind, Tensor};

/// Number of batches to prefetch. Two would be enough if all took the same time.
const AHEAD: usize = 4;

/// A batch of samples.
#[derive(Debug)]
pub struct Samples {
    /// Sample indices `[B]`, i64, on the device.
    pub ids: Tensor,
    /// The inputs, on the device: images in u8, features in f32. The model normalises images for its
    /// network.
    pub inputs: Tensor,
}

/// An iterator over batches. An error names the file that caused it, and ends the feed.
#[derive(Debug)]
pub struct Feed {
    /// The sample indices of all batches, on the device.
    ids: Tensor,
    sizes: VecDeque<usize>,
    offset: usize,
    source: BatchSource,
}

#[derive(Debug)]
enum BatchSource {
    Memory(Tensor),
    Files(Box<Prefetcher>),
}

impl Inputs {
    /// Feeds these batches from index `start` on. The skipped ones still count towards how often a sample
    /// has been seen, so that a resumed epoch gets the same augmentations.
    pub fn feed(&self, batches: &[Vec<i64>], start: usize, view: View, device: Device) -> Result<Feed> {
        // All indices go to the device in one copy.
        let ids = Tensor::f_from_slice(&batches[start..].concat()).and_then(|ids| ids.f_to_device(device));
        let ids = ids.map_err(|e| Error::Torch { during: "preparing batches", source: e.into() })?;
        let sizes = batches[start..].iter().map(Vec::len).collect();
        let source = match self {
            Inputs::Images(tensor) | Inputs::Features(tensor) => BatchSource::Memory(tensor.shallow_clone()),
            Inputs::Files(files) => {
                BatchSource::Files(Box::new(Prefetcher::open(files, batches, start, view, device)?))
            }
        };
        Ok(Feed { ids, sizes, offset: 0, source })
    }
}

impl Iterator for Feed {
    type Item = Result<Samples>;

    fn next(&mut self) -> Option<Self::Item> {
        let size = self.sizes.pop_front()?;
        let ids = self.ids.f_narrow(0, self.offset as i64, size as i64);
        self.offset += size;
        let samples = ids.map_err(torch).and_then(|ids| {
            let inputs = match &mut self.source {
                BatchSource::Memory(tensor) => tensor.f_index_select(0, &ids).map_err(torch)?,
                BatchSource::Files(prefetcher) => prefetcher.next()?,
            };
            Ok(Samples { ids, inputs })
        });
        if samples.is_err() {
            self.sizes.clear();
        }
        Some(samples)
    }
}

fn torch(error: tch::TchError) -> Error {
    Error::Torch { during: "gathering a batch", source: error.into() }
}

/// The prefetcher: worker threads that load batches from files.
#[derive(Debug)]
struct Prefetcher {
    files: Files,
    device: Device,
    /// Batches not started yet.
    waiting: VecDeque<Vec<Occurrence>>,
    /// Batches in progress, in order.
    in_progress: VecDeque<Arc<BatchBuffer>>,
    /// `None` shuts the workers down.
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

/// One image to load, and its slot in the batch.
struct Job {
    visit: Occurrence,
    slot: usize,
    buffer: Arc<BatchBuffer>,
}

impl Prefetcher {
    fn open(files: &Files, batches: &[Vec<i64>], start: usize, view: View, device: Device) -> Result<Self> {
        let mut waiting = visits(batches);
        waiting.drain(..start);
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let work = || {
            let (files, queue) = (files.clone(), queue.clone());
            let name = std::thread::Builder::new().name("images".into());
            name.spawn(move || work(&files, view, &queue))
        };
        let most = waiting.iter().map(Vec::len).sum::<usize>();
        let threads = (0..decoder_threads(device).min(most)).map(|_| work()).collect::<std::io::Result<_>>();
        let threads = threads.map_err(|e| Error::Failed(format!("cannot start image workers: {e}")))?;
        let files = files.clone();
        let mut prefetcher = Self { files, device, waiting, in_progress: VecDeque::new(), jobs: Some(jobs), threads };
        for _ in 0..AHEAD {
            prefetcher.begin()?;
        }
        Ok(prefetcher)
    }

    /// Queues the next batch for the workers.
    fn begin(&mut self) -> Result<()> {
        let (Some(visits), Some(jobs)) = (self.waiting.pop_front(), &self.jobs) else { return Ok(()) };
        let buffer = Arc::new(BatchBuffer::new(visits.len(), &self.files, self.device)?);
        for (slot, visit) in visits.into_iter().enumerate() {
            // The workers receive until the sender is dropped.
            let _ = jobs.send(Job { visit, slot, buffer: buffer.clone() });
        }
        self.in_progress.push_back(buffer);
        Ok(())
    }

    fn next(&mut self) -> Result<Tensor> {
        self.begin()?;
        let buffer = self.in_progress.pop_front().ok_or_else(|| Error::Failed("there are no more batches".into()))?;
        buffer.finish()?;
        if self.device == Device::Cpu {
            return Ok(buffer.batch.shallow_clone());
        }
        // Pinned memory is copied asynchronously, and libtorch keeps it alive until the copy is done.
        buffer.batch.f_to_device_(self.device, Kind::Uint8, true, false).map_err(torch)
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        self.jobs = None;
        self.in_progress.iter().for_each(|buffer| buffer.cancel());
        for thread in self.threads.drain(..) {
            // Workers do not panic: their work is guarded.
            let _ = thread.join();
        }
    }
}

/// The samples of all batches, each with the number of times it has been seen before.
fn visits(batches: &[Vec<i64>]) -> VecDeque<Vec<Occurrence>> {
    let mut seen: HashMap<i64, u64> = HashMap::new();
    let mut visit = |id: &i64| {
        let count = seen.entry(*id).or_default();
        let occurrence = *count;
        *count += 1;
        Occurrence { sample: *id as usize, occurrence }
    };
    batches.iter().map(|batch| batch.iter().map(&mut visit).collect()).collect()
}

/// A worker: loads images until the queue is closed.
fn work(files: &Files, view: View, queue: &Mutex<Receiver<Job>>) {
    let mut pipeline = Pipeline::default();
    loop {
        let job = lock(queue).recv();
        let Ok(Job { visit, slot, buffer }) = job else { return };
        let loaded = match buffer.wanted() {
            true => guard(|| Ok(files.load(&mut pipeline, view, visit, buffer.slot(slot)))),
            false => Ok(Ok(())),
        };
        buffer.done(slot, loaded.unwrap_or_else(|source| Err(Error::Torch { during: "transforming images", source })));
    }
}

/// The batch buffer that workers write images into.
#[derive(Debug)]
struct BatchBuffer {
    batch: Tensor,
    /// The data pointer of `batch`.
    pixels: *mut u8,
    bytes: usize,
    state: Mutex<BufferState>,
    changed: Condvar,
}

#[derive(Debug)]
struct BufferState {
    /// Images not done.
    left: usize,
    /// The first slot that failed, and its error.
    failed: Option<(usize, Error)>,
    /// Whether the batch is still needed.
    wanted: bool,
}

// SAFETY: `pixels` points into `batch`, whose memory lives as long as this buffer; each slot is written
// by one thread, and read only after all are done.
unsafe impl Send for BatchBuffer {}
// SAFETY: as above.
unsafe impl Sync for BatchBuffer {}

impl BatchBuffer {
    fn new(size: usize, files: &Files, device: Device) -> Result<Self> {
        let side = files.settings().size as i64;
        let size_of_batch = [size as i64, 3, side, side];
        let batch = match device {
            Device::Cuda(_) => curricle_torch::pinned(&size_of_batch),
            _ => Tensor::f_empty(size_of_batch, (Kind::Uint8, Device::Cpu)),
        };
        let batch = batch.map_err(|e| Error::Torch { during: "allocating a batch", source: e.into() })?;
        let pixels = batch.data_ptr().cast();
        let state = Mutex::new(BufferState { left: size, failed: None, wanted: true });
        Ok(Self { batch, pixels, bytes: files.bytes(), state, changed: Condvar::new() })
    }

    /// The memory of one image.
    #[expect(clippy::mut_from_ref, reason = "each slot is given to one job only")]
    fn slot(&self, slot: usize) -> &mut [u8] {
        // SAFETY: `batch` is contiguous and holds `bytes` for each slot; every slot belongs to one job
        // only, and `finish` waits for all jobs before the memory is read.
        unsafe { std::slice::from_raw_parts_mut(self.pixels.add(slot * self.bytes), self.bytes) }
    }

    /// Marks one image as done.
    fn done(&self, slot: usize, result: Result<()>) {
        let mut state = lock(&self.state);
        state.left -= 1;
        // Report the first failure in batch order, independent of thread timing.
        if let Err(error) = result
            && state.failed.as_ref().is_none_or(|(other, _)| slot < *other)
        {
            state.failed = Some((slot, error));
        }
        self.changed.notify_all();
    }

    fn wanted(&self) -> bool {
        lock(&self.state).wanted
    }

    fn cancel(&self) {
        lock(&self.state).wanted = false;
    }

    /// Waits until all images are done.
    fn finish(&self) -> Result<()> {
        let mut state = lock(&self.state);
        while state.left > 0 {
            state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        state.failed.take().map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// Ignores poisoning: no state is left inconsistent under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::files::HashedFile;
    use curricle_recipe::ImagesRecipe;
    use std::path::Path;

    /// Different images of noise, the last of which is broken.
    fn noise_images(folder: &Path, count: u8) -> Files {
        let place = |i: u8| {
            let path = folder.join(format!("{i}.png"));
            let pixels =
                (0..40 * 30 * 3u32).map(|p| (p.wrapping_mul(2_654_435_761) >> (8 + i % 8)) as u8 ^ i).collect();
            image::RgbImage::from_raw(40, 30, pixels).unwrap().save(&path).unwrap();
            HashedFile { hash: blake3::hash(&[i]), path }
        };
        let places: Vec<HashedFile> = (0..count).map(place).collect();
        std::fs::write(&places[count as usize - 1].path, b"broken").unwrap();
        Files::new(places, Arc::new(ImagesRecipe { size: 16, ..ImagesRecipe::default() }))
    }

    fn all(inputs: &Inputs, batches: &[Vec<i64>], start: usize, view: View) -> Vec<(Vec<i64>, Tensor)> {
        let feed = inputs.feed(batches, start, view, Device::Cpu).unwrap();
        let read = |samples: Result<Samples>| {
            let samples = samples.unwrap();
            (Vec::<i64>::try_from(samples.ids).unwrap(), samples.inputs)
        };
        feed.map(read).collect()
    }

    #[test]
    fn batches_are_in_order_and_a_resumed_epoch_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let inputs = Inputs::Files(noise_images(folder.path(), 8));
        // More batches than are prefetched, and samples that repeat.
        let batches: Vec<Vec<i64>> = (0..9).map(|b| vec![b % 7, 0, (b + 3) % 7]).collect();
        let view = View::Train { seed: 5, epoch: 1 };
        let whole = all(&inputs, &batches, 0, view);
        assert_eq!(whole.len(), 9);
        for ((ids, images), batch) in whole.iter().zip(&batches) {
            assert_eq!((ids, images.size()), (batch, vec![3, 3, 16, 16]));
        }
        assert_ne!(whole[1].1.get(1), whole[2].1.get(1), "a repeated sample is augmented differently");
        let resumed = all(&inputs, &batches, 6, view);
        assert_eq!(resumed.len(), 3);
        assert!(resumed.iter().zip(&whole[6..]).all(|(a, b)| a == b));
        let one = |sample: i64| all(&inputs, &[vec![sample]], 0, View::Eval).remove(0).1;
        assert_eq!(all(&inputs, &[vec![2, 3]], 0, View::Eval)[0].1.get(1), one(3).get(0));
    }

    #[test]
    fn a_broken_file_is_named_and_ends_the_feed() {
        let folder = tempfile::tempdir().unwrap();
        let inputs = Inputs::Files(noise_images(folder.path(), 3));
        let batches = vec![vec![0, 1], vec![1, 2, 2], vec![0]];
        let mut feed = inputs.feed(&batches, 0, View::Eval, Device::Cpu).unwrap();
        assert!(feed.next().unwrap().is_ok());
        let message = feed.next().unwrap().unwrap_err().to_string();
        assert!(message.contains("2.png`: is not an image"), "{message}");
        assert!(feed.next().is_none());
    }

    #[test]
    fn a_feed_can_be_dropped_early() {
        let folder = tempfile::tempdir().unwrap();
        let inputs = Inputs::Files(noise_images(folder.path(), 5));
        let batches = vec![vec![0, 1, 2, 3]; 50];
        let mut feed = inputs.feed(&batches, 0, View::Eval, Device::Cpu).unwrap();
        assert!(feed.next().unwrap().is_ok());
    }

    #[test]
    fn samples_in_memory_are_gathered() {
        let inputs = Inputs::Features(Tensor::from_slice(&[1.0f32, 2.0, 3.0]).view([3, 1]));
        let fed = all(&inputs, &[vec![0], vec![2, 1]], 1, View::Eval);
        assert_eq!(fed.len(), 1);
        assert_eq!(Vec::<f32>::try_from(fed[0].1.flatten(0, -1)).unwrap(), [3.0, 2.0]);
    }
}
