use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>, f64),
    Remove(Vec<u8>),
    RemoveRanks(usize, usize),
    /// Adds so many members, with scores that repeat.
    Fill(usize),
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0_usize..300).prop_map(|number| format!("m{number}").into_bytes()),
        (0_usize..4, 0_u8..40).prop_map(|(len, byte)| vec![byte; len]),
        (60_usize..70).prop_map(|len| vec![b'x'; len]),
    ]
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        (-5_i32..5).prop_map(f64::from),
        -1e6_f64..1e6,
        prop::sample::select(vec![f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, f64::MIN_POSITIVE, f64::MAX]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (member(), score()).prop_map(|(member, score)| Step::Insert(member, score)),
        4 => member().prop_map(Step::Remove),
        2 => (0_usize..400, 0_usize..300).prop_map(|(start, len)| Step::RemoveRanks(start, len)),
        1 => (1_usize..300).prop_map(Step::Fill),
    ]
}

type Model = BTreeMap<Vec<u8>, f64>;

fn ordered(model: &Model) -> Vec<(Vec<u8>, f64)> {
    let mut all: Vec<_> = model.iter().map(|(member, &score)| (member.clone(), score)).collect();
    all.sort_by(|(a, x), (b, y)| order(*x, a, *y, b));
    all
}

fn range(view: SortedSetView<'_>, ranks: Range<usize>, is_reverse: bool) -> Vec<(Vec<u8>, f64)> {
    let mut found = Vec::new();
    view.visit(ranks, is_reverse, |member, score| found.push((member.to_vec(), score)));
    found
}

fn check(set: &SortedSet, model: &Model) {
    let (view, all) = (set.view(), ordered(model));
    if let SortedSet::Table(table) = set {
        table.ranks.check();
    }
    assert_eq!((view.len(), view.is_empty()), (all.len(), all.is_empty()));
    assert_eq!(range(view, 0..usize::MAX, false), all);
    let (start, end) = (all.len() / 3, all.len() / 2);
    let reversed: Vec<_> = all[start..end].iter().rev().cloned().collect();
    assert_eq!(range(view, start..end, true), reversed);
    for (rank, (member, score)) in all.iter().enumerate() {
        assert_eq!(view.rank(member), Some(rank));
        assert_eq!(view.score(member), Some(*score));
    }
    for bound in [-3.0, 0.0, 7.5] {
        let below = all.iter().filter(|(_, score)| *score < bound).count();
        assert_eq!(view.partition_point(|score, _| score < bound), below);
    }
    let mut seen: Vec<_> = Vec::new();
    (0..all.len()).for_each(|position| view.nth(position, |member, _| seen.push(member.to_vec())));
    seen.sort_unstable();
    assert_eq!(seen, model.keys().cloned().collect::<Vec<_>>());
    assert_eq!((view.rank(b"absent"), view.score(b"absent")), (None, None));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_sorted_set_is_the_same_as_its_model(steps in prop::collection::vec(step(), 1..60)) {
        let (mut set, mut model) = (SortedSet::default(), Model::new());
        for step in steps {
            match step {
                Step::Insert(member, score) => {
                    prop_assert_eq!(set.insert(&member, score), model.insert(member, score));
                }
                Step::Remove(member) => prop_assert_eq!(set.remove(&member), model.remove(&member)),
                Step::RemoveRanks(start, len) => {
                    set.remove_ranks(start..start + len);
                    for (member, _) in ordered(&model).iter().skip(start).take(len) {
                        model.remove(member);
                    }
                }
                Step::Fill(len) => {
                    for number in 0..len {
                        let (member, score) = (format!("m{number}").into_bytes(), (number % 7) as f64);
                        prop_assert_eq!(set.insert(&member, score), model.insert(member, score));
                    }
                }
            }
            check(&set, &model);
        }
        let (is_object, mut written) = (set.pack().is_none(), Vec::new());
        set.write(&mut written);
        let again = SortedSet::parse(&written, is_object).unwrap();
        prop_assert_eq!(range(again.view(), 0..usize::MAX, false), range(set.view(), 0..usize::MAX, false));
    }

    #[test]
    fn a_scan_returns_every_member_that_stays(
        stays in 130_usize..400, others in 0_usize..1000, count in 1_usize..50, seed: u64,
    ) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let name = |kind: char, number: usize| format!("{kind}{number}").into_bytes();
        let mut all: Vec<_> = (0..stays).map(|n| name('s', n)).chain((0..others).map(|n| name('o', n))).collect();
        rng.shuffle(&mut all);
        let mut set = SortedSet::default();
        all.iter().for_each(|member| assert_eq!(set.insert(member, rng.f64()), None));
        let (mut seen, mut cursor) = (Model::new(), 0);
        loop {
            cursor = set.view().scan(cursor, count, |member, score| {
                seen.insert(member.to_vec(), score);
            });
            if cursor == 0 {
                break;
            }
            for _ in 0..rng.usize(..40) {
                set.remove(&name('o', rng.usize(..=others)));
                set.insert(&name('s', rng.usize(..stays)), rng.f64());
            }
        }
        for number in 0..stays {
            prop_assert!(seen.contains_key(&name('s', number)), "s{number} is missing");
        }
    }

    #[test]
    fn any_bytes_are_read_as_some_sorted_set(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let view = SortedSetView::Packed(&bytes);
        prop_assert_eq!(range(view, 0..usize::MAX, true).len(), view.len());
        let _ = (SortedSet::parse(&bytes, true), SortedSet::parse(&bytes, false));
    }
}

