use std::sync::Arc;

use proptest::{collection::vec, prelude::*};
use wire::file::{Dialect as _, FileId, Status};

use super::*;
use crate::{
    error::ErrorClass,
    protocol::{Replies, RequestOutcome},
    sample::tests::{draws, one_of},
};

const SEED: u64 = 1;

/// `DOCUMEN0` and so on, with these bodies.
fn plan(bodies: &[&[u8]], verify: FileVerify, sample: Sample) -> Arc<FilePlan> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = |(index, body): (usize, &&[u8])| {
        let name = format!("DOCUMEN{index}");
        let path = directory.path().join(&name);
        std::fs::write(&path, body).expect("a file");
        (FileId::new(name.as_bytes()).expect("an id"), path)
    };
    let files: Vec<_> = bodies.iter().enumerate().map(file).collect();
    let mut observed = 0;
    let catalogue = Catalogue::read(&files, FileScan::LengthAndDigest, |bytes| observed += bytes).expect("readable");
    assert_eq!((observed, u64::from(catalogue.len())), (catalogue.bytes(), bodies.len() as u64));
    let plan = FilePlan::new(catalogue, &KeyDistribution::Sequential, 0.0, verify, SEED).expect("a law");
    Arc::new(plan.with_sample(sample))
}

/// Outcomes on the replies to requests for each document in turn, of which the stream arrives in pieces.
fn outcomes<S: FileProtocol>(
    plan: &Arc<FilePlan>,
    stream: &[u8],
    size: usize,
    requests: u32,
) -> Vec<(Replies, RequestOutcome)> {
    let mut client = FileClient::<S>::new(Arc::clone(plan), 0, 1);
    let (mut conn, mut outcomes) = (client.open(), Vec::new());
    let documents = plan.catalogue().len();
    for piece in stream.chunks(size) {
        let mut rest = piece;
        while (outcomes.len() as u32) < requests {
            let ask = Single(DocumentRequest::Document(outcomes.len() as u32 % documents));
            let decoded = client.decode(&mut conn, ask, rest);
            rest = &rest[decoded.consumed..];
            match decoded.progress {
                Progress::NeedMore => break,
                Progress::Done { replies, outcome, .. } => outcomes.push((replies, outcome)),
                Progress::Broken(class) => {
                    outcomes.push((Replies::default(), Err(class)));
                    return outcomes;
                }
            }
        }
    }
    let ask = Single(DocumentRequest::Document(outcomes.len() as u32 % documents));
    match client.on_eof(&mut conn, ask) {
        EofOutcome::Done { replies, outcome } => outcomes.push((replies, outcome)),
        EofOutcome::Failed(class) => outcomes.push((Replies::default(), Err(class))),
    }
    outcomes
}

const HIT: Replies = Replies { count: 1, hits: 1, misses: 0 };
const MISS: Replies = Replies { count: 1, hits: 0, misses: 1 };
const END: (Replies, RequestOutcome) = (Replies { count: 0, hits: 0, misses: 0 }, Err(ErrorClass::EofEarly));

fn framed(status: Status, body: &[u8]) -> Vec<u8> {
    let mut reply = Vec::new();
    wire::file::Framed::head(status, body.len() as u64, &mut reply);
    reply.extend_from_slice(body);
    reply
}

#[test]
fn each_reply_is_judged_by_its_own_bytes() {
    let plan = plan(&[b"first", b"second", b""], FileVerify::Sha256, Sample::ALL);
    let stream = [
        framed(Status::Found, b"first"),
        framed(Status::Found, b"secant"),
        framed(Status::Found, b""),
        framed(Status::Missing, b""),
        framed(Status::Found, b"second"),
        framed(Status::Found, b"x"),
    ];
    let expected = [
        (HIT, Ok(())),
        (HIT, Err(ErrorClass::Content)),
        (HIT, Ok(())),
        (MISS, Err(ErrorClass::Miss)),
        (HIT, Ok(())),
        (HIT, Err(ErrorClass::Length)),
        END,
    ];
    for size in [1, 2, 9, 10, 1_000] {
        assert_eq!(outcomes::<Framed>(&plan, &stream.concat(), size, 100), expected, "{size}");
    }
}

#[test]
fn unsampled_replies_are_only_measured() {
    let plan = plan(&[b"first", b"other"], FileVerify::Sha256, one_of(3));
    let wrong: Vec<_> = (0..300).map(|_| framed(Status::Found, b"wrong")).collect();
    let chosen = draws(Sampler::new(one_of(3), SEED, 0), wrong.len());
    let expected = chosen.into_iter().map(|is_chosen| (HIT, if is_chosen { Err(ErrorClass::Content) } else { Ok(()) }));
    let expected: Vec<_> = expected.chain([END]).collect();
    for size in [1, 3, 14, 15, 10_000] {
        assert_eq!(outcomes::<Framed>(&plan, &wrong.concat(), size, 300), expected, "{size}");
    }
    let longer: Vec<_> = (0..300).map(|_| framed(Status::Found, b"longer")).collect();
    let found = outcomes::<Framed>(&plan, &longer.concat(), 1_000, 300);
    assert!(found[..300].iter().all(|found| *found == (HIT, Err(ErrorClass::Length))));
}

#[test]
fn ids_of_missing_documents_are_valid_and_unknown() {
    let plan = plan(&[b"a", b"b"], FileVerify::None, Sample::ALL);
    let mut client = FileClient::<Original>::new(Arc::clone(&plan), 0, 1);
    for _ in 0..1_000 {
        let DocumentRequest::Missing(id) = client.unknown() else { panic!("that is a document") };
        assert!(FileId::original(&id).is_some() && !plan.catalogue().has(&id));
        let mut request = Vec::new();
        client.encode(Single(DocumentRequest::Missing(id)), &mut request);
        assert_eq!(request, id);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let id = FileId::new(b"gone").expect("an id");
    let error = Catalogue::read(&[(id, "/gone/file".into())], FileScan::Length, |_| ()).expect_err("it is gone");
    assert!(error.to_string().contains("/gone/file"), "{error}");
    assert!(matches!(Catalogue::read(&[], FileScan::Length, |_| ()), Err(CatalogueError::Empty)));
}

proptest! {
    #[test]
    fn verdicts_do_not_depend_on_fragmentation(
        stream in vec(prop_oneof![
            3 => Just(framed(Status::Found, b"first")),
            3 => Just(framed(Status::Found, b"second")),
            1 => Just(framed(Status::Found, b"third")),
            1 => Just(framed(Status::Missing, b"")),
            1 => Just(framed(Status::Failed, b"")),
        ], 0..12).prop_map(|replies| replies.concat()),
        cut in 0_usize..20,
        size in 1_usize..30,
        count in 1_u32..4,
    ) {
        let plan = plan(&[b"first", b"second"], FileVerify::Sha256, one_of(count));
        let stream = &stream[..stream.len().saturating_sub(cut)];
        prop_assert_eq!(
            outcomes::<Framed>(&plan, stream, size, 100),
            outcomes::<Framed>(&plan, stream, usize::MAX, 100)
        );
        // The other protocol takes everything for one body.
        prop_assert_eq!(
            outcomes::<Original>(&plan, stream, size, 100),
            outcomes::<Original>(&plan, stream, usize::MAX, 100)
        );
    }
}
