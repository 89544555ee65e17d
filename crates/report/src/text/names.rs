//! Names of cells in Markdown.

use results::{Cell, Role};

pub(super) fn name(cell: &Cell) -> String {
    match cell.role {
        Role::Ours | Role::Control => format!("`{}`", cell.label),
        Role::Null => format!("*{}*", cell.label),
        Role::Peer => {
            let number = cell.version.as_deref().and_then(version_number).unwrap_or_default();
            format!("*{}*", format!("{} {number}", cell.label).trim_end())
        }
    }
}

/// Returns the first word of a version line that begins with a digit, behind a `v=` or a slash if need be.
pub fn version_number(line: &str) -> Option<&str> {
    let mut words = line.split([' ', '=', '/']);
    words.find(|word| word.starts_with(|first: char| first.is_ascii_digit()))
}
