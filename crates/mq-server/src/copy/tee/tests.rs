//! The guarantees for the members of a pass, whatever the other members do.

use std::{
    fs::File,
    io::Read,
    thread::{self, JoinHandle},
};

use super::*;
use crate::copy::tests::{World, alone, contents, descriptors, finish, options, wait};

/// Deadlock guard: no test takes this long, however crowded the machine.
const TOO_LONG: Duration = Duration::from_secs(60);
/// Capacity of the FIFOs.
const CAPACITY: usize = 64 << 10;

fn tee() -> (Tee, Budget) {
    let options = options();
    (Tee::new(&options), options.pipe_budget)
}

/// Reads `most` bytes at a time, with a pause after each.
fn read_slowly(mut fifo: File, most: usize, pause: Duration) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let (mut got, mut some) = (Vec::new(), vec![0; most]);
        loop {
            match fifo.read(&mut some).unwrap() {
                0 => return got,
                n => got.extend_from_slice(&some[..n]),
            }
            if pause > Duration::ZERO {
                thread::sleep(pause);
            }
        }
    })
}

/// Checks that the pass ends when it has no members, and gives its reservations back.
fn assert_over(budget: &Budget) {
    let begun = Instant::now();
    while budget.used() > 0 {
        assert!(begun.elapsed() < TOO_LONG, "a pass without members goes on");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a transfer to its end on a thread of its own, and closes everything.
fn send<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    tee: &'scope Tee,
    mut transfer: SharedTransfer,
    sink: Arc<Writer>,
) -> thread::ScopedJoinHandle<'scope, Result<u64, CopyError>> {
    scope.spawn(move || {
        let outcome = finish(tee, &mut transfer, &sink);
        drop((transfer, sink));
        outcome
    })
}

/// Readers of any speed get every byte once, and some of the bytes come from shared windows.
#[test]
fn members_of_any_speed_get_every_byte() {
    let (tee, budget) = tee();
    let world = World::new();
    let whole = contents((6 << 20) + 777);
    world.write(&whole);
    let paces = [(1 << 20, 0), (64 << 10, 0), (100_000, 0), (65_536, 50), (7000, 0), (1 << 20, 0), (30_000, 3000)];
    let ends: Vec<_> = (0..paces.len()).map(|index| world.fifo(&format!("fifo-{index}"), CAPACITY)).collect();
    thread::scope(|scope| {
        let mut reading = Vec::new();
        let mut sending = Vec::new();
        for ((reader, sink), (most, pause)) in ends.into_iter().zip(paces) {
            let transfer = tee.begin(world.source(), &sink).unwrap();
            sending.push((transfer, sink));
            reading.push(read_slowly(reader, most, Duration::from_micros(pause)));
        }
        let sending: Vec<_> = sending.into_iter().map(|(transfer, sink)| send(scope, &tee, transfer, sink)).collect();
        for sent in sending {
            assert_eq!(sent.join().unwrap().unwrap(), whole.len() as u64);
        }
        for got in reading {
            assert!(got.join().unwrap() == whole);
        }
    });
    let counts = &tee.groups.counts;
    let [teed, caught_up, alone] =
        [&counts.teed, &counts.caught_up, &counts.alone].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(teed + caught_up + alone, (paces.len() * whole.len()) as u64);
    assert!(teed > 0, "{caught_up} {alone}");
    assert_over(&budget);
}

/// A member that never reads keeps no other waiting. It is released, and waits for its own FIFO.
#[test]
fn a_member_that_never_reads_is_released() {
    let (tee, budget) = tee();
    let world = World::new();
    let whole = contents(4 << 20);
    world.write(&whole);
    let (dead_reader, dead_sink) = world.fifo("dead", CAPACITY);
    let mut dead = tee.begin(world.source(), &dead_sink).unwrap();
    thread::scope(|scope| {
        let good: Vec<_> = (0..3)
            .map(|index| {
                let (reader, sink) = world.fifo(&format!("good-{index}"), CAPACITY);
                let transfer = tee.begin(world.source(), &sink).unwrap();
                (send(scope, &tee, transfer, sink), read_slowly(reader, 1 << 20, Duration::ZERO))
            })
            .collect();
        assert_eq!(tee.step(&mut dead, &dead_sink).unwrap().state, State::Blocked);
        for (sent, got) in good {
            assert_eq!(sent.join().unwrap().unwrap(), whole.len() as u64);
            assert!(got.join().unwrap() == whole);
        }
    });
    let begun = Instant::now();
    while let Readiness::Readable(_) = tee.readiness(&dead, &dead_sink) {
        assert!(wait(tee.readiness(&dead, &dead_sink), TOO_LONG), "the pass never releases it");
        assert_eq!(tee.step(&mut dead, &dead_sink).unwrap().state, State::Blocked);
        assert!(begun.elapsed() < TOO_LONG);
    }
    assert_over(&budget);
    drop(dead_reader);
    assert!(matches!(tee.step(&mut dead, &dead_sink), Err(CopyError::ReaderGone)));
}

