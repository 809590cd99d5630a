//! The library's side: Rust components as C records.
//!
//! [`export_plugin!`](crate::export_plugin) adds the symbol to a `cdylib`. `inventory` is per binary image, so a
//! library sees only its own components, and `register_loss!` works for built-in and for loaded components.

use super::*;
use crate::{Error, Result, guard, registered};
use std::mem::ManuallyDrop;
use tch::Tensor;

/// Exports the components registered in this library. Use it once, in the crate root of a `cdylib`:
///
/// ```ignore
/// curricle_sdk::export_plugin!();
/// ```
#[macro_export]
macro_rules! export_plugin {
    () => {
        #[cfg(panic = "abort")]
        compile_error!(
            "a curricle plugin must be built with `panic = \"unwind\"`, so that a panic ends a run and not the program"
        );

        /// The symbol that curricle looks up in a plugin.
        // SAFETY: the name is reserved for curricle, and only a leaf `cdylib` exports it.
        #[unsafe(no_mangle)]
        pub static CURRICLE_PLUGIN_V1: $crate::abi::Plugin = $crate::abi::export::PLUGIN;
    };
}

/// What [`export_plugin!`](crate::export_plugin) exports.
pub const PLUGIN: Plugin = Plugin {
    magic: MAGIC,
    abi_major: ABI_MAJOR,
    abi_minor: ABI_MINOR,
    size: size_of::<Plugin>(),
    sdk: Str::new(concat!("curricle-sdk ", env!("CARGO_PKG_VERSION"))),
    tch: Str::new(TCH_VERSION),
    libtorch: Str::new(LIBTORCH_VERSION),
    target: Str::new(TARGET),
    visit,
};

extern "C" fn visit(host: *const Host, visitor: ComponentSink, error: ErrorSink) -> Status {
    shield(error, || {
        // SAFETY: the host passes a pointer that is valid until the process ends.
        let host = unsafe { *host };
        crate::host::set_log_sink(move |level, line| (host.log)(level as u32, Str::new(line)));
        for component in registered() {
            // Leaked: the host keeps the pointer until the process ends.
            let record: &'static Component = Box::leak(Box::new(describe(component)));
            (visitor.component)(visitor.context, record);
        }
        Ok(())
    })
}

/// A registered component as a C record.
pub fn describe(component: &'static crate::Component) -> Component {
    let (destroy, table): (extern "C" fn(*mut c_void), *const c_void) = match component.kind {
        crate::ComponentKind::Loss => (destroy::<dyn crate::Loss>, (&raw const LOSS).cast()),
        crate::ComponentKind::Sampler => (destroy::<dyn crate::Sampler>, (&raw const SAMPLER).cast()),
        crate::ComponentKind::Weights => (destroy::<dyn crate::WeightScheme>, (&raw const WEIGHTS).cast()),
    };
    Component {
        size: size_of::<Component>(),
        kind: Str::new(component.kind.as_str()),
        name: Str::new(component.name),
        version: Str::new(component.version),
        summary: Str::new(component.summary),
        data: std::ptr::from_ref(component).cast(),
        schema,
        create,
        destroy,
        table,
    }
}

static LOSS: LossTable =
    LossTable { size: size_of::<LossTable>(), tensors: loss_tensors, forward: loss_forward, advice: loss_advice };
static SAMPLER: SamplerTable = SamplerTable {
    size: size_of::<SamplerTable>(),
    batches: sampler_batches,
    batch_size: sampler_batch_size,
    advice: sampler_advice,
};
static WEIGHTS: WeightsTable = WeightsTable {
    size: size_of::<WeightsTable>(),
    tensors: weights_tensors,
    update: weights_update,
    needs_embeddings: weights_needs_embeddings,
    is_uniform: weights_is_uniform,
    advice: weights_advice,
};

/// Runs `work`; its error or panic goes to the sink and never crosses the boundary.
fn shield(sink: ErrorSink, work: impl FnOnce() -> Result<()>) -> Status {
    let Err(error) = guard(work) else { return OK };
    let (code, path, message) = match error {
        Error::Setting { path, message } => (ERROR_SETTING, path, message),
        Error::Torch(message) => (ERROR_TORCH, String::new(), message),
        Error::Panic(message) => (ERROR_PANIC, String::new(), message),
        Error::Other(message) => (ERROR_OTHER, String::new(), message),
    };
    (sink.write)(sink.context, code, Str::new(&path), Str::new(&message));
    FAILED
}

