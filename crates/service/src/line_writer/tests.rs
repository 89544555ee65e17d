use std::{fs, io::Read, path::Path, process::Command};

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn start(path: &Path) -> LineWriter {
    LineWriter::start("test log", LineTarget::File(path.to_owned())).unwrap()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the numbers of lines `thread number`, by thread, of a file without any other line.
fn read(text: &str, numbers: &mut [Vec<usize>]) {
    for line in text.lines() {
        let (thread, number) = line.split_once(' ').unwrap_or_else(|| panic!("torn: {line:?}"));
        numbers[thread.parse::<usize>().unwrap()].push(number.parse().unwrap());
    }
}

/// However often the file is moved away meanwhile: every line is in one of the files, whole, once and in its order.
#[test]
fn rotation_loses_no_line_and_tears_none() {
    const THREADS: usize = 4;
    const LINES: usize = 20_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let writer = start(&path);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let writer = &writer;
            scope.spawn(move || {
                for number in 0..LINES {
                    while !writer.push(format!("{thread} {number}\n").as_bytes()) {
                        thread::yield_now();
                    }
                }
            });
        }
        for rotation in 0..20 {
            thread::sleep(Duration::from_millis(3));
            fs::rename(&path, directory.path().join(format!("old-{rotation:02}"))).unwrap();
            writer.reopen();
            eventually("the file is there again", || path.exists());
        }
    });
    writer.finish(PATIENCE);
    assert_eq!(writer.written(), (THREADS * LINES) as u64);
    let mut files: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_by_key(|file| (*file == path, file.clone()));
    let mut numbers = vec![Vec::new(); THREADS];
    files.iter().for_each(|file| read(&fs::read_to_string(file).unwrap(), &mut numbers));
    assert!(numbers.iter().all(|numbers| numbers.iter().copied().eq(0..LINES)));
}

/// A pipe that nobody reads holds up nobody but the writer.
#[test]
fn a_file_that_takes_nothing_costs_lines_and_never_waits() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let opening = thread::spawn({
        let path = path.clone();
        move || fs::File::open(path).unwrap()
    });
    let writer = start(&path);
    let mut reader = opening.join().unwrap();
    let line = [vec![b'x'; 999], vec![b'\n']].concat();
    let pushed = (0..4_000).filter(|_| writer.push(&line)).count() as u64;
    assert!(writer.dropped() > 0 && pushed + writer.dropped() == 4_000, "{} dropped", writer.dropped());
    writer.finish(Duration::from_millis(1)); // Returns, though nothing can be written.
    let mut text = Vec::new();
    let reading = thread::spawn(move || {
        let mut part = [0; 8192];
        while text.len() < pushed as usize * line.len() {
            let n = reader.read(&mut part).unwrap();
            text.extend_from_slice(&part[..n]);
        }
        assert!(text.chunks(line.len()).all(|part| part == line), "torn");
    });
    reading.join().unwrap();
}

#[test]
fn lines_that_cannot_be_written_are_counted() {
    let writer = LineWriter::start("test log", LineTarget::File("/dev/full".into())).unwrap();
    (0..10).for_each(|_| assert!(writer.push(b"line\n")));
    eventually("they are counted", || writer.dropped() == 10);
    assert_eq!(writer.written(), 0);
}

/// The writer goes on with the old file and tries again.
#[test]
fn a_directory_that_vanishes_costs_no_line() {
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("logs");
    fs::create_dir(&inner).unwrap();
    let path = inner.join("log");
    let writer = start(&path);
    let moved = directory.path().join("moved");
    fs::rename(&inner, &moved).unwrap();
    writer.reopen();
    assert!(writer.push(b"one\n"));
    eventually("the old file is written on", || fs::read_to_string(moved.join("log")).unwrap() == "one\n");
    fs::create_dir(&inner).unwrap();
    eventually("the file is opened when it can be", || path.exists());
    assert!(writer.push(b"two\n"));
    eventually("it is written", || fs::read_to_string(&path).unwrap() == "two\n");
    assert_eq!(writer.dropped(), 0);
}
