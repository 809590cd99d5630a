//! Balanced random draws from a pool that is reshuffled when it runs out.

use curricle_sdk::rand::Rng;
use curricle_sdk::rand::seq::SliceRandom;

/// A pool of items, drawn in random order and reshuffled when it runs out. At any time, the draw counts of any
/// two items differ by at most one.
#[derive(Debug)]
pub(crate) struct ShuffledPool<T> {
    cards: Vec<T>,
    next: usize,
}

impl<T: Copy + PartialEq> ShuffledPool<T> {
    /// A pool of these items, which the first draw shuffles.
    pub(crate) fn new(cards: Vec<T>) -> Self {
        let next = cards.len();
        Self { cards, next }
    }

    /// Draws `count` items; none if the pool is empty.
    ///
    /// Within one draw, too, the counts of any two items differ by at most one: if the pool runs out during a
    /// draw, the items already drawn go to the end of the reshuffled pool. A draw no larger than the pool
    /// therefore has no duplicates.
    pub(crate) fn hand(&mut self, count: usize, rng: &mut impl Rng) -> Vec<T> {
        let mut hand = Vec::with_capacity(count);
        while hand.len() < count && !self.cards.is_empty() {
            if self.next == self.cards.len() {
                self.cards.shuffle(rng);
                self.cards.sort_by_cached_key(|card| hand.iter().filter(|held| *held == card).count());
                self.next = 0;
            }
            let taken = (count - hand.len()).min(self.cards.len() - self.next);
            hand.extend_from_slice(&self.cards[self.next..self.next + taken]);
            self.next += taken;
        }
        hand
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curricle_sdk::rng::stream;
    use proptest::prelude::*;

    fn spread(cards: &[usize], size: usize) -> usize {
        let mut counts = vec![0; size];
        cards.iter().for_each(|card| counts[*card] += 1);
        counts.iter().max().unwrap() - counts.iter().min().unwrap()
    }

    proptest! {
        #[test]
        fn each_draw_and_all_draws_together_are_balanced(size in 1usize..12, hands in prop::collection::vec(1usize..20, 1..12)) {
            let mut pool = ShuffledPool::new((0..size).collect());
            let mut rng = stream(7, "deck", 0, 0);
            let mut drawn = Vec::new();
            for count in hands {
                let hand = pool.hand(count, &mut rng);
                prop_assert_eq!(hand.len(), count);
                prop_assert!(spread(&hand, size) <= 1, "{:?}", hand);
                drawn.extend(hand);
                prop_assert!(spread(&drawn, size) <= 1);
            }
        }
    }

    #[test]
    fn an_empty_pool_gives_an_empty_draw() {
        assert_eq!(ShuffledPool::<i64>::new(Vec::new()).hand(3, &mut stream(7, "deck", 0, 0)), Vec::<i64>::new());
    }
}
