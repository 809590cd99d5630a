//! Helpers of the end-to-end tests.
