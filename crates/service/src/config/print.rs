//! `--print-config`: the configuration in use, as a file with the same meaning.

use super::{Effective, Origin, Setting};

pub(super) fn print(effective: &Effective, name: &str) -> String {
    let mut text = format!("# Configuration of {name} in use; --config reads it.\n");
    for setting in &effective.top {
        push(&mut text, setting);
    }
    for host in &effective.hosts {
        text += "\n[[host]] # what it does not say is as above\n";
        for setting in host {
            push(&mut text, setting);
        }
    }
    text
}

fn push(text: &mut String, setting: &Setting) {
    let Setting { key, values, origin, is_secret, .. } = setting;
    match values {
        None => *text += &format!("# {key} is not set\n"),
        Some(_) if *is_secret => *text += &format!("# {key} is set and not shown # {}\n", origin_of(origin)),
        Some(_) => {
            let value = value(setting).unwrap_or_default();
            *text += &format!("{key} = {value} # {}\n", origin_of(origin));
        }
    }
}

pub(super) fn value(setting: &Setting) -> Option<String> {
    Some(match &setting.values.as_ref()?[..] {
        [value] if !setting.is_several => scalar(value),
        values => format!("[{}]", values.iter().map(|value| scalar(value)).collect::<Vec<_>>().join(", ")),
    })
}

/// Writes whole numbers and truth values as such, where they read back as the same text.
fn scalar(value: &str) -> String {
    let is_number = value.parse::<i64>().is_ok_and(|number| number.to_string() == value);
    if is_number || matches!(value, "true" | "false") {
        return value.to_owned();
    }
    toml_string(value)
}

/// Writes a basic string, on one line whatever is in it.
fn toml_string(value: &str) -> String {
    let mut text = String::from('"');
    for character in value.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            control if control.is_control() => text += &format!("\\u{:04X}", u32::from(control)),
            other => text.push(other),
        }
    }
    text + "\""
}

fn origin_of(origin: &Origin) -> String {
    match origin {
        Origin::Default => "default".to_owned(),
        Origin::Flag => "flag".to_owned(),
        Origin::Variable(name) => format!("environment, {name}"),
        Origin::Line(line) => format!("line {line}"),
    }
}
