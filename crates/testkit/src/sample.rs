//! The drivers that a law is tested on.
//!
//! Tests must not take longer with every runtime that is added, so that in `cargo test` a law is tested on a part of them, drawn by
//! its name. Drivers of a [`Family`] share most of their code. A law of the contract, in the conformance suite, is tested on one driver of
//! each family among those that are always built, and on one or none of those that are cargo features
//! ([`drivers::Descriptor::is_optional`]): each of them sees about a quarter of these laws, of the others each a half at least. A law of a
//! server draws two families and one driver of each, among all: what could differ between drivers is what the conformance suite tests.
//! `QUINTET_CONFORMANCE=all`, as in `cargo xtask verify conformance`, tests all laws on all drivers, and names of drivers, with commas
//! between them, test those alone.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher as _},
    thread,
};

use drivers::{ConnectionModel, Descriptor, DriverKind, IoModel};

use crate::drivers_with;

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

/// Drivers that serve a connection in much the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// A thread has one connection at a time, and its calls wait.
    Threads,
    /// An event loop makes plain calls once descriptors are ready.
    Loops,
    /// Tasks of a runtime do.
    Tasks,
    /// A ring performs the operations.
    Rings,
}

impl Family {
    const ALL: [Self; 4] = [Self::Threads, Self::Loops, Self::Tasks, Self::Rings];

    fn of(driver: &Descriptor) -> Self {
        match driver {
            Descriptor { io: IoModel::Completion, .. } => Self::Rings,
            Descriptor { connection: ConnectionModel::Task | ConnectionModel::Coroutine, .. } => Self::Tasks,
            Descriptor { connection: ConnectionModel::Loop, .. } => Self::Loops,
            Descriptor { connection: ConnectionModel::Thread | ConnectionModel::Worker, .. } => Self::Threads,
        }
    }
}

/// Returns those of `drivers` that the law of this thread is tested on, which has the name of its test: a law of a server.
pub fn sample(drivers: &[DriverKind]) -> Vec<DriverKind> {
    chosen(drivers, DriverKind::descriptor, draw_for_server)
}

/// Returns those of `drivers`, whose facts `of` knows, that a law of the contract is tested on.
pub fn sample_for_contract<D: Copy>(drivers: &[D], of: impl Fn(D) -> &'static Descriptor) -> Vec<D> {
    chosen(drivers, &of, |law, drivers| draw_for_contract(law, drivers, &of))
}

fn chosen<D: Copy>(
    drivers: &[D],
    of: impl Fn(D) -> &'static Descriptor,
    draw: impl Fn(&str, &[D]) -> Vec<D>,
) -> Vec<D> {
    match Choice::read() {
        Choice::All => drivers.to_vec(),
        Choice::Named(names) => {
            let is_named = |driver: &D| names.split(',').any(|name| name == of(*driver).name);
            drivers.iter().copied().filter(is_named).collect()
        }
        Choice::Sample => draw(thread::current().name().unwrap_or_default(), drivers),
    }
}

/// Returns one of `choices`, drawn by the law of this thread and by the driver; all of them if the user has chosen.
pub fn sample_of<T>(driver: impl fmt::Display, choices: &[T]) -> &[T] {
    if !matches!(Choice::read(), Choice::Sample) {
        return choices;
    }
    let law = thread::current();
    let drawn = hash(&(law.name(), driver.to_string())) % choices.len().max(1);
    choices.get(drawn..=drawn).unwrap_or(choices)
}

/// Draws a driver whose calls the law's connections wait for, or that waits until they are ready, and one that runs tasks or operations.
fn draw_for_server(law: &str, drivers: &[DriverKind]) -> Vec<DriverKind> {
    let families = [[Family::Threads, Family::Loops], [Family::Tasks, Family::Rings]];
    let drawn = (0..).zip(families).filter_map(|(number, families)| {
        let members: Vec<_> = families
            .map(|family| draw_of(family, law, drivers, DriverKind::descriptor))
            .into_iter()
            .flatten()
            .collect();
        members.get(hash(&(law, "families", number)) % members.len().max(1)).copied()
    });
    drawn.collect()
}

fn draw_for_contract<D: Copy>(law: &str, drivers: &[D], of: impl Fn(D) -> &'static Descriptor) -> Vec<D> {
    let optional: Vec<_> = drivers_with(|descriptor| descriptor.is_optional);
    let drawn = optional.get(hash(law) % LAWS.max(optional.len())).map(|driver| driver.name());
    let (optional, others): (Vec<_>, Vec<_>) = drivers.iter().partition(|&&driver| of(driver).is_optional);
    let drawn = optional.into_iter().filter(|&driver| drawn == Some(of(driver).name));
    draw_of_families(law, &others, &of).into_iter().chain(drawn).collect()
}

/// Draws one driver of each family.
fn draw_of_families<D: Copy>(law: &str, drivers: &[D], of: impl Fn(D) -> &'static Descriptor) -> Vec<D> {
    Family::ALL.into_iter().filter_map(|family| draw_of(family, law, drivers, &of)).collect()
}

fn draw_of<D: Copy>(family: Family, law: &str, drivers: &[D], of: impl Fn(D) -> &'static Descriptor) -> Option<D> {
    let members: Vec<_> = drivers.iter().copied().filter(|&driver| Family::of(of(driver)) == family).collect();
    members.get(hash(&(law, family as u8)) % members.len().max(1)).copied()
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
        let laws: Vec<_> = (0..400)
            .map(|law| draw_for_contract(&format!("law {law}"), DriverKind::ALL, DriverKind::descriptor))
            .collect();
        for driver in DriverKind::ALL {
            let count = laws.iter().filter(|drivers| drivers.contains(driver)).count();
            match driver.descriptor().is_optional {
                true => assert!((20..180).contains(&count), "{driver}: {count} laws of 400"),
                false => assert!(count > 160, "{driver}: {count} laws of 400"),
            }
        }
        assert!(
            laws.iter().all(|drivers| drivers.iter().filter(|driver| driver.descriptor().is_optional).count() <= 1)
        );
    }
    #[test]
    fn laws_of_servers_see_two_drivers_and_in_the_end_all() {
        let laws: Vec<_> = (0..400).map(|law| draw_for_server(&format!("law {law}"), DriverKind::ALL)).collect();
        for drivers in &laws {
            let families: Vec<_> = drivers.iter().map(|&driver| Family::of(driver.descriptor())).collect();
            assert!(matches!(families[..], [Family::Threads | Family::Loops, Family::Tasks | Family::Rings]));
        }
        for driver in DriverKind::ALL {
            let count = laws.iter().filter(|drivers| drivers.contains(driver)).count();
            assert!(count > 20, "{driver}: {count} laws of 400");
        }
    }

    #[test]
    fn a_law_of_some_drivers_is_tested_on_some_of_these() {
        let drivers = [DriverKind::Epoll, DriverKind::Uring];
        assert_eq!(draw_for_server("law", &drivers), drivers);
        assert!(draw_for_server("law", &[]).is_empty());
    }
}
