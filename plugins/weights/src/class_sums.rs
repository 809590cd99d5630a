//! Sums over classes that have the same bits in every run.

use tch::{Device, Tensor};

/// The sum of the rows `[N, …]` of each class, `[C, …]`; `ids` `[N]` is the class of each row.
///
/// Rows are added in the same order every time. On the CPU that is what `index_add_` does, while the threads of
/// `index_put_` add in f32 as they come; on a GPU it is the other way round.
pub(crate) fn class_sums(rows: &Tensor, ids: &Tensor, classes: i64) -> Tensor {
    let mut shape = rows.size();
    shape[0] = classes;
    let mut sums = Tensor::zeros(&shape, (rows.kind(), rows.device()));
    match rows.device() {
        Device::Cpu => sums.index_add_(0, ids, rows),
        _ => sums.index_put_(&[Some(ids)], rows, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Kind;

    #[test]
    fn sums_have_the_same_bits_every_time() {
        curricle_torch::seed(1).unwrap();
        // Enough values for libtorch to share among its threads.
        let rows = Tensor::randn([20_000, 16], (Kind::Float, Device::Cpu));
        let ids = Tensor::arange(20_000, (Kind::Int64, Device::Cpu)).remainder(3);
        let threads = tch::get_num_threads();
        tch::set_num_threads(4);
        let first = class_sums(&rows, &ids, 4);
        let same = (0..10).all(|_| class_sums(&rows, &ids, 4) == first);
        tch::set_num_threads(threads);
        assert!(same);
        assert_eq!(first.get(3), Tensor::zeros([16], (Kind::Float, Device::Cpu)));
        let exact = rows.slice(0, 1, None, 3).sum_dim_intlist([0i64].as_slice(), false, Kind::Double);
        assert!((first.get(1) - exact).abs().max().double_value(&[]) < 1e-2);
    }
}