/// A member whose reader is gone ends alone; the others do not notice.
#[test]
fn a_dead_reader_ends_only_its_own_transfer() {
    let (tee, budget) = tee();
    let world = World::new();
    let whole = contents(4 << 20);
    world.write(&whole);
    thread::scope(|scope| {
        let ends: Vec<_> = (0..4)
            .map(|index| {
                let (reader, sink) = world.fifo(&format!("fifo-{index}"), CAPACITY);
                let transfer = tee.begin(world.source(), &sink).unwrap();
                (reader, transfer, sink)
            })
            .collect();
        let sent: Vec<_> = ends
            .into_iter()
            .enumerate()
            .map(|(index, (mut reader, transfer, sink))| {
                let reading = match index {
                    0 => thread::spawn(move || {
                        reader.read_exact(&mut [0; 300_000]).unwrap();
                        Vec::new()
                    }),
                    _ => read_slowly(reader, 1 << 20, Duration::ZERO),
                };
                (send(scope, &tee, transfer, sink), reading)
            })
            .collect();
        for (index, (sent, got)) in sent.into_iter().enumerate() {
            let (sent, got) = (sent.join().unwrap(), got.join().unwrap());
            match index {
                0 => assert!(matches!(sent, Err(CopyError::ReaderGone)), "{sent:?}"),
                _ => assert!(got == whole && sent.unwrap() == whole.len() as u64),
            }
        }
    });
    assert_over(&budget);
}

/// A transfer that joins while a pass is under way gets the beginning, too.
#[test]
fn latecomers_get_every_byte() {
    let (tee, budget) = tee();
    let world = World::new();
    let whole = contents(8 << 20);
    world.write(&whole);
    thread::scope(|scope| {
        let mut all = Vec::new();
        for index in 0..5 {
            let (mut reader, sink) = world.fifo(&format!("fifo-{index}"), CAPACITY);
            let transfer = tee.begin(world.source(), &sink).unwrap();
            let sent = send(scope, &tee, transfer, sink);
            // The next one joins when this one has some hundred thousand bytes.
            let mut head = vec![0; 700_000];
            reader.read_exact(&mut head).unwrap();
            all.push((sent, head, read_slowly(reader, 200_000, Duration::from_micros(20))));
        }
        for (sent, head, got) in all {
            assert_eq!(sent.join().unwrap().unwrap(), whole.len() as u64);
            assert!([head, got.join().unwrap()].concat() == whole);
        }
    });
    assert_over(&budget);
}

/// Starts a pass with two members.
fn pair(tee: &Tee, world: &World) -> [(File, SharedTransfer, Arc<Writer>); 2] {
    let mut pair = ["one", "two"].map(|name| {
        let (reader, sink) = world.fifo(name, CAPACITY);
        let transfer = tee.begin(world.source(), &sink).unwrap();
        (reader, transfer, sink)
    });
    for (_, transfer, sink) in &mut pair {
        let progress = tee.step(transfer, sink).unwrap();
        assert_eq!(progress, Progress { moved: 0, state: State::Blocked });
        assert!(matches!(tee.readiness(transfer, sink), Readiness::Readable(_)));
    }
    pair
}

/// Two files of the same size are two files.
#[test]
fn different_files_are_not_shared() {
    let (tee, budget) = tee();
    let worlds = [World::new(), World::new()];
    let contents = [7, 8].map(|byte| vec![byte; 2 << 20]);
    thread::scope(|scope| {
        let both = [0, 1].map(|index| {
            worlds[index].write(&contents[index]);
            let (reader, sink) = worlds[index].fifo("fifo", CAPACITY);
            (tee.begin(worlds[index].source(), &sink).unwrap(), reader, sink)
        });
        let both = both.map(|(transfer, reader, sink)| {
            (send(scope, &tee, transfer, sink), read_slowly(reader, 1 << 20, Duration::ZERO))
        });
        for ((sent, got), contents) in both.into_iter().zip(&contents) {
            assert_eq!(sent.join().unwrap().unwrap(), contents.len() as u64);
            assert!(got.join().unwrap() == *contents);
        }
    });
    assert_over(&budget);
}