#[test]
fn members_in_order_keep_the_tree_balanced() {
    for is_reverse in [false, true] {
        let mut set = SortedSet::default();
        for number in 0..5000_u32 {
            let score = if is_reverse { -f64::from(number) } else { f64::from(number) };
            assert_eq!(set.insert(number.to_string().as_bytes(), score), None);
        }
        let SortedSet::Table(table) = &mut set else { panic!("a table") };
        table.ranks.check();
        for number in 0..4000_u32 {
            assert!(table.members.find(number.to_string().as_bytes()).map(|at| table.remove(at)).is_some());
        }
        table.ranks.check();
    }
}

#[test]
fn a_table_begins_behind_the_limits_of_the_packed_form() {
    let mut set = SortedSet::default();
    (0..128).for_each(|number| assert_eq!(set.insert(format!("{number}").as_bytes(), 1.0), None));
    assert_eq!(set.insert(b"5", 2.0), Some(1.0));
    assert!(matches!(set, SortedSet::Packed(_)));
    assert!(set.insert(b"128", 0.0).is_none() && matches!(set, SortedSet::Table(_)) && set.view().len() == 129);
    set.remove_ranks(1..129);
    assert!(matches!(set, SortedSet::Table(_)) && set.view().rank(b"128") == Some(0));

    let mut set = SortedSet::default();
    assert!(set.insert(&[b'x'; 64], 1.0).is_none() && matches!(set, SortedSet::Packed(_)));
    assert!(set.insert(&[b'x'; 65], 1.0).is_none() && matches!(set, SortedSet::Table(_)));
}

#[test]
fn a_table_counts_its_memory_and_gives_it_back() {
    let mut set = SortedSet::default();
    let name = |number: usize| format!("user:{number}").into_bytes();
    (0..10_000_u32).for_each(|number| assert_eq!(set.insert(&name(number as usize), f64::from(number)), None));
    let full = set.bytes();
    assert!((10_000 * 49..10_000 * 96).contains(&full), "{full}");
    set.remove_ranks(100..10_000);
    assert!(set.bytes() < full / 20, "{} of {full}", set.bytes());
}

#[test]
fn a_table_is_packed_if_its_members_are_few_and_short() {
    for (members, longest, is_packed) in [(0, 1, true), (128, 64, true), (129, 1, false), (2, 65, false)] {
        let mut set = SortedSet::Table(Box::default());
        for number in 0..members {
            assert_eq!(set.insert(format!("{number:0longest$}").as_bytes(), 1.0), None);
        }
        let before = range(set.view(), 0..usize::MAX, false);
        let set = set.packed_if_small();
        assert_eq!(matches!(set, SortedSet::Packed(_)), is_packed, "{members} of {longest}");
        assert_eq!(range(set.view(), 0..usize::MAX, false), before);
    }
}
