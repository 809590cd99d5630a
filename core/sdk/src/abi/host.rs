//! The host's side: C records of a library as ordinary components.

use super::*;
use crate::{Advice, ComponentKind, Error, Factory, Init, Loss, Result, Sampler, Tensors, WeightScheme, WeightUpdate};
use serde_json::Value;
use tch::Tensor;

/// What the host offers to libraries, which copy it.
pub static HOST: Host = Host { size: size_of::<Host>(), log: log_line };

extern "C" fn log_line(level: u32, line: Str) {
    let level = match level {
        0 => crate::host::Level::Debug,
        1 => crate::host::Level::Info,
        _ => crate::host::Level::Warn,
    };
    // SAFETY: the library lends valid bytes for this call.
    crate::host::log_line(level, &unsafe { line.read_lossy() });
}

/// The components of a library, as the same records that built-in ones have.
///
/// # Safety
/// `plugin` must be the symbol of a library that stays loaded, and its header (magic, ABI version,
/// size) must have been checked.
pub unsafe fn components(plugin: &Plugin) -> Result<Vec<crate::Component>> {
    extern "C" fn collect(context: *mut c_void, component: *const Component) {
        // SAFETY: `context` is the vector below, for the length of `visit`.
        unsafe { &mut *context.cast::<Vec<*const Component>>() }.push(component);
    }
    let mut records: Vec<*const Component> = Vec::new();
    let sink = ComponentSink { context: (&raw mut records).cast(), component: collect };
    call(|error| (plugin.visit)(&raw const HOST, sink, error))?;
    // SAFETY: they come from the library, which stays loaded.
    records.into_iter().map(|record| unsafe { component(record) }).collect()
}

/// One record as an ordinary component.
///
/// # Safety
/// `record` must be null or point to a record that lives as long as the process.
pub unsafe fn component(record: *const Component) -> Result<crate::Component> {
    if record.is_null() {
        return Err(Error::other("registered a null component"));
    }
    // SAFETY: `size` is the first field of every version of the record.
    let size = unsafe { record.cast::<usize>().read() };
    if size < size_of::<Component>() {
        return Err(Error::other(format!(
            "registered a component record of {size} bytes; {} are needed",
            size_of::<Component>()
        )));
    }
    // A missing field of a C++ record is null, and a null function must not become a Rust function pointer: check
    // the raw words first. Words 10 to 13 are schema, create, destroy and table.
    // SAFETY: the record has at least as many words.
    let words = unsafe { std::slice::from_raw_parts(record.cast::<usize>(), size_of::<Component>() / 8) };
    if words[10..14].contains(&0) {
        return Err(Error::other("registered a component with a null function or table"));
    }
    // SAFETY: not null, large enough, with all functions, and valid until the process ends.
    let record: &'static Component = unsafe { &*record };
    // SAFETY: the record's texts live as long as it does.
    let (kind, name, version, summary) = unsafe {
        (
            record.kind.read("the kind of a component")?,
            record.name.read("the name of a component")?,
            record.version.read("the version of a component")?,
            record.summary.read("the summary of a component")?,
        )
    };
    let kind = ComponentKind::ALL
        .into_iter()
        .find(|known| known.as_str() == kind)
        .ok_or_else(|| Error::other(format!("component `{name}` has the unknown kind `{kind}`")))?;
    let (needed, functions) = match kind {
        ComponentKind::Loss => (size_of::<LossTable>(), 1..4),
        ComponentKind::Sampler => (size_of::<SamplerTable>(), 1..4),
        ComponentKind::Weights => (size_of::<WeightsTable>(), 1..6),
    };
    // SAFETY: `size` is the first field of every table.
    let size = unsafe { record.table.cast::<usize>().read() };
    if size < needed {
        return Err(Error::other(format!("{kind} `{name}` has a table of {size} bytes; {needed} are needed")));
    }
    // SAFETY: the table has at least as many words.
    let table = unsafe { std::slice::from_raw_parts(record.table.cast::<usize>(), needed / 8) };
    if table[functions].contains(&0) {
        return Err(Error::other(format!("{kind} `{name}` has a null function in its table")));
    }
    let schema = read_schema(record).map_err(|e| Error::other(format!("{kind} `{name}`: {e}")))?;
    let factory: &'static LoadedFactory = Box::leak(Box::new(LoadedFactory { record, schema }));
    Ok(crate::Component {
        kind,
        name: Box::leak(name.into_boxed_str()),
        version: Box::leak(version.into_boxed_str()),
        summary: Box::leak(summary.into_boxed_str()),
        factory,
    })
}

