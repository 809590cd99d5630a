//! The host's side: C records of a library as ordinary components.
//!
//! A library is not trusted to be correct: records may be too small, lengths absurd, functions null, and functions
//! may throw. All of that becomes an error; only wild pointers can still crash the program.

mod call;
mod lend;
mod loss;
mod sampler;
mod tensors;
mod weights;

use super::records::{
    Component, ComponentSink, Host, LossTable, Plugin, Question, SamplerTable, Str, TextSink, WeightsTable, read,
};
use crate::host::{Level, log_line};
use crate::{ComponentKind, Error, Factory, Loss, Result, Sampler, WeightScheme, guard};
use call::{Collected, call, collect, protect, push};
use serde_json::Value;
use std::ffi::c_void;

/// What the host offers to libraries, which copy it.
pub static HOST: Host = Host { size: size_of::<Host>(), log: Some(write_log_line) };

extern "C" fn write_log_line(level: u32, line: Str) {
    let level = match level {
        0 => Level::Debug,
        1 => Level::Info,
        _ => Level::Warn,
    };
    // A line that cannot be written is lost: there is no other place to report it.
    let _ = guard(|| {
        // SAFETY: the library lends valid bytes for this call.
        log_line(level, &unsafe { line.read_lossy() });
        Ok(())
    });
}

/// The components of a library, as the same records that built-in ones have.
///
/// # Safety
/// `plugin` must be the symbol of a library that stays loaded, and its header (magic, ABI version,
/// size) must have been checked.
pub unsafe fn components(plugin: &Plugin) -> Result<Vec<crate::Component>> {
    extern "C" fn take(context: *mut c_void, component: *const Component) {
        // SAFETY: `context` is the list below, for the length of `visit`.
        unsafe { collect(context, |records: &mut Vec<_>| push(records, component, "components")) };
    }
    let visit = required(plugin.visit, "visit")?;
    let mut records = Collected::new(Vec::new());
    let sink = ComponentSink { size: size_of::<ComponentSink>(), context: records.context(), component: Some(take) };
    let sink = &raw const sink;
    let called = call(move |error| visit(&raw const HOST, sink, error));
    // SAFETY: they come from the library, which stays loaded.
    records.finish(called)?.into_iter().map(|record| unsafe { component(record) }).collect()
}

/// A function that every table must have.
fn required<F>(function: Option<F>, name: &str) -> Result<F> {
    function.ok_or_else(|| Error::other(format!("has a null `{name}`")))
}

/// One record as an ordinary component.
///
/// # Safety
/// `record` must be null or point to a record that lives as long as the process.
pub unsafe fn component(record: *const Component) -> Result<crate::Component> {
    // SAFETY: the caller's obligation.
    let record = unsafe { read(record) }?;
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
    let named = |error: Error| Error::other(format!("{kind} `{name}`: {error}"));
    // SAFETY: the library passes a table of this kind.
    let factory = unsafe { LoadedFactory::new(kind, record) }.map_err(named)?;
    let factory: &'static LoadedFactory = Box::leak(Box::new(factory));
    Ok(crate::Component {
        kind,
        name: Box::leak(name.into_boxed_str()),
        version: Box::leak(version.into_boxed_str()),
        summary: Box::leak(summary.into_boxed_str()),
        factory,
    })
}

/// The functions of a component, by its kind.
#[derive(Clone, Copy)]
enum Table {
    Loss(LossTable),
    Sampler(SamplerTable),
    Weights(WeightsTable),
}

impl Table {
    /// # Safety
    /// `table` must be null or a table of this kind.
    unsafe fn read(kind: ComponentKind, table: *const c_void) -> Result<Self> {
        // SAFETY: the caller's obligation.
        unsafe {
            Ok(match kind {
                ComponentKind::Loss => {
                    let table: LossTable = read(table.cast())?;
                    required(table.forward, "forward")?;
                    Self::Loss(table)
                }
                ComponentKind::Sampler => {
                    let table: SamplerTable = read(table.cast())?;
                    required(table.batches, "batches")?;
                    required(table.batch_size, "batch_size")?;
                    Self::Sampler(table)
                }
                ComponentKind::Weights => {
                    let table: WeightsTable = read(table.cast())?;
                    if table.update.is_none() && table.weigh_batch.is_none() {
                        return Err(Error::other("has neither `update` nor `weigh_batch`"));
                    }
                    Self::Weights(table)
                }
            })
        }
    }
}

