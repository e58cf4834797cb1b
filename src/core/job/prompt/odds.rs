//! Weighted draws from long lists, many times.
//!
//! The draw of a seed is defined by sums of floating-point numbers in order, including their rounding. Exact sums in a
//! tree give the result in a few steps, unless it is so near to a border that rounding decides; only then are the
//! rounded sums computed.

/// Weights are written in at most nine signs, so each is a whole number of this part of one.
const UNITS: f64 = 1e8;

pub(super) struct WeightedChoice {
    /// 0 for an option that was taken.
    weights: Vec<f64>,
    /// A Fenwick tree of the weights in whole units: at each place the sum of those that end there.
    sums: Vec<u128>,
    total: u128,
    num_possible: usize,
    /// Places and weights, to be given back.
    taken: Vec<(usize, f64)>,
}

impl WeightedChoice {
    pub fn from_weights(weights: Vec<f64>) -> Self {
        let mut sums: Vec<u128> = weights.iter().copied().map(units).collect();
        let total: u128 = sums.iter().sum();
        for place in 0..sums.len() {
            let above = place | (place + 1);
            if above < sums.len() {
                sums[above] += sums[place];
            }
        }
        Self {
            num_possible: weights.iter().filter(|weight| **weight > 0.0).count(),
            weights,
            sums,
            total,
            taken: Vec::new(),
        }
    }

    /// Number of options with a weight that are not taken.
    pub fn num_possible(&self) -> usize {
        self.num_possible
    }

    /// Index at `fraction`, from 0 up to but not 1, of the sum of all weights. Requires a possible option.
    pub fn place_at(&self, fraction: f64) -> usize {
        self.sure_place_at(fraction)
            .unwrap_or_else(|| self.summed_place_at(fraction))
    }

    /// `None` if it is so near to a border that the rounding of [`Self::summed_place_at`] decides.
    fn sure_place_at(&self, fraction: f64) -> Option<usize> {
        let total = self.total as f64;
        let wanted = fraction * total;
        let mut left = wanted as u128;
        let mut place = 0_usize;
        let largest_step = self.sums.len().checked_ilog2();
        let mut step = largest_step.map_or(0_usize, |log| 1 << log);
        while step > 0 {
            if let Some(&sum) = self.sums.get(place + step - 1)
                && sum <= left
            {
                left -= sum;
                place += step;
            }
            step /= 2;
        }
        let below = wanted as u128 - left;
        let above = below + units(*self.weights.get(place)?);
        // Every sum and difference of one after the other rounds by half an epsilon of the total at most; twice that,
        // and a few for the roundings here.
        let doubt = total * f64::EPSILON * 2.0 * (self.weights.len() + 8) as f64;
        let is_sure =
            (below == 0 || wanted - below as f64 > doubt) && above as f64 - wanted > doubt;
        is_sure.then_some(place)
    }

    /// As it has been since the first seed. What is taken has the weight 0, which changes no sum.
    fn summed_place_at(&self, fraction: f64) -> usize {
        let total: f64 = self.weights.iter().sum();
        let mut left = fraction * total;
        let reached = self.weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        let last = || self.weights.iter().rposition(|weight| *weight > 0.0);
        reached.or_else(last).unwrap_or(0)
    }

    /// Excludes this index from draws until [`Self::give_back`].
    pub fn take(&mut self, place: usize) {
        let weight = std::mem::take(&mut self.weights[place]);
        self.taken.push((place, weight));
        self.num_possible -= 1;
        let units = units(weight);
        self.total -= units;
        self.change(place, |sum| *sum -= units);
    }

    pub fn give_back(&mut self) {
        while let Some((place, weight)) = self.taken.pop() {
            self.weights[place] = weight;
            self.num_possible += 1;
            let units = units(weight);
            self.total += units;
            self.change(place, |sum| *sum += units);
        }
    }

