//! Balanced random draws from a pool that is reshuffled when it runs out.

use curricle_sdk::rand::Rng;
use curricle_sdk::rand::seq::SliceRandom;

/// A pool of items, drawn in random order and reshuffled when it runs out. At any time, the draw counts of any
/// two items differ by at most one.
#[derive(Debug)]
pub(crate) struct ShuffledPool<T> {
    items: Vec<T>,
    next: usize,
}

impl<T: Copy + PartialEq> ShuffledPool<T> {
    /// A pool of these items, which the first draw shuffles.
    pub(crate) fn new(items: Vec<T>) -> Self {
        let next = items.len();
        Self { items, next }
    }

    /// Draws `count` items; none if the pool is empty.
    ///
    /// Within one draw, too, the counts of any two items differ by at most one: if the pool runs out during a
    /// draw, the items already drawn go to the end of the reshuffled pool. A draw no larger than the pool
    /// therefore has no duplicates.
    pub(crate) fn draw(&mut self, count: usize, rng: &mut impl Rng) -> Vec<T> {
        let mut draw = Vec::with_capacity(count);
        while draw.len() < count && !self.items.is_empty() {
            if self.next == self.items.len() {
                self.items.shuffle(rng);
                self.items.sort_by_cached_key(|item| draw.iter().filter(|drawn| *drawn == item).count());
                self.next = 0;
            }
            let taken = (count - draw.len()).min(self.items.len() - self.next);
            draw.extend_from_slice(&self.items[self.next..self.next + taken]);
            self.next += taken;
        }
        draw
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curricle_sdk::rng::stream;
    use proptest::prelude::*;

    fn spread(items: &[usize], size: usize) -> usize {
        let mut counts = vec![0; size];
        items.iter().for_each(|item| counts[*item] += 1);
        counts.iter().max().unwrap() - counts.iter().min().unwrap()
    }

    proptest! {
        #[test]
        fn each_draw_and_all_draws_together_are_balanced(size in 1usize..12, draws in prop::collection::vec(1usize..20, 1..12)) {
            let mut pool = ShuffledPool::new((0..size).collect());
            let mut rng = stream(7, "pool", 0, 0);
            let mut drawn = Vec::new();
            for count in draws {
                let draw = pool.draw(count, &mut rng);
                prop_assert_eq!(draw.len(), count);
                prop_assert!(spread(&draw, size) <= 1, "{:?}", draw);
                drawn.extend(draw);
                prop_assert!(spread(&drawn, size) <= 1);
            }
        }
    }

    #[test]
    fn an_empty_pool_gives_an_empty_draw() {
        assert_eq!(ShuffledPool::<i64>::new(Vec::new()).draw(3, &mut stream(7, "pool", 0, 0)), Vec::<i64>::new());
    }
}
