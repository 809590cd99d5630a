//! A reader for the subset of Python's pickle format that state dictionaries use.
//!
//! Nothing in a file is ever executed: functions are recognised by name, those that rebuild tensors
//! are implemented here, and the result of any other function is an empty [`PickleValue::Object`].
//!
//! Tuples, lists and dictionaries are indices into one table, so that nesting of any depth and
//! recursive containers are never copied, and dropping them does not recurse.

mod machine;
mod objects;

pub(super) use machine::read;

use std::collections::HashMap;
use std::rc::Rc;

/// A value in a pickle; cheap to clone.
#[derive(Debug, Clone)]
pub(super) enum PickleValue {
    None,
    Int(i64),
    Text(Rc<str>),
    /// Index of its items.
    Tuple(usize),
    /// Index of its items.
    List(usize),
    /// Index of its alternating keys and values.
    Dict(usize),
    /// A function or class, such as `torch._utils._rebuild_tensor_v2`.
    Global(Rc<str>),
    Storage(Rc<Storage>),
    Tensor(Rc<Strided>),
    /// The result of an unknown function or class.
    Object(Rc<str>),
    /// An irrelevant number or bytes.
    Other,
}

/// The memory of one or more tensors, by its key in the file.
#[derive(Debug)]
pub(super) struct Storage {
    pub key: Rc<str>,
    /// `torch.FloatStorage` and the like.
    pub class: Rc<str>,
    /// Elements to skip.
    pub offset: i64,
}

/// A tensor as a view of a storage.
#[derive(Debug)]
pub(super) struct Strided {
    pub storage: Rc<Storage>,
    pub offset: i64,
    pub size: Vec<i64>,
    pub stride: Vec<i64>,
}

/// The value of a pickle, and every storage it refers to.
#[derive(Debug)]
pub(super) struct Pickle {
    pub root: PickleValue,
    pub storages: HashMap<Rc<str>, Rc<Storage>>,
    held: Vec<Vec<PickleValue>>,
}

impl Pickle {
    /// The items of the list at this index.
    pub(super) fn items(&self, list: usize) -> &[PickleValue] {
        &self.held[list]
    }

    /// The keys and values of the dictionary at this index.
    pub(super) fn entries(&self, dict: usize) -> &[[PickleValue; 2]] {
        self.held[dict].as_chunks().0
    }
}
