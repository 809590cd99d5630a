//! A reader for the subset of Python's pickle format that state dictionaries use.
//!
//! Nothing in a file is ever executed: functions are recognised by name, those that rebuild tensors
//! are implemented here, and the result of any other function is an empty [`PickleValue::Object`].
//!
//! Tuples, lists and dictionaries are indices into one table, so that nesting of any depth and
//! recursive containers are never copied, and dropping them does not recurse.

use std::collections::HashMap;
use std::rc::Rc;

/// Values that may be copied per byte of a pickle; valid files copy each about once.
const COPIES: usize = 16;

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

/// Reads one pickle from the front of `bytes` and advances `bytes` past its end.
pub(super) fn read(bytes: &mut &[u8]) -> Result<Pickle, String> {
    let mut machine = Machine {
        left: bytes.len().saturating_mul(COPIES),
        bytes,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        storages: HashMap::new(),
        held: Vec::new(),
    };
    let root = machine.run()?;
    Ok(Pickle { root, storages: machine.storages, held: machine.held })
}

struct Machine<'b, 'd> {
    bytes: &'b mut &'d [u8],
    stack: Vec<PickleValue>,
    marks: Vec<usize>,
    memo: HashMap<usize, PickleValue>,
    storages: HashMap<Rc<str>, Rc<Storage>>,
    /// The items of tuples, lists and dictionaries.
    held: Vec<Vec<PickleValue>>,
    /// Number of values that may still be copied.
    left: usize,
}

