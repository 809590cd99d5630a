//! The machine that a pickle is a program for: a stack, marks and a memo.

use super::{Pickle, PickleValue, Storage};
use std::collections::HashMap;
use std::rc::Rc;

/// Values that may be copied per byte of a pickle; valid files copy each about once.
const COPIES: usize = 16;

/// Reads one pickle from the front of `bytes` and advances `bytes` past its end.
pub(in super::super) fn read(bytes: &mut &[u8]) -> Result<Pickle, String> {
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

pub(super) struct Machine<'b, 'd> {
    bytes: &'b mut &'d [u8],
    stack: Vec<PickleValue>,
    marks: Vec<usize>,
    memo: HashMap<usize, PickleValue>,
    storages: HashMap<Rc<str>, Rc<Storage>>,
    /// The items of tuples, lists and dictionaries.
    pub(super) held: Vec<Vec<PickleValue>>,
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
    pub(super) fn hold(&mut self, items: Vec<PickleValue>) -> usize {
        self.held.push(items);
        self.held.len() - 1
    }

    /// A few bytes can refer to one large value many times; copies of it would fill the memory.
    pub(super) fn spend(&mut self, copied: usize) -> Result<(), String> {
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
}

fn damaged() -> String {
    "is damaged".into()
}

/// Alternating keys and values; a key without a value is dropped.
fn pairs(mut items: Vec<PickleValue>) -> Vec<PickleValue> {
    items.truncate(items.len() / 2 * 2);
    items
}
