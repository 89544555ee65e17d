//! Files of a run against its visits: whatever was derived is derived once more, and compared.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, Result};
use results::{
    Report,
    record::{Manifest, Visit},
};

use super::{VISITS, derived};
use crate::judge::raw;

/// Compares every derived file with what the visits say, and returns a sentence for each that differs.
///
/// # Errors
/// The run cannot be read.
pub(crate) fn differences(
    directory: &Path,
    manifest: &Manifest,
    visits: &[Vec<Visit>],
    report: &Report,
) -> Result<Vec<String>> {
    let path = directory.join(VISITS);
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let known: BTreeSet<String> = visits.iter().flatten().map(raw::line).collect::<serde_json::Result<_>>()?;
    let changed = (1..).zip(text.lines()).filter(|(_, line)| !known.contains(*line));
    let mut found: Vec<String> =
        changed.map(|(number, _)| format!("{VISITS} line {number}: not as a visit is written")).collect();
    for (name, expected) in derived(manifest, visits, report)? {
        match fs::read_to_string(directory.join(name)) {
            Ok(text) => found.extend(first_difference(&text, &expected).map(|words| format!("{name} {words}"))),
            Err(error) => found.push(format!("{name}: {error}")),
        }
    }
    Ok(found)
}

/// Characters before and behind a difference that are quoted.
const QUOTED: usize = 30;

/// `line 7: has “…”, the visits say “…”`; `None` if there is no difference.
fn first_difference(text: &str, expected: &str) -> Option<String> {
    if text == expected {
        return None;
    }
    let same = text.bytes().zip(expected.bytes()).take_while(|(one, other)| one == other).count();
    let line = text.as_bytes()[..same].iter().filter(|byte| **byte == b'\n').count() + 1;
    let quoted = |text: &str| {
        let (from, to) = (same.saturating_sub(QUOTED), (same + QUOTED).min(text.len()));
        String::from_utf8_lossy(&text.as_bytes()[from.min(to)..to]).replace(['\n', '\u{fffd}'], " ")
    };
    Some(format!("line {line}: has “{}”, the visits say “{}”", quoted(text), quoted(expected)))
}

#[cfg(test)]
mod tests {
    use report::VISITS_PAGE;

    use super::{
        super::{CSV, MANIFEST, MARKDOWN, REPORT, SUMMARY, Store, TIDY, load, tests::manifest},
        *,
    };
    use crate::{judge::analysis, samples};

    type Edit<'a> = &'a dyn Fn(&str) -> String;

    /// A run whose derived files are there.
    fn written(directory: &Path) -> (Manifest, Vec<Vec<Visit>>) {
        let manifest = manifest();
        let mut store = Store::create(directory, &manifest).unwrap();
        let slots = manifest.matrices[0].plan.iter().enumerate().flat_map(|(block, slots)| {
            slots.iter().enumerate().map(move |(slot, due)| (u32::try_from((block * 100 + slot) as u64).unwrap(), due))
        });
        for (at, due) in slots {
            let (block, slot) = (at / 100, at % 100);
            let (cell, workload) = (due.cell.clone(), due.workload.clone());
            store.append(&Visit { block, slot, cell, workload, ..samples::visit() }).unwrap();
        }
        let (_, manifest, visits) = Store::open(directory).unwrap();
        let visits = manifest.by_matrix(visits);
        store.write_summary(&manifest, &visits, &analysis::report(&manifest, &visits)).unwrap();
        (manifest, visits)
    }

    /// What a check of the directory finds.
    fn found(directory: &Path) -> Vec<String> {
        let (manifest, visits) = load(directory).unwrap();
        let visits = manifest.by_matrix(visits);
        differences(directory, &manifest, &visits, &analysis::report(&manifest, &visits)).unwrap()
    }

    #[test]
    fn a_figure_or_a_visit_that_was_edited_is_found() {
        let directory = tempfile::tempdir().unwrap();
        written(directory.path());
        assert_eq!(found(directory.path()), Vec::<String>::new());
        for name in [SUMMARY, CSV, TIDY, MARKDOWN, VISITS_PAGE, REPORT] {
            let path = directory.path().join(name);
            let text = fs::read_to_string(&path).unwrap();
            // One digit of the last number.
            let at = text.rfind(|character: char| character.is_ascii_digit()).unwrap();
            let digit = if &text[at..=at] == "7" { "8" } else { "7" };
            fs::write(&path, format!("{}{digit}{}", &text[..at], &text[at + 1..])).unwrap();
            let said = found(directory.path());
            assert!(said.len() == 1 && said[0].starts_with(&format!("{name} line ")), "{said:?}");
            fs::write(&path, text).unwrap();
        }
        fs::remove_file(directory.path().join(REPORT)).unwrap();
        assert!(found(directory.path())[0].starts_with(REPORT));
    }

    #[test]
    fn an_edited_sentence_link_or_list_of_visits_is_found() {
        let directory = tempfile::tempdir().unwrap();
        written(directory.path());
        let first_line = |text: &str| text.split_inclusive('\n').next().unwrap().to_owned();
        let edits: [(&str, Edit<'_>); 7] = [
            // A claim, turned round.
            (REPORT, &|text| text.replacen("cheaper", "costlier", 1)),
            (MARKDOWN, &|text| text.replacen("No difference", "A difference", 1)),
            // A figure that leads to another visit's line.
            (REPORT, &|text| {
                let at = text.find("visits.html#").unwrap() + "visits.html#".len();
                let digit = if &text[at..=at] == "0" { "1" } else { "0" };
                format!("{}{digit}{}", &text[..at], &text[at + 1..])
            }),
            (VISITS, &|text| text[first_line(text).len()..].to_owned()),
            (VISITS, &|text| text.to_owned() + &first_line(text)),
            (VISITS, &|text| text.replacen("\"ok\":1000", "\"ok\":1001", 1)),
            (MANIFEST, &|text| text.replacen("\"seed\": 7", "\"seed\": 8", 1)),
        ];
        for (number, (name, edit)) in edits.into_iter().enumerate() {
            let path = directory.path().join(name);
            let text = fs::read_to_string(&path).unwrap();
            let edited = edit(&text);
            assert_ne!(edited, text, "edit {number} of {name}");
            fs::write(&path, edited).unwrap();
            // A line that is there twice may be refused by whoever reads the run.
            let is_found = load(directory.path()).is_err() || !found(directory.path()).is_empty();
            assert!(is_found, "edit {number} of {name}");
            fs::write(&path, text).unwrap();
        }
    }

    #[test]
    fn a_page_does_not_belong_to_visits_that_were_edited() {
        let directory = tempfile::tempdir().unwrap();
        let (_, visits) = written(directory.path());
        let path = directory.path().join(VISITS);
        let text = fs::read_to_string(&path).unwrap();
        // A visit that is as good as the others for whoever reads it.
        let line = raw::line(&visits[0][3]).unwrap();
        let cheaper = line.replace("\"cpu_us\":4.0", "\"cpu_us\":3.0");
        assert_ne!(line, cheaper);
        fs::write(&path, text.replacen(&line, &cheaper, 1)).unwrap();
        let said = found(directory.path());
        for name in [SUMMARY, TIDY, VISITS_PAGE, REPORT] {
            assert!(said.iter().any(|words| words.starts_with(name)), "{name}: {said:?}");
        }
        // A field that nobody reads would make no figure, but it is no visit's line any more.
        fs::write(&path, text.replacen("{\"v\":2,", "{\"v\":2,\"more\":1,", 1)).unwrap();
        assert_eq!(found(directory.path()), [format!("{VISITS} line 1: not as a visit is written")]);
    }
}
