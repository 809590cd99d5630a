//! Balanced random draws from a shuffled_pool that is reshuffled when it runs out.

use curricle_sdk::rand::Rng;
use curricle_sdk::rand::seq::SliceRandom;

/// A shuffled_pool of cards, drawn from the top and reshuffled when it is empty. At any time, the draw counts
/// of any two cards differ by at most one.
#[derive(Debug)]
pub struct ShuffledPool<T> {
    cards: Vec<T>,
    next: usize,
}

impl<T: Copy + PartialEq> ShuffledPool<T> {
    /// A shuffled_pool of these cards, which the first draw shuffles.
    pub fn new(cards: Vec<T>) -> Self {
        let next = cards.len();
        Self { cards, next }
    }

    /// Draws a hand of `count` cards; an empty one if the shuffled_pool has no cards.
    ///
    /// The counts of any two cards differ by at most one within the hand, too: if the shuffled_pool runs out
    /// during a draw, the cards already in the hand go to the bottom of the reshuffled shuffled_pool. A hand no
    /// larger than the shuffled_pool therefore has no duplicates.
    pub fn hand(&mut self, count: usize, rng: &mut impl Rng) -> Vec<T> {
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
        fn hands_and_all_draws_are_balanced(size in 1usize..12, hands in prop::collection::vec(1usize..20, 1..12)) {
            let mut shuffled_pool = ShuffledPool::new((0..size).collect());
            let mut rng = stream(7, "deck", 0, 0);
            let mut drawn = Vec::new();
            for count in hands {
                let hand = shuffled_pool.hand(count, &mut rng);
                prop_assert_eq!(hand.len(), count);
                prop_assert!(spread(&hand, size) <= 1, "{:?}", hand);
                drawn.extend(hand);
                prop_assert!(spread(&drawn, size) <= 1);
            }
        }
    }

    #[test]
    fn an_empty_deck_gives_an_empty_hand() {
        assert_eq!(ShuffledPool::<i64>::new(Vec::new()).hand(3, &mut stream(7, "deck", 0, 0)), Vec::<i64>::new());
    }
}
