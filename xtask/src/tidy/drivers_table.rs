//! The table of drivers in the README, which is written from the drivers' descriptors.

use std::fs;

use drivers::DriverKind;
use matrix::workspace::root;
use report::results_pages::markers;

/// Set to write the table anew after a change of the descriptors.
const UPDATE: &str = "QUINTET_UPDATE_README";
const PART: &str = "drivers";

fn table() -> String {
    let mut text = "| driver | how it works |\n|---|---|\n".to_owned();
    for kind in DriverKind::ALL {
        let driver = kind.descriptor();
        text += &format!("| `{}` | {} |\n", driver.name, driver.text());
    }
    text
}

#[test]
fn what_drivers_say_of_crates_is_what_is_locked() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let named: Vec<_> = DriverKind::ALL.iter().filter_map(|kind| kind.descriptor().built_on).collect();
    assert!(named.len() >= 8, "{named:?}");
    for built_on in named {
        let (package, version) = built_on.split([',', ';']).next().and_then(|text| text.split_once(' ')).unwrap();
        let locked = format!("name = \"{package}\"\nversion = \"{version}\"\n");
        assert!(lock.contains(&locked), "{built_on}: another version is locked, whose ring flags may be others");
    }
}

#[test]
fn the_readme_has_the_drivers_that_there_are() {
    let path = root().join("README.md");
    let text = fs::read_to_string(&path).unwrap();
    let current = markers::replaced(&text, PART, &table()).unwrap();
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, &current).unwrap();
        return;
    }
    assert!(
        text == current,
        "README.md: the table of drivers is stale; {UPDATE}=1 cargo test -p xtask drivers writes it"
    );
}
