//! The metrics of an evaluation.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A metric of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Fraction of queries with a sample of their class among the K nearest.
    Recall(usize),
    /// Fraction of a query's R nearest that are of its class, where R is the number of samples of that
    /// class among the references.
    RPrecision,
    /// Mean average precision at R.
    MapAtR,
    /// Normalised mutual information of k-means clusters and classes.
    Nmi,
    /// Adjusted mutual information: NMI corrected for chance.
    Ami,
    /// Sum of squared distances of the embeddings to their cluster centres.
    Inertia,
}

impl Metric {
    /// Its name in tables, curves and files, e.g. `recall@1`.
    pub fn name(self) -> String {
        match self {
            Metric::Recall(k) => format!("recall@{k}"),
            Metric::RPrecision => "r_precision".into(),
            Metric::MapAtR => "map@r".into(),
            Metric::Nmi => "nmi".into(),
            Metric::Ami => "ami".into(),
            Metric::Inertia => "inertia".into(),
        }
    }

    /// The metric of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let named = [Metric::RPrecision, Metric::MapAtR, Metric::Nmi, Metric::Ami, Metric::Inertia];
        let recall = || name.strip_prefix("recall@")?.parse().ok().map(Metric::Recall);
        named.into_iter().find(|metric| metric.name() == name).or_else(recall)
    }

    /// Its heading in tables, e.g. `R@1`.
    pub fn title(self) -> String {
        match self {
            Metric::Recall(k) => format!("R@{k}"),
            Metric::RPrecision => "R-precision".into(),
            Metric::MapAtR => "MAP@R".into(),
            Metric::Nmi => "NMI".into(),
            Metric::Ami => "AMI".into(),
            Metric::Inertia => "inertia".into(),
        }
    }

    /// Whether larger values are better.
    pub fn higher_is_better(self) -> bool {
        self != Metric::Inertia
    }

    /// Whether the value is a fraction, which tables show in percent.
    pub fn is_fraction(self) -> bool {
        self != Metric::Inertia
    }
}

/// All metrics of one evaluation, as fractions from 0 to 1 except for the inertia.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Recall@K by K.
    pub recall: BTreeMap<usize, f64>,
    /// R-precision, averaged over queries.
    pub r_precision: f64,
    /// MAP@R, averaged over queries.
    pub map_at_r: f64,
    /// Normalised mutual information, averaged over k-means restarts; absent if not requested.
    pub nmi: Option<f64>,
    /// Adjusted mutual information, likewise.
    pub ami: Option<f64>,
    /// Inertia of k-means, likewise.
    pub inertia: Option<f64>,
    /// Number of queries that were evaluated.
    pub queries: usize,
    /// Number of queries excluded because no other sample has their class.
    pub excluded: usize,
}

impl Metrics {
    /// Every measured metric with its value, in table order.
    pub fn values(&self) -> Vec<(Metric, f64)> {
        let recall = self.recall.iter().map(|(&k, &value)| (Metric::Recall(k), value));
        let ranking = [(Metric::RPrecision, self.r_precision), (Metric::MapAtR, self.map_at_r)];
        let clusters = [(Metric::Nmi, self.nmi), (Metric::Ami, self.ami), (Metric::Inertia, self.inertia)];
        let clusters = clusters.into_iter().filter_map(|(metric, value)| Some((metric, value?)));
        recall.chain(ranking).chain(clusters).collect()
    }

    /// The fractions by name, as they are logged: `recall@1`, …, `r_precision`, `map@r`, `nmi`,
    /// `ami`.
    pub fn scalars(&self) -> Vec<(String, f64)> {
        let fractions = self.values().into_iter().filter(|(metric, _)| metric.is_fraction());
        fractions.map(|(metric, value)| (metric.name(), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_finds_its_metric() {
        for metric in
            [Metric::Recall(32), Metric::RPrecision, Metric::MapAtR, Metric::Nmi, Metric::Ami, Metric::Inertia]
        {
            assert_eq!(Metric::from_name(&metric.name()), Some(metric));
        }
        assert_eq!((Metric::from_name("recall"), Metric::from_name("recall@x")), (None, None));
    }

    fn example() -> Metrics {
        Metrics {
            recall: [(10, 0.75), (1, 0.5)].into(),
            r_precision: 0.25,
            map_at_r: 0.125,
            nmi: Some(0.5),
            ami: None,
            inertia: Some(31.5),
            queries: 4,
            excluded: 1,
        }
    }

    #[test]
    fn scalars_are_fractions_in_table_order() {
        let names: Vec<_> = example().scalars().into_iter().map(|s| s.0).collect();
        assert_eq!(names, ["recall@1", "recall@10", "r_precision", "map@r", "nmi"]);
    }

    #[test]
    fn lower_is_better_only_for_inertia() {
        let worse_when_higher: Vec<_> =
            example().values().into_iter().filter(|v| !v.0.higher_is_better()).map(|v| v.0).collect();
        assert_eq!(worse_when_higher, [Metric::Inertia]);
    }

    #[test]
    fn metrics_round_trip_through_json() {
        let text = serde_json::to_string(&example()).unwrap();
        assert_eq!(serde_json::from_str::<Metrics>(&text).unwrap(), example());
    }
}
