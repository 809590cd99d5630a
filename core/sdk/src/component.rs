//! Components: their description records, factories and registration.

use crate::{Error, Loss, Result, Sampler, WeightScheme};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::marker::PhantomData;

/// The kind of a component; also the name of its table in a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ComponentKind {
    /// A loss on batches of embeddings.
    Loss,
    /// Forms the batches of an epoch.
    Sampler,
    /// Weights the training samples.
    Weights,
}

impl ComponentKind {
    /// All kinds, in the order of listings.
    pub const ALL: [ComponentKind; 3] = [ComponentKind::Loss, ComponentKind::Sampler, ComponentKind::Weights];

    /// The name of the table in a recipe.
    pub fn as_str(self) -> &'static str {
        match self {
            ComponentKind::Loss => "loss",
            ComponentKind::Sampler => "sampler",
            ComponentKind::Weights => "weights",
        }
    }
}

impl fmt::Display for ComponentKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One registered component, built in or loaded.
#[derive(Clone, Copy)]
pub struct Component {
    /// Its kind.
    pub kind: ComponentKind,
    /// The name recipes use.
    pub name: &'static str,
    /// Version of the crate that defines it.
    pub version: &'static str,
    /// One line for listings.
    pub summary: &'static str,
    /// Creates it from settings.
    pub factory: &'static dyn Factory,
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} `{}` {}", self.kind, self.name, self.version)
    }
}

inventory::collect!(Component);

/// The components linked into this program, sorted by kind and name.
pub fn registered() -> Vec<&'static Component> {
    let mut all: Vec<_> = inventory::iter::<Component>.into_iter().collect();
    all.sort_by_key(|c| (c.kind, c.name));
    all
}

/// Creates components of one kind from settings that fit the schema.
pub trait Factory: Send + Sync {
    /// JSON Schema (draft-07) of the settings, with defaults and descriptions.
    fn schema(&self) -> Value;

    /// Creates a loss; an error for a factory of another kind.
    fn loss(&self, _settings: &Value) -> Result<Box<dyn Loss>> {
        Err(Error::other("is not a loss"))
    }

    /// Creates a sampler; an error for a factory of another kind.
    fn sampler(&self, _settings: &Value) -> Result<Box<dyn Sampler>> {
        Err(Error::other("is not a sampler"))
    }

    /// Creates a weight scheme; an error for a factory of another kind.
    fn weights(&self, _settings: &Value) -> Result<Box<dyn WeightScheme>> {
        Err(Error::other("is not a weight scheme"))
    }
}

/// A type whose fields are the settings of a component.
pub trait Settings: DeserializeOwned + JsonSchema {}
impl<T: DeserializeOwned + JsonSchema> Settings for T {}

fn schema_of<T: Settings>() -> Value {
    SchemaSettings::draft07().into_generator().into_root_schema_for::<T>().to_value()
}

fn parse<T: Settings>(settings: &Value) -> Result<T> {
    serde_json::from_value(settings.clone()).map_err(|e| Error::other(e.to_string()))
}

macro_rules! factory {
    ($factory:ident, $trait:ident, $make:ident, $what:literal) => {
        #[doc = concat!("Creates ", $what, " whose settings are the fields of `T`.")]
        pub struct $factory<T>(PhantomData<fn() -> T>);

        impl<T> $factory<T> {
            /// The factory; it has no state.
            #[allow(clippy::new_without_default, reason = "const, for the registration macros")]
            pub const fn new() -> Self {
                Self(PhantomData)
            }
        }

        impl<T: Settings + $trait + 'static> Factory for $factory<T> {
            fn schema(&self) -> Value {
                schema_of::<T>()
            }

            fn $make(&self, settings: &Value) -> Result<Box<dyn $trait>> {
                let component: T = parse(settings)?;
                component.check()?;
                Ok(Box::new(component))
            }
        }
    };
}

factory!(LossFactory, Loss, loss, "losses");
factory!(SamplerFactory, Sampler, sampler, "samplers");
factory!(WeightsFactory, WeightScheme, weights, "weight schemes");

/// Registers a loss: `register_loss!("name", Type, "one line for listings")`.
#[macro_export]
macro_rules! register_loss {
    ($name:literal, $type:ty, $summary:literal) => {
        $crate::register_component!(Loss, LossFactory, $name, $type, $summary);
    };
}

/// Registers a sampler: `register_sampler!("name", Type, "one line for listings")`.
#[macro_export]
macro_rules! register_sampler {
    ($name:literal, $type:ty, $summary:literal) => {
        $crate::register_component!(Sampler, SamplerFactory, $name, $type, $summary);
    };
}

/// Registers a weight scheme: `register_weights!("name", Type, "one line for listings")`.
#[macro_export]
macro_rules! register_weights {
    ($name:literal, $type:ty, $summary:literal) => {
        $crate::register_component!(Weights, WeightsFactory, $name, $type, $summary);
    };
}

/// What the three registration macros share.
#[doc(hidden)]
#[macro_export]
macro_rules! register_component {
    ($kind:ident, $factory:ident, $name:literal, $type:ty, $summary:literal) => {
        $crate::inventory::submit! {
            $crate::Component {
                kind: $crate::ComponentKind::$kind,
                name: $name,
                version: env!("CARGO_PKG_VERSION"),
                summary: $summary,
                factory: &$crate::$factory::<$type>::new(),
            }
        }
    };
}