/// The component behind a record's `data`.
///
/// # Safety
/// `data` must come from [`describe`].
unsafe fn component(data: *const c_void) -> &'static crate::Component {
    // SAFETY: `describe` stores a pointer to a static record there.
    unsafe { &*data.cast::<crate::Component>() }
}

extern "C" fn schema(data: *const c_void, sink: TextSink, error: ErrorSink) -> Status {
    shield(error, || {
        // SAFETY: the host passes `data` of a record made by `describe`.
        let text = unsafe { component(data) }.factory.schema().to_string();
        (sink.write)(sink.context, Str::new(&text));
        Ok(())
    })
}

extern "C" fn create(data: *const c_void, settings: Str, instance: *mut *mut c_void, error: ErrorSink) -> Status {
    shield(error, || {
        // SAFETY: the host passes `data` of a record made by `describe`, and valid text.
        let (component, text) = unsafe { (component(data), settings.read("the settings text")?) };
        let settings = serde_json::from_str(&text).map_err(|e| Error::other(e.to_string()))?;
        // A thin pointer to a fat one: only thin pointers cross.
        let made: *mut c_void = match component.kind {
            crate::ComponentKind::Loss => Box::into_raw(Box::new(component.factory.loss(&settings)?)).cast(),
            crate::ComponentKind::Sampler => Box::into_raw(Box::new(component.factory.sampler(&settings)?)).cast(),
            crate::ComponentKind::Weights => Box::into_raw(Box::new(component.factory.weights(&settings)?)).cast(),
        };
        // SAFETY: the host passes a valid output pointer.
        unsafe { *instance = made };
        Ok(())
    })
}

extern "C" fn destroy<T: ?Sized>(instance: *mut c_void) {
    // A panic in a destructor cannot be reported.
    let _ = guard(|| {
        // SAFETY: `create` made it from a `Box<Box<T>>` of this kind, and it is not used again.
        drop(unsafe { Box::from_raw(instance.cast::<Box<T>>()) });
        Ok(())
    });
}

/// The instance behind a pointer made by [`create`].
///
/// # Safety
/// `instance` must come from `create` of a component of this kind and not have been destroyed.
unsafe fn instance<'a, T: ?Sized>(instance: *const c_void) -> &'a T {
    // SAFETY: the caller's obligation.
    unsafe { &*instance.cast::<Box<T>>() }
}

/// A new handle to a borrowed tensor.
///
/// # Safety
/// `tensor` must be a live `at::Tensor*`.
unsafe fn borrow(tensor: *mut C_tensor) -> Tensor {
    // SAFETY: creates another handle to the same tensor; the caller keeps its own.
    unsafe { Tensor::clone_from_ptr(tensor) }
}

/// Transfers ownership of a tensor to the other side.
fn hand_over(tensor: Tensor) -> *mut C_tensor {
    ManuallyDrop::new(tensor).as_mut_ptr()
}

/// # Safety
/// As for [`slice()`] and [`borrow`].
unsafe fn named_tensors(tensors: *const NamedTensor, count: usize) -> Result<crate::Tensors> {
    let mut all = crate::Tensors::default();
    // SAFETY: the caller's obligation.
    for named in unsafe { slice(tensors, count) } {
        // SAFETY: the caller's obligation.
        let (name, tensor) = unsafe { (named.name.read("the name of a tensor")?, borrow(named.tensor)) };
        all.insert(name, tensor);
    }
    Ok(all)
}

/// # Safety
/// `shape` must be valid.
unsafe fn shape_of(shape: *const Shape) -> crate::Shape {
    // SAFETY: the caller's obligation.
    let Shape { classes, samples, embedding, .. } = unsafe { *shape };
    crate::Shape { classes, samples, embedding }
}

