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
        text += &format!("| `{}` | {} |\n", driver.name, driver.about);
    }
    text
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