fn read_schema(record: &Component) -> Result<Value> {
    extern "C" fn take(context: *mut c_void, text: Str) {
        // SAFETY: `context` is the string below; the library lends valid bytes.
        unsafe { (*context.cast::<Vec<u8>>()).extend_from_slice(slice(text.data, text.len)) };
    }
    let mut text: Vec<u8> = Vec::new();
    let sink = TextSink { context: (&raw mut text).cast(), write: take };
    call(|error| (record.schema)(record.data, sink, error))?;
    serde_json::from_slice(&text).map_err(|e| Error::other(format!("its settings schema is not JSON: {e}")))
}

/// Calls across the boundary and returns the library's error.
fn call(work: impl FnOnce(ErrorSink) -> Status) -> Result<()> {
    extern "C" fn take(context: *mut c_void, code: u32, path: Str, message: Str) {
        // SAFETY: `context` is the option below; the library lends valid bytes.
        let (error, path, message) =
            unsafe { (&mut *context.cast::<Option<Error>>(), path.read_lossy(), message.read_lossy()) };
        *error = Some(match code {
            ERROR_SETTING => Error::Setting { path, message },
            ERROR_TORCH => Error::torch(&message),
            ERROR_PANIC => Error::Panic(message),
            _ => Error::Other(message),
        });
    }
    let mut error: Option<Error> = None;
    match work(ErrorSink { context: (&raw mut error).cast(), write: take }) {
        OK => Ok(()),
        _ => Err(error.unwrap_or_else(|| Error::other("failed without an error message"))),
    }
}

/// Takes ownership of a tensor from the library; null is an error.
fn take_over(tensor: *mut C_tensor, what: &str) -> Result<Tensor> {
    if tensor.is_null() {
        return Err(Error::other(format!("returned null instead of {what}")));
    }
    // SAFETY: the library transferred ownership.
    Ok(unsafe { Tensor::from_ptr(tensor) })
}

/// Lends a tensor to the library.
fn lend(tensor: &Tensor) -> *mut C_tensor {
    tensor.as_ptr().cast_mut()
}

fn lend_all(tensors: &Tensors) -> Vec<NamedTensor> {
    tensors.iter().map(|(name, tensor)| NamedTensor { name: Str::new(name), tensor: lend(tensor) }).collect()
}

fn lend_shape(shape: &crate::Shape) -> Shape {
    Shape { size: size_of::<Shape>(), classes: shape.classes, samples: shape.samples, embedding: shape.embedding }
}

fn lend_facts(data: &crate::DataFacts) -> DataFacts {
    DataFacts {
        size: size_of::<DataFacts>(),
        class_sizes: data.class_sizes.as_ptr(),
        classes: data.class_sizes.len(),
        embedding_size: data.embedding_size,
        batch_size: data.batch_size,
    }
}

struct LoadedFactory {
    record: &'static Component,
    schema: Value,
}

// SAFETY: the record is immutable, and curricle.h requires that its functions may be called from any thread.
unsafe impl Send for LoadedFactory {}
// SAFETY: as above.
unsafe impl Sync for LoadedFactory {}

impl LoadedFactory {
    fn create<T>(&self, settings: &Value) -> Result<Instance<T>> {
        let text = settings.to_string();
        let mut pointer: *mut c_void = std::ptr::null_mut();
        call(|error| (self.record.create)(self.record.data, Str::new(&text), &raw mut pointer, error))?;
        if pointer.is_null() {
            return Err(Error::other("created no instance and reported no error"));
        }
        // SAFETY: `component` checked the size and the functions of the table for this kind.
        let table = unsafe { &*self.record.table.cast::<T>() };
        Ok(Instance { pointer, table, destroy: self.record.destroy, properties: Properties::default() })
    }
}

/// Reads a boolean from the library.
fn ask(question: impl FnOnce(*mut u32, ErrorSink) -> Status) -> Result<bool> {
    let mut answer = 0;
    call(|error| question(&raw mut answer, error))?;
    Ok(answer != 0)
}

impl Factory for LoadedFactory {
    fn schema(&self) -> Value {
        self.schema.clone()
    }

    fn loss(&self, settings: &Value) -> Result<Box<dyn Loss>> {
        Ok(Box::new(self.create::<LossTable>(settings)?))
    }

    fn sampler(&self, settings: &Value) -> Result<Box<dyn Sampler>> {
        let mut sampler = self.create::<SamplerTable>(settings)?;
        let mut size = 0;
        call(|error| (sampler.table.batch_size)(sampler.pointer, &raw mut size, error))?;
        sampler.properties.batch_size = size;
        Ok(Box::new(sampler))
    }

    fn weights(&self, settings: &Value) -> Result<Box<dyn WeightScheme>> {
        let mut scheme = self.create::<WeightsTable>(settings)?;
        scheme.properties.needs_embeddings =
            ask(|answer, error| (scheme.table.needs_embeddings)(scheme.pointer, answer, error))?;
        scheme.properties.is_uniform = ask(|answer, error| (scheme.table.is_uniform)(scheme.pointer, answer, error))?;
        Ok(Box::new(scheme))
    }
}

