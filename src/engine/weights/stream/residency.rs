//! Choice of the matrices that stay on the device if not all may: pure arithmetic.
//!
//! Streamed matrices are spread evenly, so that there is something to compute while each is fetched. Matrices that a
//! job uses once are streamed first: this costs no time in the steps.

/// A matrix, in the order in which the network was built.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResidencyCandidate {
    pub(super) bytes: u64,
    /// Used once, not in every step.
    pub(super) is_seldom: bool,
}

/// Selects the matrices of `all` to stream so that the others take at most `budget` bytes.
pub(super) fn streamed(all: &[ResidencyCandidate], budget: u64) -> Vec<bool> {
    let total: u64 = all.iter().map(|it| it.bytes).sum();
    let mut streams = vec![false; all.len()];
    let mut excess = total.saturating_sub(budget);
    for is_seldom in [true, false] {
        let class = (0..all.len()).filter(|&i| all[i].is_seldom == is_seldom);
        let class: Vec<usize> = class.collect();
        excess = excess.saturating_sub(spread(all, &class, excess, &mut streams));
    }
    streams
}

/// Lets at least `excess` bytes of a class stream, or all of it -> how many do.
fn spread(all: &[ResidencyCandidate], class: &[usize], excess: u64, streams: &mut [bool]) -> u64 {
    let total: u64 = class.iter().map(|&i| all[i].bytes).sum();
    let wanted = excess.min(total);
    if wanted == 0 {
        return 0;
    }
    let share = wanted as f64 / total as f64;
    let (mut due, mut done) = (0.0, 0);
    for &i in class {
        let bytes = all[i].bytes as f64;
        due += bytes * share;
        if bytes > 0.0 && due >= bytes / 2.0 {
            streams[i] = true;
            due -= bytes;
            done += all[i].bytes;
        }
    }
    while done < wanted {
        // The smallest that is enough, else the largest.
        let rest = class.iter().copied().filter(|&i| !streams[i]);
        let (enough, less): (Vec<usize>, Vec<usize>) =
            rest.partition(|&i| all[i].bytes >= wanted - done);
        let smallest = enough.into_iter().min_by_key(|&i| all[i].bytes);
        let next = smallest.or_else(|| less.into_iter().max_by_key(|&i| all[i].bytes));
        let Some(next) = next.filter(|&i| all[i].bytes > 0) else {
            break;
        };
        streams[next] = true;
        done += all[next].bytes;
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn often(bytes: u64) -> ResidencyCandidate {
        ResidencyCandidate {
            bytes,
            is_seldom: false,
        }
    }

    #[test]
    fn resident_bytes_stay_within_budget_and_nothing_streams_needlessly() {
        let mut seed = 7_u64;
        let mut random = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % most
        };
        for _ in 0..300 {
            let all: Vec<ResidencyCandidate> = (0..random(40))
                .map(|_| ResidencyCandidate {
                    bytes: random(1000),
                    is_seldom: random(4) == 0,
                })
                .collect();
            let total: u64 = all.iter().map(|it| it.bytes).sum();
            let largest = all.iter().map(|it| it.bytes).max().unwrap_or(0);
            for budget in [0, random(total + 1), total / 2, total.max(1) - 1, total] {
                let streams = streamed(&all, budget);
                let of = |wanted: bool| {
                    let chosen = all.iter().zip(&streams).filter(|(_, it)| **it == wanted);
                    chosen.map(|(it, _)| it.bytes).sum::<u64>()
                };
                assert!(of(false) <= budget);
                // Rounding may stream one more than is needed, in each of the two classes.
                assert!(of(true) <= (total - budget.min(total)) + 2 * largest);
                assert!(budget < total || of(true) == 0);
            }
        }
    }

    #[test]
    fn streamed_weights_are_spread_evenly_over_the_network() {
        let all = vec![often(100); 40];
        for (budget, most_in_a_row) in [(3000, 1), (2000, 1), (1000, 3)] {
            let streams = streamed(&all, budget);
            let runs = streams.split(|it| !*it).map(<[bool]>::len);
            assert_eq!(runs.max(), Some(most_in_a_row), "{budget}");
            let first_half = streams[..20].iter().filter(|it| **it).count();
            let all = streams.iter().filter(|it| **it).count();
            assert!((2 * first_half).abs_diff(all) <= 1);
        }
    }

    #[test]
    fn rarely_used_weights_are_streamed_before_those_of_every_step() {
        let mut all = vec![often(100); 8];
        for seldom in &mut all[2..5] {
            seldom.is_seldom = true;
        }
        let streams = streamed(&all, 500);
        assert_eq!(
            streams,
            all.iter().map(|it| it.is_seldom).collect::<Vec<_>>()
        );
        assert_eq!(streamed(&all, 400).iter().filter(|it| **it).count(), 4);
    }
}
