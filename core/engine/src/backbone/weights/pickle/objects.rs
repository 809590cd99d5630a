//! The functions that rebuild tensors and their storages, recognised by name.

use super::machine::Machine;
use super::{PickleValue, Storage, Strided};
use std::rc::Rc;

impl Machine<'_, '_> {
    /// The result of calling a function.
    pub(super) fn called(&mut self, function: &PickleValue, arguments: &PickleValue) -> Result<PickleValue, String> {
        let PickleValue::Global(name) = function else { return Ok(PickleValue::Other) };
        let object = PickleValue::Object(name.clone());
        let PickleValue::Tuple(arguments) = arguments else { return Ok(object) };
        Ok(match (&**name, self.held[*arguments].as_slice()) {
            ("collections.OrderedDict" | "builtins.dict" | "__builtin__.dict", []) | ("collections.defaultdict", _) => {
                PickleValue::Dict(self.hold(Vec::new()))
            }
            // Python 2 writes a list of pairs.
            ("collections.OrderedDict", [PickleValue::List(list)]) => {
                let pair = |item: &PickleValue| match item {
                    PickleValue::List(pair) | PickleValue::Tuple(pair) => self.held[*pair].first_chunk::<2>().cloned(),
                    _ => None,
                };
                let entries: Vec<PickleValue> = self.held[*list].iter().filter_map(pair).flatten().collect();
                self.spend(entries.len())?;
                PickleValue::Dict(self.hold(entries))
            }
            (
                "torch._utils._rebuild_tensor_v2" | "torch._utils._rebuild_tensor",
                [PickleValue::Storage(storage), PickleValue::Int(offset), size, stride, ..],
            ) => match (self.numbers(size), self.numbers(stride)) {
                (Some(size), Some(stride)) => {
                    let tensor = Strided { storage: storage.clone(), offset: *offset, size, stride };
                    self.spend(tensor.size.len() + tensor.stride.len())?;
                    PickleValue::Tensor(Rc::new(tensor))
                }
                _ => object,
            },
            ("torch._utils._rebuild_parameter" | "torch.nn.parameter.Parameter", [data, ..]) => data.clone(),
            ("torch.Size", [size]) => size.clone(),
            _ => object,
        })
    }

    fn numbers(&self, value: &PickleValue) -> Option<Vec<i64>> {
        let number = |item: &PickleValue| if let PickleValue::Int(number) = item { Some(*number) } else { None };
        match value {
            PickleValue::Tuple(items) | PickleValue::List(items) => self.held[*items].iter().map(number).collect(),
            _ => None,
        }
    }

    /// `("storage", class, key, device, elements[, (view key, offset, elements)])`.
    pub(super) fn storage(&self, id: &PickleValue) -> Result<Storage, String> {
        let PickleValue::Tuple(parts) = id else { return Err("refers to external data that is not a storage".into()) };
        let parts = self.held[*parts].as_slice();
        let [PickleValue::Text(kind), PickleValue::Global(class), PickleValue::Text(key), ..] = parts else {
            return Err("refers to a storage in an unknown way".into());
        };
        if &**kind != "storage" {
            return Err(format!("refers to an external `{kind}`"));
        }
        let offset = match parts.get(5) {
            Some(PickleValue::Tuple(view)) => match self.held[*view].get(1) {
                Some(PickleValue::Int(offset)) => *offset,
                _ => return Err("refers to a view of a storage in an unknown way".into()),
            },
            _ => 0,
        };
        Ok(Storage { key: key.clone(), class: class.clone(), offset })
    }
}