fn declare(specs: Vec<crate::TensorSpec>, sink: TensorSink) {
    for spec in specs {
        let (init, init_value) = match spec.init {
            crate::Init::Constant(value) => (0, value),
            crate::Init::Normal { std } => (1, std),
            crate::Init::Uniform { .. } => (2, 0.0),
        };
        let record = TensorSpec {
            size: size_of::<TensorSpec>(),
            name: Str::new(&spec.name),
            shape: spec.shape.as_ptr(),
            dimensions: spec.shape.len(),
            init,
            trainable: u32::from(spec.trainable),
            init_value,
            group: Str::new(&spec.group),
            lr_scale: spec.lr_scale,
        };
        (sink.declare)(sink.context, &raw const record);
    }
}

fn advise(advice: Vec<crate::Advice>, sink: AdviceSink) {
    for piece in advice {
        (sink.advise)(sink.context, Str::new(&piece.path), Str::new(&piece.message));
    }
}

/// # Safety
/// `data` must be valid for `'a`.
unsafe fn facts<'a>(data: *const DataFacts) -> crate::DataFacts<'a> {
    // SAFETY: the caller's obligation.
    let data = unsafe { *data };
    // SAFETY: the caller's obligation.
    let class_sizes = unsafe { slice(data.class_sizes, data.classes) };
    crate::DataFacts { class_sizes, embedding_size: data.embedding_size, batch_size: data.batch_size }
}

extern "C" fn loss_tensors(this: *const c_void, shape: *const Shape, sink: TensorSink, error: ErrorSink) -> Status {
    shield(error, || {
        // SAFETY: the host passes an instance of a loss and a valid shape.
        let (loss, shape) = unsafe { (instance::<dyn crate::Loss>(this), shape_of(shape)) };
        declare(loss.tensors(&shape), sink);
        Ok(())
    })
}

extern "C" fn loss_forward(
    this: *const c_void,
    batch: *const Batch,
    log: *const Log,
    out: *mut *mut C_tensor,
    error: ErrorSink,
) -> Status {
    shield(error, || {
        // SAFETY: the host passes an instance of a loss, and a batch and a log valid for this call.
        let (loss, batch, sink) = unsafe { (instance::<dyn crate::Loss>(this), &*batch, &*log) };
        // SAFETY: the host lends live tensors; `weights` may be null.
        let (embeddings, labels, ids, weights, tensors) = unsafe {
            (
                borrow(batch.embeddings),
                borrow(batch.labels),
                borrow(batch.ids),
                (!batch.weights.is_null()).then(|| borrow(batch.weights)),
                named_tensors(batch.tensors, batch.tensor_count)?,
            )
        };
        let weights = weights.as_ref();
        let batch = crate::Batch { weights, ..crate::Batch::new(&embeddings, &labels, &ids, &tensors) };
        let mut log = if sink.enabled != 0 { crate::Log::enabled() } else { crate::Log::disabled() };
        let value = loss.forward(&batch, &mut log)?;
        for (name, scalar) in log.into_scalars() {
            (sink.scalar)(sink.context, Str::new(&name), hand_over(scalar));
        }
        // SAFETY: the host passes a valid output pointer.
        unsafe { *out = hand_over(value) };
        Ok(())
    })
}

extern "C" fn loss_advice(this: *const c_void, data: *const DataFacts, sink: AdviceSink, error: ErrorSink) -> Status {
    shield(error, || {
        // SAFETY: the host passes an instance of a loss and valid facts.
        let (loss, facts) = unsafe { (instance::<dyn crate::Loss>(this), facts(data)) };
        advise(loss.advice(&facts), sink);
        Ok(())
    })
}

extern "C" fn sampler_batches(this: *const c_void, epoch: *const Epoch, sink: BatchSink, error: ErrorSink) -> Status {
    shield(error, || {
        // SAFETY: the host passes an instance of a sampler and a valid epoch.
        let (sampler, epoch) = unsafe { (instance::<dyn crate::Sampler>(this), &*epoch) };
        // SAFETY: the host lends as many labels as there are samples.
        let labels = unsafe { slice(epoch.labels, epoch.samples) };
        for batch in sampler.batches(&crate::Epoch { labels, seed: epoch.seed, epoch: epoch.epoch })? {
            (sink.batch)(sink.context, batch.as_ptr(), batch.len());
        }
        Ok(())
    })
}

