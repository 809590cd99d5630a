//! End-to-end tests: they run the built program as a user would.
//!
//! One test program, so that everything links once and tests of all files share the cores. Run one file with e.g.
//! `cargo test --release -p curricle --test e2e resume`.

#[path = "../support/mod.rs"]
mod support;

mod audit;
mod audit_page;
mod backbones;
mod bench;
mod cuda;
mod cuda_exact;
mod cuda_libraries;
mod cuda_steps;
mod doctor;
mod fakecuda;
mod first_steps;
mod hardware;
mod hostile_plugins;
mod images;
mod micro_batch;
mod mistakes;
mod plugin_docs;
mod plugin_memory;
mod plugin_versions;
mod plugins;
mod preflight;
mod python_faults;
mod python_losses;
mod recipes;
mod report;
mod resume;
mod run;
mod schema;
mod setup;
mod slurm;
mod starts;
mod wheel;
