//! Text and arrays.

use crate::{Error, Result};

/// UTF-8 text without a terminator. Passed by value; it never changes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Str {
    /// First byte; may be null if `len` is 0.
    pub data: *const u8,
    /// Number of bytes.
    pub len: usize,
}

/// The longest name, summary or other line.
const LONGEST_LINE: usize = 4096;
/// Longer messages are cut.
const LONGEST_MESSAGE: usize = 1 << 16;
/// A longer length is taken for garbage, and nothing is read.
const ABSURD: usize = 1 << 24;

impl Str {
    /// Borrows text for a call across the boundary.
    pub const fn new(text: &str) -> Self {
        Self { data: text.as_ptr(), len: text.len() }
    }

    /// Copies a line of text. Invalid UTF-8 and an absurd length are errors that say what the text is for.
    ///
    /// # Safety
    /// `data` must point to `len` readable bytes, or `len` be 0 or more than 4096.
    pub unsafe fn read(self, what: &str) -> Result<String> {
        // SAFETY: the caller's obligation.
        unsafe { self.read_up_to(LONGEST_LINE, what) }
    }

    /// Copies text of up to `longest` bytes.
    ///
    /// # Safety
    /// As for [`Str::read`].
    pub unsafe fn read_up_to(self, longest: usize, what: &str) -> Result<String> {
        // SAFETY: the caller's obligation.
        let bytes = unsafe { slice(self.data, self.len, longest, what)? };
        String::from_utf8(bytes.to_vec()).map_err(|_| Error::other(format!("{what} is not valid UTF-8")))
    }

    /// Copies the start of a message, with replacement characters for invalid UTF-8. One of an absurd length is not
    /// read; the length takes its place.
    ///
    /// # Safety
    /// `data` must point to `len` readable bytes, or be null, or `len` be above 16777216.
    pub unsafe fn read_lossy(self) -> String {
        if self.len > ABSURD && !self.data.is_null() {
            return format!("(text with a length of {}, which cannot be)", self.len);
        }
        // SAFETY: the caller's obligation.
        let bytes = unsafe { slice(self.data, self.len.min(LONGEST_MESSAGE), LONGEST_MESSAGE, "") };
        String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
    }
}

/// An array of the other side, with at most `longest` elements; null is an array without elements.
///
/// # Errors
/// If it is longer, without reading it: its length is then taken for garbage.
///
/// # Safety
/// `data` must point to `len` readable elements that outlive `'a`, or be null, or `len` be 0 or too long.
pub unsafe fn slice<'a, T>(data: *const T, len: usize, longest: usize, what: &str) -> Result<&'a [T]> {
    if len > longest {
        return Err(Error::other(format!("{what} has a length of {len}; at most {longest} is possible")));
    }
    if len == 0 || data.is_null() {
        return Ok(&[]);
    }
    if !data.is_aligned() {
        return Err(Error::other(format!("{what} is not aligned")));
    }
    // SAFETY: not null and aligned; the caller guarantees the length and the lifetime.
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_lengths_are_errors_and_never_read() {
        let text = Str { data: b"x".as_ptr(), len: usize::MAX };
        // SAFETY: the length is over the limit.
        let error = unsafe { text.read("the name") }.unwrap_err().to_string();
        assert!(error.starts_with("the name has a length of 18446744073709551615"), "{error}");
        // SAFETY: as above.
        assert!(unsafe { text.read_lossy() }.contains("18446744073709551615"));
        // SAFETY: the length is over the limit.
        assert!(unsafe { slice(&raw const text, 9, 8, "a list") }.is_err());
    }

    #[test]
    fn null_is_empty() {
        // SAFETY: null is allowed.
        assert_eq!(unsafe { Str { data: std::ptr::null(), len: 3 }.read("x") }.unwrap(), "");
    }
}