/// Not only the first window is shared. A pause of the machine may separate members, so that there are several attempts.
#[test]
fn window_after_window_is_shared() {
    let whole = contents(2 << 20);
    let shared = (0..50).any(|_| {
        let (tee, budget) = tee();
        let world = World::new();
        world.write(&whole);
        thread::scope(|scope| {
            let both = pair(&tee, &world).map(|(reader, transfer, sink)| {
                (send(scope, &tee, transfer, sink), read_slowly(reader, 1 << 20, Duration::ZERO))
            });
            for (sent, got) in both {
                assert_eq!(sent.join().unwrap().unwrap(), whole.len() as u64);
                assert!(got.join().unwrap() == whole);
            }
        });
        assert_over(&budget);
        tee.groups.counts.teed.load(Ordering::Relaxed) >= 8 * CAPACITY as u64
    });
    assert!(shared);
}

/// A changed file is no longer shared: a shorter file is an error for all members, a longer one for none.
#[test]
fn a_changed_file_ends_the_pass() {
    for (size, is_error) in [(1 << 20, true), (8 << 20, false)] {
        let (tee, budget) = tee();
        let world = World::new();
        let whole = contents(4 << 20);
        world.write(&whole);
        let pair = pair(&tee, &world);
        File::options().write(true).open(world.file()).unwrap().set_len(size).unwrap();
        thread::scope(|scope| {
            let both = pair.map(|(reader, transfer, sink)| {
                (send(scope, &tee, transfer, sink), read_slowly(reader, 1 << 20, Duration::ZERO))
            });
            for (sent, got) in both {
                let (sent, got) = (sent.join().unwrap(), got.join().unwrap());
                assert_eq!(matches!(sent, Err(CopyError::Shrunk)), is_error, "{sent:?}");
                assert!(got == whole[..got.len()] && (is_error || got.len() == whole.len()));
            }
        });
        assert_over(&budget);
    }
}

/// After a transfer has been dropped, the pass writes no more into its FIFO, and ends.
#[test]
fn a_member_of_a_pass_may_be_dropped() {
    let (tee, budget) = tee();
    let world = World::new();
    let whole = contents(4 << 20);
    world.write(&whole);
    let [(mut reader, transfer, sink), (other_reader, mut other, other_sink)] = pair(&tee, &world);
    drop(transfer);
    let moved = sys::fifo::filled(&*sink).unwrap();
    let reading = read_slowly(other_reader, 1 << 20, Duration::ZERO);
    assert_eq!(finish(&tee, &mut other, &other_sink).unwrap(), whole.len() as u64);
    drop((other, other_sink));
    assert!(reading.join().unwrap() == whole);
    assert_eq!(sys::fifo::filled(&*sink).unwrap(), moved);
    drop(sink);
    let mut got = Vec::new();
    reader.read_to_end(&mut got).unwrap();
    assert!(got == whole[..moved as usize]);
    assert_over(&budget);
}

/// If the budget has no room for a pipe, every transfer goes alone.
#[test]
fn without_a_pipe_budget_there_is_no_pass() {
    let options = CopyOptions { pipe_budget: Budget::new(4096), ..options() };
    let tee = Tee::new(&options);
    let world = World::new();
    let whole = contents(1 << 20);
    world.write(&whole);
    let ends = ["one", "two"].map(|name| world.fifo(name, CAPACITY));
    thread::scope(|scope| {
        let both = ends.map(|(reader, sink)| (tee.begin(world.source(), &sink).unwrap(), reader, sink));
        let both = both.map(|(transfer, reader, sink)| {
            (send(scope, &tee, transfer, sink), read_slowly(reader, 1 << 20, Duration::ZERO))
        });
        for (sent, got) in both {
            assert_eq!(sent.join().unwrap().unwrap(), whole.len() as u64);
            assert!(got.join().unwrap() == whole);
        }
    });
    assert_eq!(tee.groups.counts.alone.load(Ordering::Relaxed), 2 * whole.len() as u64);
}

#[test]
fn a_pass_leaves_no_descriptor_and_no_thread_behind() {
    alone("copy::tee::tests::descriptors_and_threads_after_passes");
}

#[test]
#[ignore = "counts the descriptors and threads of a process of its own"]
fn descriptors_and_threads_after_passes() {
    let threads = || procfs::process::Process::myself().unwrap().stat().unwrap().num_threads;
    let (tee, budget) = tee();
    let world = World::new();
    world.write(&contents(4 << 20));
    let before = (descriptors(), threads());
    for _ in 0..10 {
        drop(pair(&tee, &world));
        let [(reader, mut transfer, sink), other] = pair(&tee, &world);
        drop(other);
        let reading = read_slowly(reader, 1 << 20, Duration::ZERO);
        finish(&tee, &mut transfer, &sink).unwrap();
        drop((transfer, sink));
        reading.join().unwrap();
        assert_over(&budget);
    }
    let begun = Instant::now();
    while (descriptors(), threads()) != before {
        assert!(begun.elapsed() < TOO_LONG, "{before:?} became {:?}", (descriptors(), threads()));
        thread::sleep(Duration::from_millis(1));
    }
}
