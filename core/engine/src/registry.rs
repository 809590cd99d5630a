//! Which components there are.

use curricle_sdk::{Component, Error, Kind, Loss, Result, Sampler, WeightScheme, registered};
use serde_json::Value;

/// Where a component comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Linked into the program.
    BuiltIn,
}

/// A component and where it comes from.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its description record.
    pub component: Component,
    /// Where it comes from.
    pub origin: Origin,
}

/// All components a recipe can name, sorted by kind and name.
#[derive(Debug, Clone)]
pub struct Registry {
    entries: Vec<Entry>,
}

impl Registry {
    /// The components linked into the program.
    pub fn built_in() -> Self {
        let entries = registered().into_iter().map(|c| Entry { component: *c, origin: Origin::BuiltIn }).collect();
        Self { entries }
    }

    /// All components of a kind.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |e| e.component.kind == kind)
    }

    /// The component of that kind and name.
    pub fn find(&self, kind: Kind, name: &str) -> Option<&Entry> {
        self.of_kind(kind).find(|e| e.component.name == name)
    }

    /// Makes a loss from settings.
    pub fn loss(&self, name: &str, settings: &Value) -> Result<Box<dyn Loss>> {
        self.known(Kind::Loss, name)?.component.factory.loss(settings)
    }

    /// Makes a sampler from settings.
    pub fn sampler(&self, name: &str, settings: &Value) -> Result<Box<dyn Sampler>> {
        self.known(Kind::Sampler, name)?.component.factory.sampler(settings)
    }

    /// Makes a weight scheme from settings.
    pub fn weights(&self, name: &str, settings: &Value) -> Result<Box<dyn WeightScheme>> {
        self.known(Kind::Weights, name)?.component.factory.weights(settings)
    }

    fn known(&self, kind: Kind, name: &str) -> Result<&Entry> {
        self.find(kind, name).ok_or_else(|| {
            let names: Vec<_> = self.of_kind(kind).map(|e| e.component.name).collect();
            Error::other(format!("there is no {kind} of that name; there are: {}", names.join(", ")))
        })
    }
}
