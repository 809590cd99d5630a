//! Instances of components.

use crate::call::call;
use crate::last_words::running;
use curricle_sdk::{ComponentKind, Result};
use std::ops::Deref;
use std::sync::Arc;

/// An instance of a component, shared by its clones.
///
/// The last clone destroys it. That runs code of the component too, so it is a call like any other: the component is
/// named if it ends the process, and the surroundings are restored.
#[derive(Debug)]
pub struct Held<T: ?Sized>(Arc<Instance<T>>);

#[derive(Debug)]
struct Instance<T: ?Sized> {
    kind: ComponentKind,
    name: String,
    /// `None` only while it is destroyed.
    component: Option<Box<T>>,
}

impl<T: ?Sized> Held<T> {
    /// Creates an instance.
    pub(crate) fn create(kind: ComponentKind, name: &str, create: impl FnOnce() -> Result<Box<T>>) -> Result<Self> {
        let component = Some(call(running(kind, name), &[], create)?);
        Ok(Self(Arc::new(Instance { kind, name: name.to_string(), component })))
    }
}

impl<T: ?Sized> Clone for Held<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0.component {
            Some(component) => component,
            None => unreachable!("it is destroyed with its last clone"),
        }
    }
}

impl<T: ?Sized> Drop for Instance<T> {
    fn drop(&mut self) {
        let (kind, name, component) = (self.kind, &self.name, self.component.take());
        let destroyed = call(running(kind, name), &[], || {
            drop(component);
            Ok(())
        });
        if let Err(error) = destroyed {
            tracing::warn!("when {kind} `{name}` was destroyed, it {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    static DESTROYED: AtomicUsize = AtomicUsize::new(0);

    /// Leaves gradient mode changed when it is destroyed.
    struct Careless;

    impl Drop for Careless {
        fn drop(&mut self) {
            DESTROYED.fetch_add(1, Relaxed);
            std::mem::forget(tch::no_grad_guard());
        }
    }

    #[test]
    fn the_last_clone_destroys_it_and_restores_the_surroundings() {
        let first = Held::create(ComponentKind::Loss, "careless", || Ok(Box::new(Careless))).unwrap();
        let second = first.clone();
        drop(first);
        assert_eq!(DESTROYED.load(Relaxed), 0);
        drop(second);
        assert_eq!(DESTROYED.load(Relaxed), 1);
        let x = tch::Tensor::ones([1], (tch::Kind::Float, tch::Device::Cpu)).set_requires_grad(true);
        assert!((x * 2.0).requires_grad());
    }
}
