use std::{collections::BTreeMap, io::Cursor};

use proptest::prelude::*;
use store::{Attributes, KeyHasher, PolicyKind, StdStore, StoreOptions};

use super::*;
use crate::{codec::Codec, state::SpaceOptions};

fn space(shards: usize) -> Space<StdStore> {
    Space::new(SpaceOptions {
        shards,
        policy: PolicyKind::NoEviction,
        memory_max: None,
        codec: Codec::default(),
        store: StoreOptions { hasher: KeyHasher::with_seed(1), advise: |_| (), release: |_| () },
        seed: 1,
        is_use_tracked: false,
    })
}

type Model = BTreeMap<Vec<u8>, (Vec<u8>, Attributes)>;

fn fill(space: &Space<StdStore>, model: &Model) {
    for (key, (value, attributes)) in model {
        let hash = space.hash(key);
        let now = Moment { unix_ms: unix_ms() };
        space.lock(space.shard_of(hash)).set(hash, key, value, *attributes, now).unwrap();
    }
}

fn contents(space: &Space<StdStore>) -> Model {
    let mut found = Model::new();
    space.for_each_shard(|cache| {
        let mut cursor = 0;
        loop {
            cursor = cache.store().scan(cursor, &mut |view| {
                found.insert(view.key.to_vec(), (view.value.to_vec(), view.attributes));
            });
            if cursor == 0 {
                break;
            }
        }
    });
    found
}

fn saved(model: &Model) -> Vec<u8> {
    let (space, mut file) = (space(3), Vec::new());
    fill(&space, model);
    let lasting = model.values().filter(|(_, attributes)| attributes.expires_at != 1).count();
    assert_eq!(send_entries(&space, &mut file).unwrap(), lasting as u64);
    file
}

fn load(file: &[u8]) -> Result<Model, FormatError> {
    let space = space(2);
    let outcome = read(&space, Cursor::new(file), file.len() as u64);
    let found = contents(&space);
    match outcome {
        Ok(_) => Ok(found),
        Err(fault) => {
            assert_eq!(found, Model::new(), "nothing is taken from a file that is refused");
            Err(fault)
        }
    }
}

fn is_damaged(file: &[u8]) -> bool {
    matches!(load(file), Err(FormatError::Damaged { offset, .. }) if offset <= file.len() as u64)
}

fn models() -> impl Strategy<Value = Model> {
    let bytes = |max| proptest::collection::vec(any::<u8>(), 0..max);
    let far = prop_oneof![Just(0), Just(unix_ms() + 1_000_000)];
    let attributes = (far, any::<u32>(), any::<u64>(), prop_oneof![0_u8..4, 8_u8..12])
        .prop_map(|(expires_at, flags, version, encoding)| Attributes { expires_at, flags, version, encoding });
    proptest::collection::btree_map(bytes(40), (bytes(3000), attributes), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn saved_entries_are_loaded_again(model in models()) {
        prop_assert_eq!(load(&saved(&model)).unwrap(), model);
    }

    #[test]
    fn a_file_with_any_byte_changed_is_refused(model in models(), at: prop::sample::Index, change in 1_u8..) {
        let mut file = saved(&model);
        let at = at.index(file.len());
        file[at] ^= change;
        prop_assert!(is_damaged(&file), "byte {} of {}", at, file.len());
    }

    #[test]
    fn a_truncated_or_extended_file_is_refused(model in models(), at: prop::sample::Index) {
        let mut file = saved(&model);
        let cut = at.index(file.len());
        prop_assert!(is_damaged(&file[..cut]), "cut at {}", cut);
        file.push(0);
        prop_assert!(is_damaged(&file));
    }
}

#[test]
fn all_blocks_are_loaded_and_a_missing_one_is_noticed() {
    let value = |n: u32| (vec![n as u8; 40_000], Attributes { flags: n, ..Attributes::default() });
    let model: Model = (0..100_u32).map(|n| (n.to_le_bytes().to_vec(), value(n))).collect();
    let file = saved(&model);
    assert_eq!(load(&file).unwrap(), model);
    // The first block, with its header and checksum.
    let length = u32::from_le_bytes(*file[24..].first_chunk().unwrap()) as usize;
    let without = [&file[..24], &file[24 + 8 + length + 4..]].concat();
    assert!(matches!(load(&without), Err(FormatError::Damaged { what, .. }) if what.contains("fewer")));
}

#[test]
fn expired_keys_are_neither_saved_nor_loaded() {
    let over = Attributes { expires_at: 1, ..Attributes::default() };
    let model = Model::from([(b"over".to_vec(), (b"1".to_vec(), over))]);
    assert_eq!(load(&saved(&model)).unwrap(), Model::new());
    let mut file = Vec::new();
    let mut writer = Writer::begin(&mut file, 0).unwrap();
    writer.add(&SnapshotEntry { key: b"over", value: b"1", attributes: over });
    writer.end().unwrap();
    assert_eq!(load(&file).unwrap(), Model::new());
}

#[test]
fn a_file_is_replaced_as_a_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("keys");
    let snapshots = SnapshotStore::new(Some(path.clone()));
    let full = space(1);
    fill(
        &full,
        &Model::from([(b"key".to_vec(), (b"value".to_vec(), Attributes { version: 7, ..Attributes::default() }))]),
    );
    assert_eq!(snapshots.load(&full).unwrap(), 0, "no file is no error");
    snapshots.save(&full).unwrap();
    let failed = replace(&path, |_| Err(io::ErrorKind::StorageFull.into()));
    assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
    let again = space(2);
    assert_eq!(snapshots.load(&again).unwrap(), 7);
    assert_eq!(contents(&again), contents(&full));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left over");
}

#[test]
fn keys_that_do_not_fit_are_an_error() {
    let model: Model =
        (0..2000_u32).map(|n| (n.to_le_bytes().to_vec(), (vec![0; 1000], Attributes::default()))).collect();
    let file = saved(&model);
    let small = space(1);
    small.set_memory_max(Some(100_000));
    let outcome = read(&small, Cursor::new(&file), file.len() as u64);
    assert!(matches!(outcome, Err(FormatError::DoesNotFit)), "{outcome:?}");
}
