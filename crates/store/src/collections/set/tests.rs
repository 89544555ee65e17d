use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>),
    Remove(Vec<u8>),
    /// Removes all members but so many.
    Keep(usize),
    /// Adds so many integers from a start on.
    Fill(i64, usize),
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (-40_i64..40).prop_map(|number| number.to_string().into_bytes()),
        any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        (0_usize..4, 0_u8..40).prop_map(|(len, byte)| vec![byte; len]),
        (60_usize..70).prop_map(|len| vec![b'x'; len]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => member().prop_map(Step::Insert),
        4 => member().prop_map(Step::Remove),
        1 => (0_usize..6).prop_map(Step::Keep),
        1 => (-40_i64..1 << 40, 1_usize..600).prop_map(|(start, len)| Step::Fill(start, len)),
    ]
}

fn members(set: &Set) -> BTreeSet<Vec<u8>> {
    let all: Vec<Vec<u8>> = set.view().iter().map(|member| member.to_bytes().into_owned()).collect();
    let distinct: BTreeSet<_> = all.iter().cloned().collect();
    assert_eq!(all.len(), distinct.len(), "a member is there twice");
    distinct
}

fn remove_all_but(set: &mut Set, model: &mut BTreeSet<Vec<u8>>, len: usize) {
    while model.len() > len {
        let member = model.pop_first().unwrap();
        assert!(set.remove(&member));
    }
}

fn check(set: &Set, model: &BTreeSet<Vec<u8>>) {
    assert_eq!(&members(set), model);
    let view = set.view();
    assert_eq!((view.len(), view.is_empty()), (model.len(), model.is_empty()));
    let nths: BTreeSet<Vec<u8>> =
        (0..model.len()).filter_map(|nth| view.nth(nth)).map(|nth| nth.to_bytes().into_owned()).collect();
    assert_eq!(&nths, model);
    assert!(view.nth(model.len()).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_set_is_the_same_as_its_model(steps in prop::collection::vec(step(), 1..60)) {
        let (mut set, mut model) = (Set::default(), BTreeSet::new());
        for step in steps {
            match step {
                Step::Insert(member) => prop_assert_eq!(set.insert(&member), model.insert(member.clone())),
                Step::Remove(member) => prop_assert_eq!(set.remove(&member), model.remove(&member)),
                Step::Keep(len) => remove_all_but(&mut set, &mut model, len),
                Step::Fill(start, len) => {
                    for number in start..start + len as i64 {
                        let text = number.to_string().into_bytes();
                        prop_assert_eq!(set.insert(&text), model.insert(text.clone()));
                    }
                }
            }
            for number in -41..41_i64 {
                let text = number.to_string().into_bytes();
                prop_assert_eq!(set.view().contains(&text), model.contains(&text));
            }
            check(&set, &model);
        }
        let (is_object, mut written) = (set.pack().is_none(), Vec::new());
        set.write(&mut written);
        let again = Set::parse(&written, is_object).unwrap();
        prop_assert_eq!(members(&again), members(&set));
        prop_assert_eq!(again.view().is_integers(), set.view().is_integers());
        prop_assert!(Set::parse(&written, !is_object).is_none());
    }

    /// Members are removed and added between the calls, so that positions and memory change under the cursor.
    #[test]
    fn a_scan_returns_every_member_that_stays(
        stays in 130_usize..400, others in 0_usize..2000, count in 1_usize..50, seed: u64,
    ) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let name = |kind: char, number: usize| format!("{kind}{number}").into_bytes();
        let mut all: Vec<_> = (0..stays).map(|n| name('s', n)).chain((0..others).map(|n| name('o', n))).collect();
        rng.shuffle(&mut all);
        let mut set = Set::default();
        for member in &all {
            set.insert(member);
        }
        let (mut seen, mut cursor) = (BTreeSet::new(), 0);
        loop {
            cursor = set.view().scan(cursor, count, |member| {
                seen.insert(member.to_bytes().into_owned());
            });
            if cursor == 0 {
                break;
            }
            for _ in 0..rng.usize(..40) {
                set.remove(&name('o', rng.usize(..=others)));
                if rng.u32(..8) == 0 {
                    set.insert(&name('n', rng.usize(..1000)));
                }
            }
        }
        for number in 0..stays {
            prop_assert!(seen.contains(&name('s', number)), "s{number} is missing");
        }
    }

    #[test]
    fn any_bytes_are_read_as_some_set(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let view = SetView::Packed(&bytes);
        prop_assert_eq!(view.iter().count(), view.len());
        view.contains(b"1");
        let _ = (Set::parse(&bytes, true), Set::parse(&bytes, false));
    }
}

#[test]
fn the_form_follows_the_members() {
    let mut set = Set::default();
    (0..512_i64).for_each(|number| assert!(set.insert(number.to_string().as_bytes())));
    assert!(set.view().is_integers());
    assert!(!set.insert(b"17") && set.view().is_integers());
    assert!(set.insert(b"512") && matches!(set, Set::Table(_)) && set.view().len() == 513);

    let mut set = Set::default();
    (0..127_i64).for_each(|number| assert!(set.insert(number.to_string().as_bytes())));
    assert!(set.insert(b"x") && matches!(set, Set::Packed(_)) && !set.view().is_integers());
    assert!(set.insert(b"y") && matches!(set, Set::Table(_)) && set.view().len() == 129);

    let mut set = Set::default();
    assert!(set.insert(&[b'x'; 64]) && matches!(set, Set::Packed(_)));
    assert!(set.insert(&[b'x'; 65]) && matches!(set, Set::Table(_)) && set.view().len() == 2);
}

#[test]
fn a_table_counts_its_memory_and_gives_it_back() {
    let mut set = Set::default();
    let long = |number: usize| format!("{number:0100}").into_bytes();
    (0..10_000).for_each(|number| assert!(set.insert(&long(number))));
    let full = set.bytes();
    assert!((10_000 * (100 + 24 + 5)..10_000 * (112 + 40 + 12)).contains(&full), "{full}");
    (100..10_000).for_each(|number| assert!(set.remove(&long(number))));
    assert!(set.bytes() < full / 20, "{} of {full}", set.bytes());
}
