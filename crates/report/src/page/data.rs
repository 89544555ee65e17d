//! The data behind the pictures, as JSON inside the page: what the script reads and what a reader can save.

use results::{Outcome, Report, Summary};
use serde_json::{Number, Value, json};

use crate::{
    matrix_view::{MatrixView, curve},
    text::csv::csv,
};

/// Significant digits of the embedded numbers; `summary.json` has them all.
const DIGITS: usize = 4;

/// Writes the object that the script reads. `csv`: the text of `summary.csv`. `matrices`, each with `summary`: the
/// summary with thinned curves; `cells` and `label`: per series id of the pictures, the cell's id and its label;
/// `workloads`: names, in the order of the columns.
///
/// Safe inside a `script` element of HTML and of XML alike.
pub(super) fn json(report: &Report, views: &[MatrixView<'_>]) -> String {
    let matrices = views.iter().map(matrix).collect::<Vec<_>>();
    guarded(&json!({ "csv": csv(report), "matrices": matrices }).to_string())
}

fn matrix(view: &MatrixView<'_>) -> Value {
    let per_series = |value: &dyn Fn(usize) -> Value| -> Value {
        view.series.iter().enumerate().map(|(row, series)| (series.id.clone(), value(row))).collect()
    };
    let workloads: Vec<&str> = view.workloads().iter().map(|w| w.name.as_str()).collect();
    json!({
        "summary": summary(view.summary),
        "cells": per_series(&|row| json!(view.cells()[row].id)),
        "label": per_series(&|row| json!(view.cells()[row].label)),
        "workloads": workloads,
    })
}

fn summary(summary: &Summary) -> Value {
    let mut thin = summary.clone();
    for result in &mut thin.results {
        if let Outcome::Measured(figures) = &mut result.outcome {
            for latency in [&mut figures.response, &mut figures.service].into_iter().flatten() {
                latency.points = curve(latency);
            }
        }
    }
    // A summary is plain data with string keys; if that ever changes, the pictures still stand without the script.
    let mut value = serde_json::to_value(&thin).unwrap_or(Value::Null);
    round(&mut value);
    leave_out_absent(&mut value);
    pack(&mut value);
    value
}

/// Removes secondary figures that there are none of, and members of windows that are zero in all windows of a visit; whoever reads
/// them takes null and zero for what is absent.
fn leave_out_absent(value: &mut Value) {
    let results = value.get_mut("results").and_then(Value::as_array_mut);
    for result in results.into_iter().flatten() {
        let further = result.pointer_mut("/outcome/measured/further").and_then(Value::as_object_mut);
        let Some(further) = further else { continue };
        further.retain(|_, value| !value.is_null());
        let Some(windows) = further.get_mut("windows").and_then(Value::as_array_mut) else { continue };
        for name in ["errors_rps", "lag_us"] {
            if windows.iter().all(|window| window.get(name).and_then(Value::as_f64) == Some(0.0)) {
                windows.iter_mut().filter_map(Value::as_object_mut).for_each(|window| drop(window.remove(name)));
            }
        }
    }
}

/// Turns lists of objects with the same members into tables: `{"@": [names], "rows": [[values], …]}`. Half the size.
fn pack(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(pack),
        Value::Array(list) => {
            list.iter_mut().for_each(pack);
            if let Some(table) = table(list) {
                *value = table;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn table(list: &[Value]) -> Option<Value> {
    let [Value::Object(first), _, ..] = list else { return None };
    let names: Vec<&String> = first.keys().collect();
    let row = |one: &Value| {
        let one = one.as_object().filter(|one| one.keys().eq(first.keys()))?;
        Some(Value::Array(one.values().cloned().collect()))
    };
    let rows: Vec<Value> = list.iter().map(row).collect::<Option<_>>()?;
    Some(json!({ "@": names, "rows": rows }))
}

fn round(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let rounded = number.as_f64().and_then(|v| format!("{v:.*e}", DIGITS - 1).parse().ok());
            // A whole number needs no `.0`.
            let whole = |v: &f64| v.fract() == 0.0 && v.abs() < 1e15;
            let shortest = |v: f64| if whole(&v) { Some(Number::from(v as i64)) } else { Number::from_f64(v) };
            if let Some(rounded) = rounded.and_then(shortest) {
                *number = rounded;
            }
        }
        Value::Array(list) => list.iter_mut().for_each(round),
        Value::Object(map) => map.values_mut().for_each(round),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Escapes what must not stand in a script element. Outside its strings JSON has none of these characters, so the escapes of strings serve everywhere. The colon of an
/// address and the at sign go too: whoever searches the file for something it loads must find nothing.
fn guarded(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '@' => out.push_str("\\u0040"),
            '\u{fffe}' => out.push_str("\\ufffe"),
            '\u{ffff}' => out.push_str("\\uffff"),
            _ => out.push(c),
        }
    }
    out.replace("http:", "http\\u003a").replace("https:", "https\\u003a")
}