/// An instance in a library.
struct Instance<T: 'static> {
    pointer: *mut c_void,
    table: &'static T,
    destroy: extern "C" fn(*mut c_void),
    properties: Properties,
}

/// Constant properties of an instance, read when it is created: instances are immutable, and a library that fails
/// then fails before the run starts.
#[derive(Default)]
struct Properties {
    batch_size: usize,
    needs_embeddings: bool,
    is_uniform: bool,
}

// SAFETY: curricle.h requires that instances are immutable and may be used from any thread.
unsafe impl<T> Send for Instance<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Instance<T> {}

impl<T> Drop for Instance<T> {
    fn drop(&mut self) {
        (self.destroy)(self.pointer);
    }
}

fn collect_specs(fill: impl FnOnce(TensorSink, ErrorSink) -> Status) -> Result<Vec<crate::TensorSpec>> {
    extern "C" fn take(context: *mut c_void, spec: *const TensorSpec) {
        // SAFETY: `context` is the vector below.
        let specs = unsafe { &mut *context.cast::<Vec<Result<crate::TensorSpec>>>() };
        // SAFETY: `size` is the first field of every version of the record.
        if spec.is_null() || unsafe { spec.cast::<usize>().read() } < size_of::<TensorSpec>() {
            specs.push(Err(Error::other("declared a tensor with a record that is null or too short")));
            return;
        }
        // SAFETY: not null and large enough; the library lends a valid record.
        let spec = unsafe { *spec };
        // SAFETY: the record's texts and shape are valid for this call.
        let read = || unsafe {
            Ok(crate::TensorSpec {
                name: spec.name.read("the name of a declared tensor")?.into(),
                shape: slice(spec.shape, spec.dimensions).to_vec(),
                kind: tch::Kind::Float,
                init: if spec.init == 1 {
                    Init::Normal { std: spec.init_value }
                } else {
                    Init::Constant(spec.init_value)
                },
                trainable: spec.trainable != 0,
                group: spec.group.read("the group of a declared tensor")?.into(),
                lr_scale: spec.lr_scale,
            })
        };
        specs.push(read());
    }
    let mut specs: Vec<Result<crate::TensorSpec>> = Vec::new();
    call(|error| fill(TensorSink { context: (&raw mut specs).cast(), declare: take }, error))?;
    specs.into_iter().collect()
}

fn collect_advice(fill: impl FnOnce(AdviceSink, ErrorSink) -> Status) -> Result<Vec<Advice>> {
    extern "C" fn take(context: *mut c_void, path: Str, message: Str) {
        // SAFETY: `context` is the vector below; the library lends valid bytes.
        let (advice, path, message) =
            unsafe { (&mut *context.cast::<Vec<Advice>>(), path.read_lossy(), message.read_lossy()) };
        advice.push(Advice { path, message });
    }
    let mut advice: Vec<Advice> = Vec::new();
    call(|error| fill(AdviceSink { context: (&raw mut advice).cast(), advise: take }, error))?;
    Ok(advice)
}

/// A component that fails to check its settings gets a warning, rather than passing as correct.
fn or_warning(advice: Result<Vec<Advice>>) -> Vec<Advice> {
    advice.unwrap_or_else(|error| vec![Advice::new("", format!("could not check its settings: {error}"))])
}

impl Loss for Instance<LossTable> {
    fn forward(&self, batch: &crate::Batch, log: &mut crate::Log) -> Result<Tensor> {
        extern "C" fn take_scalar(context: *mut c_void, name: Str, value: *mut C_tensor) {
            // SAFETY: `context` is the log below; the library lends valid bytes and transfers the tensor.
            let (log, name) = unsafe { (&mut *context.cast::<crate::Log>(), name.read_lossy()) };
            if let Ok(value) = take_over(value, "a scalar") {
                log.scalar(&name, || value);
            }
        }
        let tensors = lend_all(batch.tensors);
        let lent = Batch {
            size: size_of::<Batch>(),
            embeddings: lend(batch.embeddings),
            labels: lend(batch.labels),
            ids: lend(batch.ids),
            weights: batch.weights.map_or(std::ptr::null_mut(), lend),
            tensors: tensors.as_ptr(),
            tensor_count: tensors.len(),
        };
        let sink = Log {
            size: size_of::<Log>(),
            enabled: u32::from(log.is_enabled()),
            context: std::ptr::from_mut(log).cast(),
            scalar: take_scalar,
        };
        let mut loss: *mut C_tensor = std::ptr::null_mut();
        call(|error| (self.table.forward)(self.pointer, &raw const lent, &raw const sink, &raw mut loss, error))?;
        take_over(loss, "the loss")
    }

