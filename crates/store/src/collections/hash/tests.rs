use proptest::prelude::*;

use super::*;

/// Fields in the order in which they were added.
type Model = Vec<(Vec<u8>, Vec<u8>, u64)>;

#[derive(Clone, Debug)]
enum Step {
    Set(Vec<u8>, Vec<u8>, Option<u64>),
    Remove(Vec<u8>),
    SetExpiry(Vec<u8>, u64),
    Purge(u64),
}

fn texts() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (0_u32..200).prop_map(|number| number.to_string().into_bytes()),
        8 => (0_u32..20).prop_map(|number| format!("field{number}").into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 60..70),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let expiry = prop_oneof![3 => Just(None), 1 => (0_u64..50).prop_map(Some)];
    prop_oneof![
        6 => (texts(), texts(), expiry).prop_map(|(name, value, expiry)| Step::Set(name, value, expiry)),
        3 => texts().prop_map(Step::Remove),
        1 => (texts(), 0_u64..50).prop_map(|(name, at)| Step::SetExpiry(name, at)),
        1 => (0_u64..50).prop_map(Step::Purge),
    ]
}

fn apply(hash: &mut Hash, model: &mut Model, step: &Step) {
    match step {
        Step::Set(name, value, expiry) => {
            let found = model.iter_mut().find(|(other, ..)| other == name);
            assert_eq!(
                hash.set(name, value, expiry.map_or(FieldExpiry::Keep, FieldExpiry::At)),
                found.is_none(),
                "{name:?}"
            );
            match found {
                Some(found) => *found = (name.clone(), value.clone(), expiry.unwrap_or(found.2)),
                None => model.push((name.clone(), value.clone(), expiry.unwrap_or(0))),
            }
        }
        Step::Remove(name) => {
            let before = model.len();
            model.retain(|(other, ..)| other != name);
            assert_eq!(hash.remove(name), model.len() < before);
        }
        Step::SetExpiry(name, at) => {
            let found = model.iter_mut().find(|(other, ..)| other == name);
            assert_eq!(hash.set_expiry(name, *at), found.is_some());
            if let Some(found) = found {
                found.2 = *at;
            }
        }
        Step::Purge(now) => {
            let before = model.len();
            model.retain(|&(.., at)| at == 0 || at > *now);
            assert_eq!(hash.purge(*now), before - model.len());
        }
    }
}

fn contents(hash: &Hash) -> Model {
    let fields = hash.view().fields();
    fields
        .map(|field| (field.name.to_bytes().into_owned(), field.value.to_bytes().into_owned(), field.expires_at))
        .collect()
}

fn sorted(mut model: Model) -> Model {
    model.sort();
    model
}

proptest! {
    #[test]
    fn a_hash_is_a_map_in_order_and_survives_a_snapshot(steps in prop::collection::vec(steps(), 0..300)) {
        let (mut hash, mut model, mut is_object) = (Hash::default(), Model::new(), false);
        for step in &steps {
            apply(&mut hash, &mut model, step);
            let is_large = model.len() > FIELDS_MAX
                || matches!(step, Step::Set(name, value, _) if name.len().max(value.len()) > TEXT_BYTES_MAX);
            is_object |= is_large;
            prop_assert_eq!(hash.pack().is_none(), is_object, "once large, always an object");
        }
        match is_object {
            true => prop_assert_eq!(sorted(contents(&hash)), sorted(model.clone())),
            false => prop_assert_eq!(contents(&hash), model.clone()),
        }
        for (name, value, expires_at) in &model {
            let field = hash.view().get(name, 0).unwrap();
            prop_assert_eq!(&*field.value.to_bytes(), &value[..]);
            prop_assert_eq!(field.expires_at, *expires_at);
        }
        let alive = model.iter().filter(|(.., at)| *at == 0 || *at > 25).count();
        prop_assert_eq!(hash.view().len(25), alive);
        prop_assert_eq!(hash.view().next_expiry(), model.iter().map(|(.., at)| *at).filter(|&at| at != 0).min());
        let mut written = Vec::new();
        hash.write(&mut written);
        let again = Hash::parse(&written, is_object).unwrap();
        prop_assert_eq!(contents(&again), contents(&hash));
        prop_assert!(Hash::parse(&written, !is_object).is_none());
    }

    #[test]
    fn arbitrary_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), is_object: bool) {
        if let Some(hash) = Hash::parse(&bytes, is_object) {
            prop_assert_eq!(hash.view().fields().count(), hash.view().stored_len());
        }
        // Nobody reads such bytes, but nothing would panic.
        let view = Hash::view_packed(&bytes);
        let _ = (view.fields().count(), view.get(b"1", 0), view.len(0));
    }

    #[test]
    fn a_scan_shows_every_field_that_stays(
        kept in prop::collection::btree_set(0_u32..1000, 1..200),
        changes in prop::collection::vec((any::<bool>(), 1000_u32..1400), 0..300)
    ) {
        let mut hash = Hash::default();
        let name = |number: u32| format!("f{number}").into_bytes();
        let set = |hash: &mut Hash, number: u32| hash.set(&name(number), &[b'x'; 70], FieldExpiry::Keep);
        for number in (1000..1200).chain(kept.iter().copied()) {
            set(&mut hash, number);
        }
        let (mut seen, mut cursor, mut changes) = (Vec::new(), 0, changes.chunks(7));
        loop {
            cursor = hash.view().scan(cursor, 5, |field| seen.push(field.name.to_bytes().into_owned()));
            if cursor == 0 {
                break;
            }
            for &(is_set, number) in changes.next().unwrap_or_default() {
                match is_set {
                    true => set(&mut hash, number),
                    false => hash.remove(&name(number)),
                };
            }
        }
        prop_assert!(kept.iter().all(|&number| seen.contains(&name(number))));
    }
}

#[test]
fn the_memory_of_removed_fields_is_given_back() {
    let mut hash = Hash::default();
    for number in 0..10_000_u32 {
        hash.set(&number.to_be_bytes(), &[7; 100], FieldExpiry::Keep);
    }
    let full = hash.bytes();
    assert!((1..10_000_u32).all(|number| hash.remove(&number.to_be_bytes())));
    assert!(full > 10_000 * 150 && hash.bytes() < 2_000, "{full} {}", hash.bytes());
}
