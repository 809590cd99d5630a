//! The part of Python's pickle format that state dictionaries are written in.
//!
//! Nothing of a file is ever executed: functions are recognised by name, those that put tensors
//! together are understood, and whatever another one would have made becomes [`Value::Object`],
//! which holds nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Something a pickle holds.
#[derive(Debug, Clone)]
pub(super) enum Value {
    None,
    Int(i64),
    Text(String),
    Tuple(Vec<Value>),
    List(Rc<RefCell<Vec<Value>>>),
    Dict(Rc<RefCell<Vec<(Value, Value)>>>),
    /// A function or class, such as `torch._utils._rebuild_tensor_v2`.
    Global(Rc<str>),
    Storage(Storage),
    Tensor(Rc<Strided>),
    /// What a function or class that is not known here would have made.
    Object(Rc<str>),
    /// A number or bytes of no interest.
    Other,
}

/// The memory of one or more tensors, by its key in the file.
#[derive(Debug, Clone)]
pub(super) struct Storage {
    pub key: String,
    /// `FloatStorage` and the like.
    pub class: Rc<str>,
    /// Elements to skip.
    pub offset: i64,
}

/// A tensor as a view of a storage.
#[derive(Debug)]
pub(super) struct Strided {
    pub storage: Storage,
    pub offset: i64,
    pub size: Vec<i64>,
    pub stride: Vec<i64>,
}

/// What a pickle holds, and every storage it refers to.
#[derive(Debug)]
pub(super) struct Pickle {
    pub root: Value,
    pub storages: HashMap<String, Storage>,
}

/// Reads one pickle from the front of `bytes`; `bytes` is left after its end.
pub(super) fn read(bytes: &mut &[u8]) -> Result<Pickle, String> {
    let mut machine =
        Machine { bytes, stack: Vec::new(), marks: Vec::new(), memo: HashMap::new(), storages: HashMap::new() };
    let root = machine.run()?;
    Ok(Pickle { root, storages: machine.storages })
}

struct Machine<'b, 'd> {
    bytes: &'b mut &'d [u8],
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: HashMap<usize, Value>,
    storages: HashMap<String, Storage>,
}