    fn tensors(&self, shape: &crate::Shape) -> Vec<crate::TensorSpec> {
        let shape = lend_shape(shape);
        let specs = collect_specs(|sink, error| (self.table.tensors)(self.pointer, &raw const shape, sink, error));
        // Callers use `guard`, so a panic with the library's message becomes their error.
        specs.unwrap_or_else(|error| panic!("cannot declare tensors: {error}"))
    }

    fn advice(&self, data: &crate::DataFacts) -> Vec<Advice> {
        let facts = lend_facts(data);
        or_warning(collect_advice(|sink, error| (self.table.advice)(self.pointer, &raw const facts, sink, error)))
    }
}

impl Sampler for Instance<SamplerTable> {
    fn batches(&self, epoch: &crate::Epoch) -> Result<Vec<Vec<i64>>> {
        extern "C" fn take(context: *mut c_void, ids: *const i64, count: usize) {
            // SAFETY: `context` is the vector below; the library lends `count` indices.
            unsafe { (*context.cast::<Vec<Vec<i64>>>()).push(slice(ids, count).to_vec()) };
        }
        let lent = Epoch {
            size: size_of::<Epoch>(),
            labels: epoch.labels.as_ptr(),
            samples: epoch.labels.len(),
            seed: epoch.seed,
            epoch: epoch.epoch,
        };
        let mut batches: Vec<Vec<i64>> = Vec::new();
        let sink = BatchSink { context: (&raw mut batches).cast(), batch: take };
        call(|error| (self.table.batches)(self.pointer, &raw const lent, sink, error))?;
        Ok(batches)
    }

    fn batch_size(&self) -> usize {
        self.properties.batch_size
    }

    fn advice(&self, data: &crate::DataFacts) -> Vec<Advice> {
        let facts = lend_facts(data);
        or_warning(collect_advice(|sink, error| (self.table.advice)(self.pointer, &raw const facts, sink, error)))
    }
}

impl WeightScheme for Instance<WeightsTable> {
    fn update(&self, round: &crate::Round) -> Result<WeightUpdate> {
        extern "C" fn take_weights(context: *mut c_void, values: *const f64, count: usize) {
            // SAFETY: `context` is the update below; the library lends `count` numbers.
            unsafe { (*context.cast::<WeightUpdate>()).weights = slice(values, count).to_vec() };
        }
        extern "C" fn take_scalar(context: *mut c_void, name: Str, value: f64) {
            // SAFETY: `context` is the update below; the library lends valid bytes.
            unsafe { (*context.cast::<WeightUpdate>()).scalars.push((name.read_lossy(), value)) };
        }
        extern "C" fn take_column(context: *mut c_void, name: Str, values: *const f64, count: usize) {
            // SAFETY: `context` is the update below; the library lends valid bytes and numbers.
            unsafe {
                (*context.cast::<WeightUpdate>()).columns.push((name.read_lossy(), slice(values, count).to_vec()));
            }
        }
        let tensors = lend_all(round.tensors);
        let settings = round.loss.settings.to_string();
        let lent = Round {
            size: size_of::<Round>(),
            round: round.round,
            rounds: round.rounds,
            seed: round.seed,
            embeddings: round.embeddings.map_or(std::ptr::null_mut(), lend),
            labels: round.labels.as_ptr(),
            weights: round.weights.as_ptr(),
            samples: round.labels.len(),
            tensors: tensors.as_ptr(),
            tensor_count: tensors.len(),
            loss: LossInfo { name: Str::new(round.loss.name), settings: Str::new(&settings) },
            age: round.age.unwrap_or(f64::NAN),
        };
        let mut update = WeightUpdate::default();
        let sink = WeightSink {
            context: (&raw mut update).cast(),
            weights: take_weights,
            scalar: take_scalar,
            column: take_column,
        };
        call(|error| (self.table.update)(self.pointer, &raw const lent, sink, error))?;
        Ok(update)
    }

    fn needs_embeddings(&self) -> bool {
        self.properties.needs_embeddings
    }

    fn is_uniform(&self) -> bool {
        self.properties.is_uniform
    }

    fn tensors(&self, shape: &crate::Shape) -> Vec<crate::TensorSpec> {
        let shape = lend_shape(shape);
        let specs = collect_specs(|sink, error| (self.table.tensors)(self.pointer, &raw const shape, sink, error));
        specs.unwrap_or_else(|error| panic!("cannot declare tensors: {error}"))
    }

    fn advice(&self, data: &crate::DataFacts, loss: &crate::LossInfo) -> Vec<Advice> {
        let (facts, settings) = (lend_facts(data), loss.settings.to_string());
        let loss = LossInfo { name: Str::new(loss.name), settings: Str::new(&settings) };
        or_warning(collect_advice(|sink, error| (self.table.advice)(self.pointer, &raw const facts, loss, sink, error)))
    }
}