impl<'d> Machine<'_, 'd> {
    fn run(&mut self) -> Result<PickleValue, String> {
        loop {
            let code = self.byte()?;
            match code {
                b'.' => return self.pop(),
                0x80 => drop(self.take(1)?),
                0x95 => drop(self.take(8)?),
                b'(' => self.marks.push(self.stack.len()),
                b'N' => self.push(PickleValue::None),
                0x88 => self.push(PickleValue::Int(1)),
                0x89 => self.push(PickleValue::Int(0)),
                b'}' => self.push_held(PickleValue::Dict, Vec::new()),
                b']' => self.push_held(PickleValue::List, Vec::new()),
                b')' => self.push_held(PickleValue::Tuple, Vec::new()),
                0x8f => self.push(PickleValue::Other),
                b'K' | b'M' | b'J' | 0x8a | 0x8b | b'I' | b'L' => self.integer(code)?,
                b'G' => {
                    self.take(8)?;
                    self.push(PickleValue::Other);
                }
                b'F' => {
                    self.line()?;
                    self.push(PickleValue::Other);
                }
                b'X' | 0x8c | 0x8d | b'U' | b'T' | b'V' | b'S' => self.text(code)?,
                b'C' | b'B' | 0x8e => self.raw(code)?,
                b't' => {
                    let items = self.since_mark()?;
                    self.push_held(PickleValue::Tuple, items);
                }
                0x85..=0x87 => {
                    let count = usize::from(code - 0x84);
                    let at = self.stack.len().checked_sub(count).ok_or("ends in the middle of a tuple")?;
                    let items = self.stack.split_off(at);
                    self.push_held(PickleValue::Tuple, items);
                }
                b'l' => {
                    let items = self.since_mark()?;
                    self.push_held(PickleValue::List, items);
                }
                b'd' => {
                    let items = self.since_mark()?;
                    self.push_held(PickleValue::Dict, pairs(items));
                }
                b'a' | b'e' | 0x90 => self.append(code)?,
                b's' | b'u' => self.set_items(code)?,
                b'0' => drop(self.pop()?),
                b'1' => drop(self.since_mark()?),
                b'2' => {
                    let top = self.top()?.clone();
                    self.push(top);
                }
                b'q' | b'r' | 0x94 | b'p' => self.remember(code)?,
                b'h' | b'j' | b'g' => self.recall(code)?,
                b'c' => {
                    let (module, name) = (self.line()?, self.line()?);
                    self.push(PickleValue::Global(format!("{module}.{name}").into()));
                }
                0x93 => {
                    let (name, module) = (self.pop()?, self.pop()?);
                    let (PickleValue::Text(module), PickleValue::Text(name)) = (module, name) else {
                        return Err("names a class by something other than strings".into());
                    };
                    self.spend(module.len() + name.len())?;
                    self.push(PickleValue::Global(format!("{module}.{name}").into()));
                }
                b'R' | 0x81 => {
                    let (arguments, function) = (self.pop()?, self.pop()?);
                    let made = self.called(&function, &arguments)?;
                    self.push(made);
                }
                0x92 => {
                    let (_, arguments, class) = (self.pop()?, self.pop()?, self.pop()?);
                    let made = self.called(&class, &arguments)?;
                    self.push(made);
                }
                // The state of an object; that of a dictionary (`_metadata`) is irrelevant.
                b'b' => drop(self.pop()?),
                b'Q' => {
                    let id = self.pop()?;
                    let storage = Rc::new(self.storage(&id)?);
                    self.storages.insert(storage.key.clone(), storage.clone());
                    self.push(PickleValue::Storage(storage));
                }
                other => {
                    return Err(format!("has the pickle opcode {other:#04x}, which state dictionaries do not use"));
                }
            }
        }
    }

    fn push(&mut self, value: PickleValue) {
        self.stack.push(value);
    }

    fn push_held(&mut self, container: fn(usize) -> PickleValue, items: Vec<PickleValue>) {
        let value = container(self.hold(items));
        self.push(value);
    }

    /// Stores items and returns their index.
    fn hold(&mut self, items: Vec<PickleValue>) -> usize {
        self.held.push(items);
        self.held.len() - 1
    }

    /// A few bytes can refer to one large value many times; copies of it would fill the memory.
    fn spend(&mut self, copied: usize) -> Result<(), String> {
        self.left =
            self.left.checked_sub(copied).ok_or("copies shared values more often than state dictionaries do")?;
        Ok(())
    }

    fn pop(&mut self) -> Result<PickleValue, String> {
        self.stack.pop().ok_or_else(damaged)
    }

    fn top(&self) -> Result<&PickleValue, String> {
        self.stack.last().ok_or_else(damaged)
    }

    fn since_mark(&mut self) -> Result<Vec<PickleValue>, String> {
        let mark = self.marks.pop().filter(|mark| *mark <= self.stack.len()).ok_or_else(damaged)?;
        Ok(self.stack.split_off(mark))
    }

    fn take(&mut self, count: usize) -> Result<&'d [u8], String> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or("ends too early")?;
        *self.bytes = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    /// A little-endian length of `width` bytes.
    fn length(&mut self, width: usize) -> Result<usize, String> {
        let number = self.take(width)?.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        usize::try_from(number).map_err(|_| damaged())
    }

    fn line(&mut self) -> Result<String, String> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n').ok_or("ends too early")?;
        let line = self.take(end)?;
        self.take(1)?;
        Ok(String::from_utf8_lossy(line).into_owned())
    }

    fn integer(&mut self, code: u8) -> Result<(), String> {
        let number = match code {
            b'K' => Some(i64::from(self.byte()?)),
            b'M' => Some(self.length(2)? as i64),
            b'J' => Some(i64::from(self.length(4)? as u32 as i32)),
            b'I' | b'L' => match self.line()?.trim_end_matches('L') {
                "00" => Some(0),
                "01" => Some(1),
                text => text.parse().ok(),
            },
            _ => {
                let width = self.length(if code == 0x8a { 1 } else { 4 })?;
                let bytes = self.take(width)?;
                // Two's complement of any length; sizes and offsets have at most 8 bytes.
                let sign = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { -1i64 } else { 0 };
                (width <= 8).then(|| bytes.iter().rev().fold(sign, |number, byte| number << 8 | i64::from(*byte)))
            }
        };
        self.push(number.map_or(PickleValue::Other, PickleValue::Int));
        Ok(())
    }

    fn text(&mut self, code: u8) -> Result<(), String> {
        let text = match code {
            b'V' => self.line()?,
            b'S' => self.line()?.trim_matches(['\'', '"']).to_string(),
            _ => {
                let width = match code {
                    0x8c | b'U' => 1,
                    0x8d => 8,
                    _ => 4,
                };
                let length = self.length(width)?;
                String::from_utf8_lossy(self.take(length)?).into_owned()
            }
        };
        self.push(PickleValue::Text(text.into()));
        Ok(())
    }

    fn raw(&mut self, code: u8) -> Result<(), String> {
        let length = self.length(match code {
            b'C' => 1,
            b'B' => 4,
            _ => 8,
        })?;
        self.take(length)?;
        self.push(PickleValue::Other);
        Ok(())
    }

    fn append(&mut self, code: u8) -> Result<(), String> {
        let items = if code == b'a' { vec![self.pop()?] } else { self.since_mark()? };
        if let PickleValue::List(list) = *self.top()? {
            self.held[list].extend(items);
        }
        Ok(())
    }

    fn set_items(&mut self, code: u8) -> Result<(), String> {
        let items = if code == b's' {
            let (value, key) = (self.pop()?, self.pop()?);
            vec![key, value]
        } else {
            self.since_mark()?
        };
        if let PickleValue::Dict(dict) = *self.top()? {
            self.held[dict].extend(pairs(items));
        }
        Ok(())
    }

    fn remember(&mut self, code: u8) -> Result<(), String> {
        let slot = match code {
            b'q' => self.length(1)?,
            b'r' => self.length(4)?,
            0x94 => self.memo.len(),
            _ => self.line()?.parse().map_err(|_| damaged())?,
        };
        let top = self.top()?.clone();
        self.memo.insert(slot, top);
        Ok(())
    }

    fn recall(&mut self, code: u8) -> Result<(), String> {
        let slot = match code {
            b'h' => self.length(1)?,
            b'j' => self.length(4)?,
            _ => self.line()?.parse().map_err(|_| damaged())?,
        };
        let value = self.memo.get(&slot).cloned().ok_or_else(damaged)?;
        self.push(value);
        Ok(())
    }

    /// The result of calling a function.
    fn called(&mut self, function: &PickleValue, arguments: &PickleValue) -> Result<PickleValue, String> {
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
    fn storage(&self, id: &PickleValue) -> Result<Storage, String> {
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

fn damaged() -> String {
    "is damaged".into()
}

/// Alternating keys and values; a key without a value is dropped.
fn pairs(mut items: Vec<PickleValue>) -> Vec<PickleValue> {
    items.truncate(items.len() / 2 * 2);
    items
}