struct LoadedFactory {
    record: Component,
    table: Table,
    schema: Value,
}

// SAFETY: the record is immutable, and curricle.h requires that its functions may be called from any thread.
unsafe impl Send for LoadedFactory {}
// SAFETY: as above.
unsafe impl Sync for LoadedFactory {}

impl LoadedFactory {
    /// # Safety
    /// The record's table must be null or of this kind.
    unsafe fn new(kind: ComponentKind, record: Component) -> Result<Self> {
        required(record.create, "create")?;
        required(record.destroy, "destroy")?;
        // SAFETY: the caller's obligation.
        let table = unsafe { Table::read(kind, record.table) }?;
        Ok(Self { table, schema: read_schema(&record)?, record })
    }

    fn create<T>(&self, settings: &Value, table: T) -> Result<Instance<T>> {
        let (create, destroy) = (required(self.record.create, "create")?, required(self.record.destroy, "destroy")?);
        let (data, text) = (self.record.data, settings.to_string());
        let (text, mut pointer) = (Str::new(&text), std::ptr::null_mut::<c_void>());
        let out = &raw mut pointer;
        call(move |error| create(data, text, out, error))?;
        if pointer.is_null() {
            return Err(Error::other("created no instance and reported no error"));
        }
        Ok(Instance { pointer, table, destroy })
    }
}

impl Factory for LoadedFactory {
    fn schema(&self) -> Value {
        self.schema.clone()
    }

    fn loss(&self, settings: &Value) -> Result<Box<dyn Loss>> {
        match self.table {
            Table::Loss(table) => Ok(Box::new(loss::LoadedLoss::new(self.create(settings, table)?)?)),
            _ => Err(Error::other("is not a loss")),
        }
    }

    fn sampler(&self, settings: &Value) -> Result<Box<dyn Sampler>> {
        match self.table {
            Table::Sampler(table) => Ok(Box::new(sampler::LoadedSampler::new(self.create(settings, table)?)?)),
            _ => Err(Error::other("is not a sampler")),
        }
    }

    fn weights(&self, settings: &Value) -> Result<Box<dyn WeightScheme>> {
        match self.table {
            Table::Weights(table) => Ok(Box::new(weights::LoadedWeights::new(self.create(settings, table)?)?)),
            _ => Err(Error::other("is not a weight scheme")),
        }
    }
}

/// An instance in a library.
struct Instance<T> {
    pointer: *mut c_void,
    table: T,
    destroy: extern "C-unwind" fn(*mut c_void),
}

// SAFETY: curricle.h requires that instances are immutable and may be used from any thread.
unsafe impl<T> Send for Instance<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Instance<T> {}

impl<T> Drop for Instance<T> {
    fn drop(&mut self) {
        let (destroy, pointer) = (self.destroy, self.pointer);
        if let Err(error) = protect(move || destroy(pointer)) {
            log_line(Level::Warn, &format!("a component of a plugin could not be destroyed: {error}"));
        }
    }
}

impl<T> Instance<T> {
    /// The answer to a question, asked once when the instance is created: instances are immutable, and a library
    /// that fails then fails before the run starts.
    fn ask(&self, question: Question, otherwise: bool) -> Result<bool> {
        let Some(question) = question else { return Ok(otherwise) };
        let (pointer, mut answer) = (self.pointer, 0);
        let out = &raw mut answer;
        call(move |error| question(pointer, out, error))?;
        Ok(answer != 0)
    }
}

fn read_schema(record: &Component) -> Result<Value> {
    const LONGEST: usize = 1 << 24;
    extern "C" fn take(context: *mut c_void, text: Str) {
        // SAFETY: `context` is the text below; the library lends valid bytes.
        unsafe {
            collect(context, |all: &mut String| {
                all.push_str(&text.read_up_to(LONGEST - all.len().min(LONGEST), "its settings schema")?);
                Ok(())
            });
        }
    }
    let (schema, data) = (required(record.schema, "schema")?, record.data);
    let mut text = Collected::new(String::new());
    let sink = TextSink { size: size_of::<TextSink>(), context: text.context(), write: Some(take) };
    let sink = &raw const sink;
    let called = call(move |error| schema(data, sink, error));
    let text = text.finish(called)?;
    serde_json::from_str(&text).map_err(|e| Error::other(format!("its settings schema is not JSON: {e}")))
}
