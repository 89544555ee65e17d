//! Laws of request maps.

use std::{collections::HashMap, thread};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Operation {
    Open,
    /// Appends to an open connection, counted from the last one.
    Append(usize, u8),
    Close(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => Just(Operation::Open),
        4 => (0..40_usize, any::<u8>()).prop_map(|(which, byte)| Operation::Append(which, byte)),
        2 => (0..40_usize).prop_map(Operation::Close),
    ]
}

fn agree<R: RequestMap>(operations: &[Operation]) -> Result<(), TestCaseError> {
    let (requests, since) = (R::default(), Instant::now());
    let mut model: HashMap<RequestKey, Vec<u8>> = HashMap::new();
    let mut keys: Vec<RequestKey> = Vec::new();
    for operation in operations {
        match *operation {
            Operation::Open => {
                let key = requests.open(since);
                prop_assert!(model.insert(key, Vec::new()).is_none(), "a key of an open connection is given out again");
                keys.retain(|other| *other != key);
                keys.push(key);
            }
            Operation::Append(which, byte) => {
                let Some(key) = keys.iter().rev().nth(which) else { continue };
                let found = requests.with(*key, |request| {
                    request.bytes.push(byte);
                    request.bytes.to_vec()
                });
                let expected = model.get_mut(key).map(|bytes| {
                    bytes.push(byte);
                    bytes.clone()
                });
                prop_assert_eq!(found, expected);
            }
            Operation::Close(which) => {
                let Some(key) = keys.iter().rev().nth(which) else { continue };
                prop_assert_eq!(requests.close(*key), model.remove(key).is_some());
            }
        }
        prop_assert_eq!((requests.len(), requests.is_empty()), (model.len(), model.is_empty()));
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_request_map_keeps_connections_apart(operations in proptest::collection::vec(operation(), 0..200)) {
        agree::<StdRequests>(&operations)?;
        agree::<HashbrownRequests>(&operations)?;
        agree::<SlabRequests>(&operations)?;
    }
}

fn register_on_many_threads<R: RequestMap>() {
    const THREADS: usize = 4;
    let requests = Arc::new(R::default());
    let registered = thread::scope(|scope| {
        let work = |name: u8| {
            let mut mine = Vec::new();
            for round in 0..500_usize {
                let registration = Registration::new(&requests, Instant::now());
                registration.with(|request| request.bytes.extend([name, round as u8]));
                mine.push((registration, [name, round as u8]));
                if round % 3 == 0 {
                    mine.swap_remove(round % mine.len());
                }
            }
            mine
        };
        let threads: Vec<_> = (0..THREADS as u8).map(|name| scope.spawn(move || work(name))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(requests.len(), registered.len());
    // On another thread than the one that opened them, as connections travel.
    for (registration, bytes) in &registered {
        assert_eq!(registration.with(|request| request.bytes.to_vec()), bytes);
    }
    drop(registered);
    assert!(requests.is_empty(), "an entry goes with its connection");
}

#[test]
fn an_entry_lives_as_long_as_its_connection_on_any_thread() {
    register_on_many_threads::<StdRequests>();
    register_on_many_threads::<HashbrownRequests>();
    register_on_many_threads::<SlabRequests>();
}

#[test]
fn request_maps_have_the_names_of_the_original() {
    assert_eq!(RequestMapKind::from_str("umap", false), Ok(RequestMapKind::Std));
    assert_eq!(RequestMapKind::from_str("khash", false), Ok(RequestMapKind::Hashbrown));
}
