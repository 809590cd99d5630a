//! The built-in weight schemes, one file each.
//!
//! [`Uniform`] leaves all weights at 1, [`SelfPaced`] drops every sample that is harder than λ,
//! [`BalancedSelfPaced`] (BSPML) weights samples so that easy ones come first and the classes stay
//! balanced. [`Knn`] and [`Prism`] leave out samples whose label does not fit their neighbours or their
//! class, and [`Oracle`] those whose label is known to be wrong. The other modules are shared by these schemes.

pub mod balanced;
mod class_sums;
pub mod classes;
pub mod clean_share;
pub mod doubly_stochastic;
pub mod exact;
mod exchange;
pub mod knn;
pub mod oracle;
pub mod prism;
pub mod problem;
pub mod schedule;
pub mod self_paced;
pub mod solver;
pub mod target;
pub mod uniform;
pub mod xi;

pub use balanced::BalancedSelfPaced;
pub use knn::Knn;
pub use oracle::Oracle;
pub use prism::Prism;
pub use self_paced::SelfPaced;
pub use uniform::Uniform;