extern "C" fn sampler_batch_size(this: *const c_void, size: *mut usize, error: ErrorSink) -> Status {
    shield(error, || {
        // SAFETY: the host passes an instance of a sampler and a valid output pointer.
        unsafe { *size = instance::<dyn crate::Sampler>(this).batch_size() };
        Ok(())
    })
}

extern "C" fn sampler_advice(
    this: *const c_void,
    data: *const DataFacts,
    sink: AdviceSink,
    error: ErrorSink,
) -> Status {
    shield(error, || {
        // SAFETY: the host passes an instance of a sampler and valid facts.
        let (sampler, facts) = unsafe { (instance::<dyn crate::Sampler>(this), facts(data)) };
        advise(sampler.advice(&facts), sink);
        Ok(())
    })
}

extern "C" fn weights_tensors(this: *const c_void, shape: *const Shape, sink: TensorSink, error: ErrorSink) -> Status {
    shield(error, || {
        // SAFETY: the host passes an instance of a weight scheme and a valid shape.
        let (scheme, shape) = unsafe { (instance::<dyn crate::WeightScheme>(this), shape_of(shape)) };
        declare(scheme.tensors(&shape), sink);
        Ok(())
    })
}

extern "C" fn weights_update(this: *const c_void, round: *const Round, sink: WeightSink, error: ErrorSink) -> Status {
    shield(error, || {
        // SAFETY: the host passes an instance of a weight scheme and a round valid for this call.
        let (scheme, round) = unsafe { (instance::<dyn crate::WeightScheme>(this), &*round) };
        // SAFETY: the host lends live tensors, arrays of `samples` elements and valid text.
        let (embeddings, labels, weights, tensors, name, settings) = unsafe {
            (
                (!round.embeddings.is_null()).then(|| borrow(round.embeddings)),
                slice(round.labels, round.samples),
                slice(round.weights, round.samples),
                named_tensors(round.tensors, round.tensor_count)?,
                round.loss.name.read("the loss's name")?,
                round.loss.settings.read("the loss's settings")?,
            )
        };
        let settings = serde_json::from_str(&settings).map_err(|e| Error::other(e.to_string()))?;
        let update = scheme.update(&crate::Round {
            round: round.round,
            rounds: round.rounds,
            seed: round.seed,
            embeddings: embeddings.as_ref(),
            age: Some(round.age).filter(|age| !age.is_nan()),
            ..crate::Round::new(labels, weights, &tensors, crate::LossInfo { name: &name, settings: &settings })
        })?;
        (sink.weights)(sink.context, update.weights.as_ptr(), update.weights.len());
        for (name, value) in &update.scalars {
            (sink.scalar)(sink.context, Str::new(name), *value);
        }
        for (name, values) in &update.columns {
            (sink.column)(sink.context, Str::new(name), values.as_ptr(), values.len());
        }
        Ok(())
    })
}

extern "C" fn weights_needs_embeddings(this: *const c_void, answer: *mut u32, error: ErrorSink) -> Status {
    shield(error, || {
        // SAFETY: the host passes an instance of a weight scheme and a valid output pointer.
        unsafe { *answer = u32::from(instance::<dyn crate::WeightScheme>(this).needs_embeddings()) };
        Ok(())
    })
}

extern "C" fn weights_is_uniform(this: *const c_void, answer: *mut u32, error: ErrorSink) -> Status {
    shield(error, || {
        // SAFETY: the host passes an instance of a weight scheme and a valid output pointer.
        unsafe { *answer = u32::from(instance::<dyn crate::WeightScheme>(this).is_uniform()) };
        Ok(())
    })
}

extern "C" fn weights_advice(
    this: *const c_void,
    data: *const DataFacts,
    loss: LossInfo,
    sink: AdviceSink,
    error: ErrorSink,
) -> Status {
    shield(error, || {
        // SAFETY: the host passes an instance of a weight scheme, valid facts and valid text.
        let (scheme, facts, name, settings) = unsafe {
            (
                instance::<dyn crate::WeightScheme>(this),
                facts(data),
                loss.name.read("the loss's name")?,
                loss.settings.read("the loss's settings")?,
            )
        };
        let settings = serde_json::from_str(&settings).map_err(|e| Error::other(e.to_string()))?;
        advise(scheme.advice(&facts, &crate::LossInfo { name: &name, settings: &settings }), sink);
        Ok(())
    })
}
