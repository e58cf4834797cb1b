//! Ranks as threads, over Gloo on the loopback interface.

use std::rc::Rc;
use std::thread;

use super::*;

/// Results of `work` on each of `ranks` ranks that share it.
pub(crate) fn on_ranks<T: Send>(ranks: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    let open = OpenGroup::new("127.0.0.1", ranks, Device::Cpu).unwrap();
    let work = &work;
    let shared = |group: RankGroup| {
        let _shared = share_work(Some(Rc::new(group)));
        work()
    };
    thread::scope(|scope| {
        let others = (1..ranks).map(|rank| {
            let member = open.other(rank, None);
            scope.spawn(move || shared(RankGroup::join(&member, Device::Cpu).unwrap()))
        });
        let others: Vec<_> = others.collect();
        let first = shared(open.join(Device::Cpu).unwrap());
        let others = others.into_iter().map(|rank| rank.join().unwrap());
        std::iter::once(first).chain(others).collect()
    })
}

#[test]
fn ranks_share_tokens_and_heads_and_get_all_back_whatever_divides() {
    let numbers = |size: &[i64]| {
        let count: i64 = size.iter().product();
        Tensor::arange(count, (Kind::Float, Device::Cpu)).view(size)
    };
    for (ranks, batch, parts, heads, together) in [
        (1, 1, vec![3, 4], 2, 1),
        (2, 1, vec![3, 4], 2, 1),
        (2, 2, vec![1, 5], 3, 1),
        (3, 1, vec![2, 0, 7], 4, 2),
        (4, 2, vec![1, 5], 6, 2),
    ] {
        let tokens: i64 = parts.iter().sum();
        let whole = || numbers(&[batch, tokens, heads, 5]);
        let found = on_ranks(ranks, || {
            let shards = TokenShards::new(parts.clone());
            let own = shards.own(&whole(), 1);
            let of_all = shards.start_heads(&own, together).wait();
            let back = shards.own_tokens(&of_all, heads, together);
            assert!(back.equal(&own));
            assert_eq!(of_all.size()[1], tokens);
            (shards.gathered(&own.flatten(2, 3)), of_all.size()[2])
        });
        assert_eq!(found.iter().map(|(_, own)| own).sum::<i64>(), heads);
        for (found, _) in found {
            assert!(found.equal(&whole().flatten(2, 3)), "{ranks} ranks");
        }
    }
}

#[test]
fn a_sum_is_the_same_on_all_ranks() {
    let sums = on_ranks(3, || {
        let rank = current().map_or(0, |group| group.rank);
        sum_over_ranks(Tensor::from(rank as f32)).double_value(&[])
    });
    assert_eq!(sums, [3.0; 3]);
}

#[test]
fn two_halves_of_the_ranks_make_one_result_each() {
    for ranks in [1, 2, 3, 4] {
        let of = |value: f64| Some(Tensor::full([2], value, (Kind::Float, Device::Cpu)));
        let shared_by = || current().map_or(1, |group| group.ranks());
        let found = on_ranks(ranks, || {
            let with = |value: f64| of(value + shared_by() as f64);
            let (first, second) = both(|| with(10.0), || with(20.0)).unwrap();
            [first, second].map(|xs| xs.double_value(&[1]))
        });
        let sharing = if ranks % 2 == 0 { ranks / 2 } else { ranks } as f64;
        assert_eq!(found, vec![[10.0 + sharing, 20.0 + sharing]; ranks]);
    }
}

#[test]
fn fewer_tokens_than_ranks_are_whole_on_each() {
    let whole = on_ranks(3, || TokenShards::new([2, 1]).is_whole());
    assert_eq!(whole, [true; 3]);
}