impl<'d> Machine<'_, 'd> {
    fn run(&mut self) -> Result<Value, String> {
        loop {
            let code = self.byte()?;
            match code {
                b'.' => return self.pop(),
                0x80 => drop(self.take(1)?),
                0x95 => drop(self.take(8)?),
                b'(' => self.marks.push(self.stack.len()),
                b'N' => self.push(Value::None),
                0x88 => self.push(Value::Int(1)),
                0x89 => self.push(Value::Int(0)),
                b'}' => self.push(Value::Dict(Rc::default())),
                b']' => self.push(Value::List(Rc::default())),
                b')' => self.push(Value::Tuple(Vec::new())),
                0x8f => self.push(Value::Other),
                b'K' | b'M' | b'J' | 0x8a | 0x8b | b'I' | b'L' => self.integer(code)?,
                b'G' => {
                    self.take(8)?;
                    self.push(Value::Other);
                }
                b'F' => {
                    self.line()?;
                    self.push(Value::Other);
                }
                b'X' | 0x8c | 0x8d | b'U' | b'T' | b'V' | b'S' => self.text(code)?,
                b'C' | b'B' | 0x8e => self.raw(code)?,
                b't' => {
                    let items = self.since_mark()?;
                    self.push(Value::Tuple(items));
                }
                0x85..=0x87 => {
                    let count = usize::from(code - 0x84);
                    let at = self.stack.len().checked_sub(count).ok_or("ends in the middle of a tuple")?;
                    let items = self.stack.split_off(at);
                    self.push(Value::Tuple(items));
                }
                b'l' => {
                    let items = self.since_mark()?;
                    self.push(Value::List(Rc::new(RefCell::new(items))));
                }
                b'd' => {
                    let items = self.since_mark()?;
                    self.push(Value::Dict(Rc::new(RefCell::new(pairs(items)))));
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
                    self.push(Value::Global(format!("{module}.{name}").into()));
                }
                0x93 => {
                    let (name, module) = (self.pop()?, self.pop()?);
                    let (Value::Text(module), Value::Text(name)) = (module, name) else {
                        return Err("names a class by something else than texts".into());
                    };
                    self.push(Value::Global(format!("{module}.{name}").into()));
                }
                b'R' | 0x81 => {
                    let (arguments, function) = (self.pop()?, self.pop()?);
                    self.push(called(&function, arguments));
                }
                0x92 => {
                    let (_, arguments, class) = (self.pop()?, self.pop()?, self.pop()?);
                    self.push(called(&class, arguments));
                }
                // The state of an object; a dictionary's own (`_metadata`) is of no interest.
                b'b' => drop(self.pop()?),
                b'Q' => {
                    let id = self.pop()?;
                    let storage = storage(id)?;
                    self.storages.insert(storage.key.clone(), storage.clone());
                    self.push(Value::Storage(storage));
                }
                other => return Err(format!("has the instruction {other:#04x}, which state dictionaries never have")),
            }
        }
    }

    fn push(&mut self, value: Value) {
        self.stack.push(value);
    }

    fn pop(&mut self) -> Result<Value, String> {
        self.stack.pop().ok_or_else(damaged)
    }

    fn top(&self) -> Result<&Value, String> {
        self.stack.last().ok_or_else(damaged)
    }

    fn since_mark(&mut self) -> Result<Vec<Value>, String> {
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

    /// A little-endian length of so many bytes.
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
                // Two's complement of any length; longer ones are no sizes or offsets.
                let sign = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { -1i64 } else { 0 };
                (width <= 8).then(|| bytes.iter().rev().fold(sign, |number, byte| number << 8 | i64::from(*byte)))
            }
        };
        self.push(number.map_or(Value::Other, Value::Int));
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
        self.push(Value::Text(text));
        Ok(())
    }

    fn raw(&mut self, code: u8) -> Result<(), String> {
        let length = self.length(match code {
            b'C' => 1,
            b'B' => 4,
            _ => 8,
        })?;
        self.take(length)?;
        self.push(Value::Other);
        Ok(())
    }

    fn append(&mut self, code: u8) -> Result<(), String> {
        let items = if code == b'a' { vec![self.pop()?] } else { self.since_mark()? };
        if let Value::List(list) = self.top()? {
            list.borrow_mut().extend(items);
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
        if let Value::Dict(dict) = self.top()? {
            dict.borrow_mut().extend(pairs(items));
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
}

fn damaged() -> String {
    "is damaged".into()
}

fn pairs(items: Vec<Value>) -> Vec<(Value, Value)> {
    let mut items = items.into_iter();
    std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
}

/// What a function would have made of its arguments.
fn called(function: &Value, arguments: Value) -> Value {
    let Value::Global(name) = function else { return Value::Other };
    let Value::Tuple(mut arguments) = arguments else { return Value::Object(name.clone()) };
    match (&**name, arguments.as_mut_slice()) {
        ("collections.OrderedDict" | "builtins.dict" | "__builtin__.dict", []) => Value::Dict(Rc::default()),
        ("collections.defaultdict", _) => Value::Dict(Rc::default()),
        // As Python 2 wrote them: a list of pairs.
        ("collections.OrderedDict", [Value::List(list)]) => {
            let pair = |item: &Value| match item {
                Value::List(pair) => Some((pair.borrow().first()?.clone(), pair.borrow().get(1)?.clone())),
                Value::Tuple(pair) => Some((pair.first()?.clone(), pair.get(1)?.clone())),
                _ => None,
            };
            let entries = list.borrow().iter().filter_map(pair).collect();
            Value::Dict(Rc::new(RefCell::new(entries)))
        }
        (
            "torch._utils._rebuild_tensor_v2" | "torch._utils._rebuild_tensor",
            [Value::Storage(storage), Value::Int(offset), size, stride, ..],
        ) => match (numbers(size), numbers(stride)) {
            (Some(size), Some(stride)) => {
                let storage = storage.clone();
                Value::Tensor(Rc::new(Strided { storage, offset: *offset, size, stride }))
            }
            _ => Value::Object(name.clone()),
        },
        ("torch._utils._rebuild_parameter" | "torch.nn.parameter.Parameter", [data, ..]) => data.clone(),
        ("torch.Size", [size]) => size.clone(),
        _ => Value::Object(name.clone()),
    }
}

fn numbers(value: &Value) -> Option<Vec<i64>> {
    let number = |item: &Value| if let Value::Int(number) = item { Some(*number) } else { None };
    match value {
        Value::Tuple(items) => items.iter().map(number).collect(),
        Value::List(items) => items.borrow().iter().map(number).collect(),
        _ => None,
    }
}

/// `("storage", class, key, device, elements[, (view key, offset, elements)])`.
fn storage(id: Value) -> Result<Storage, String> {
    let Value::Tuple(parts) = id else { return Err("refers to something outside that is no storage".into()) };
    let [Value::Text(kind), Value::Global(class), Value::Text(key), ..] = parts.as_slice() else {
        return Err("refers to a storage in an unknown way".into());
    };
    if kind != "storage" {
        return Err(format!("refers to a `{kind}` outside of it"));
    }
    let offset = match parts.get(5) {
        Some(Value::Tuple(view)) => match view.get(1) {
            Some(Value::Int(offset)) => *offset,
            _ => return Err("refers to a view of a storage in an unknown way".into()),
        },
        _ => 0,
    };
    let class = class.rsplit('.').next().unwrap_or(class).into();
    Ok(Storage { key: key.clone(), class, offset })
}
