//! The drivers that a law is tested on.
//!
//! Every law is tested on every driver that is always built. Of those that are cargo features ([`drivers::Descriptor::is_optional`]), which share
//! nearly all of their code with others, a law draws one or none by its name, so that each of them sees about a quarter of the
//! laws: the tests must not take longer with every runtime that is added. `QUINTET_CONFORMANCE=all`, as in
//! `cargo xtask verify conformance`, tests all of them, and names of drivers, with commas between them, test those alone.

use std::{
    hash::{DefaultHasher, Hash, Hasher as _},
    thread,
};

use drivers::DriverKind;

/// Says what is tested; see the module.
const CHOICE: &str = "QUINTET_CONFORMANCE";
/// Laws of which one is drawn for a driver that is optional, or more where there are more such drivers.
const LAWS: usize = 4;

/// Choice of the user's.
enum Choice {
    Sample,
    All,
    Named(String),
}

impl Choice {
    fn read() -> Self {
        match std::env::var(CHOICE) {
            Err(_) => Self::Sample,
            Ok(choice) if choice == "all" => Self::All,
            Ok(names) => Self::Named(names),
        }
    }
}

/// Returns those of `drivers` that the law of this thread, which has the name of its test, is tested on.
pub fn sample(drivers: &[DriverKind]) -> Vec<DriverKind> {
    match Choice::read() {
        Choice::All => drivers.to_vec(),
        Choice::Named(names) => {
            let is_named = |driver: &DriverKind| names.split(',').any(|name| name == driver.name());
            drivers.iter().copied().filter(is_named).collect()
        }
        Choice::Sample => draw(thread::current().name().unwrap_or_default(), drivers),
    }
}

/// Returns one of `choices`, drawn by the law of this thread and by the driver; all of them if the user has chosen.
pub fn sample_of<T>(driver: DriverKind, choices: &[T]) -> &[T] {
    if !matches!(Choice::read(), Choice::Sample) {
        return choices;
    }
    let law = thread::current();
    let drawn = hash(&(law.name(), driver.name())) % choices.len().max(1);
    choices.get(drawn..=drawn).unwrap_or(choices)
}

fn draw(law: &str, drivers: &[DriverKind]) -> Vec<DriverKind> {
    let is_optional = |driver: &DriverKind| driver.descriptor().is_optional;
    let optional: Vec<_> = DriverKind::ALL.iter().copied().filter(is_optional).collect();
    let drawn = optional.get(hash(law) % LAWS.max(optional.len()));
    drivers.iter().copied().filter(|driver| !is_optional(driver) || drawn == Some(driver)).collect()
}

fn hash(of: &(impl Hash + ?Sized)) -> usize {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    // Some of its bits do.
    hasher.finish() as u32 as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_optional_driver_sees_a_part_of_the_laws() {
        let laws: Vec<_> = (0..400).map(|law| draw(&format!("law {law}"), DriverKind::ALL)).collect();
        for driver in DriverKind::ALL {
            let count = laws.iter().filter(|drivers| drivers.contains(driver)).count();
            match driver.descriptor().is_optional {
                true => assert!((20..180).contains(&count), "{driver}: {count} laws of 400"),
                false => assert_eq!(count, 400, "{driver}"),
            }
        }
        assert!(
            laws.iter().all(|drivers| drivers.iter().filter(|driver| driver.descriptor().is_optional).count() <= 1)
        );
    }
}