    /// Changes all sums that the weight at this place is part of.
    fn change(&mut self, mut place: usize, change: impl Fn(&mut u128)) {
        while let Some(sum) = self.sums.get_mut(place) {
            change(sum);
            place |= place + 1;
        }
    }
}

fn units(weight: f64) -> u128 {
    (weight * UNITS).round() as u128
}

#[cfg(test)]
mod tests {
    use safelight_loops::hash::{STEP, mixed};

    use super::*;

    /// As it was drawn before there was a tree.
    fn drawn_from_a_list(left: &[(usize, f64)], fraction: f64) -> usize {
        let total: f64 = left.iter().map(|(_, weight)| weight).sum();
        let mut rest = fraction * total;
        let reached = left.iter().position(|(_, weight)| {
            rest -= weight;
            rest < 0.0
        });
        reached.unwrap_or(left.len() - 1)
    }

    fn fractions() -> impl Iterator<Item = f64> {
        let numbers = (1_u64..).map(|count| mixed(STEP.wrapping_mul(count)));
        numbers.map(|number| (number >> 11) as f64 / (1_u64 << 53) as f64)
    }

    #[test]
    fn weighted_choice_tree_draws_the_same_items_as_a_linear_list() {
        let tables: [&[f64]; 6] = [
            &[1.0],
            &[3.0, 0.0, 1.0],
            &[0.1, 0.2, 0.3, 0.7],
            &[999_999_999.0, 0.000_000_01, 0.3],
            &[0.000_000_01, 0.0],
            &[33.3, 0.333_333_3, 7.0, 0.0, 123_456.78],
        ];
        let mut fractions = fractions();
        for table in tables {
            for num_weights in [1, 2, 3, 7, 64, 65, 300] {
                let weights: Vec<f64> = table.iter().copied().cycle().take(num_weights).collect();
                let mut odds = WeightedChoice::from_weights(weights.clone());
                // The second round is drawn from what was given back.
                for _ in 0..2 {
                    let places = weights.iter().copied().enumerate();
                    let mut left: Vec<(usize, f64)> =
                        places.filter(|(_, weight)| *weight > 0.0).collect();
                    while !left.is_empty() {
                        assert_eq!(odds.num_possible(), left.len());
                        let fraction = fractions.next().unwrap();
                        let (expected, _) = left.remove(drawn_from_a_list(&left, fraction));
                        assert_eq!(odds.place_at(fraction), expected, "{weights:?}");
                        odds.take(expected);
                    }
                    odds.give_back();
                }
            }
        }
    }

    #[test]
    fn at_the_borders_of_weights_the_sum_one_after_the_other_decides() {
        let largest = 1.0 - f64::EPSILON / 2.0;
        for weight in [1.0, 0.1, 0.7, 0.000_000_01, 999_999_999.0] {
            for num_weights in [1, 2, 3, 10, 49, 300] {
                let odds = WeightedChoice::from_weights(vec![weight; num_weights]);
                let left: Vec<(usize, f64)> = (0..num_weights).map(|it| (it, weight)).collect();
                let borders = (0..num_weights).map(|it| it as f64 / num_weights as f64);
                let near = borders.flat_map(|at| [at.next_down().max(0.0), at, at.next_up()]);
                for fraction in near.chain([largest]) {
                    let expected = drawn_from_a_list(&left, fraction);
                    assert_eq!(odds.place_at(fraction), expected, "{weight} {fraction}");
                }
            }
        }
    }

    #[test]
    fn hardly_a_draw_from_very_many_needs_the_sum_one_after_the_other() {
        for weight in [1.0, 0.1, 0.000_000_01] {
            let odds = WeightedChoice::from_weights(vec![weight; 20_000]);
            let doubtful = fractions().take(2000);
            let doubtful = doubtful.filter(|it| odds.sure_place_at(*it).is_none());
            assert!(doubtful.count() < 20, "{weight}");
        }
    }
}
