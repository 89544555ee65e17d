//! The data behind the curves, as JSON inside the page: what the script reads.

use results::LatencyFigures;
use serde_json::{Number, Value, json};

use super::{histogram, latency, load_sweep, timeline};
use crate::matrix_view::{MatrixView, curve};

/// Significant digits of the embedded numbers; `summary.json` has them all.
const DIGITS: usize = 4;

/// Writes the object that the script reads. `matrices`, each with `cells`, `label`
/// and `levels`: per series id of the pictures the cell's id, its label and its choices (`driver=uring`); `workloads`: names,
/// in the order of the columns; `results`: the curves of what is drawn.
///
/// Safe inside a `script` element of HTML and of XML alike.
pub(super) fn json(views: &[MatrixView<'_>]) -> String {
    let matrices = views.iter().map(matrix).collect::<Vec<_>>();
    guarded(&json!({ "matrices": matrices }).to_string())
}

fn matrix(view: &MatrixView<'_>) -> Value {
    let per_series = |value: &dyn Fn(usize) -> Value| -> Value {
        view.series.iter().enumerate().map(|(row, series)| (series.id.clone(), value(row))).collect()
    };
    let workloads: Vec<&str> = view.workloads().iter().map(|w| w.name.as_str()).collect();
    let levels = |row: usize| -> Vec<String> {
        view.cells()[row].factors.iter().map(|(factor, level)| format!("{factor}={level}")).collect()
    };
    json!({
        "cells": per_series(&|row| json!(view.cells()[row].id)),
        "label": per_series(&|row| json!(view.cells()[row].label)),
        "levels": per_series(&|row| json!(levels(row))),
        "workloads": workloads,
        "results": results(view),
    })
}

/// The curves that are drawn: which those are, the sections say.
fn results(view: &MatrixView<'_>) -> Value {
    let of_place = |(row, column): (usize, usize)| {
        let (figures, drawn) = (view.figures(row, column)?, drawn(view, row, column));
        let latency = |latency: &Option<LatencyFigures>| {
            latency.as_ref().map(|latency| json!({ "points": curve(latency), "density": latency.density }))
        };
        let mut curves = serde_json::Map::new();
        if drawn.latency {
            curves.extend(latency(&figures.response).map(|it| ("response".to_owned(), it)));
            curves.extend(latency(&figures.service).map(|it| ("service".to_owned(), it)));
        }
        if drawn.windows && !figures.further.windows.is_empty() {
            curves.insert("windows".to_owned(), json!(figures.further.windows));
        }
        if drawn.sweep && !figures.sweep.is_empty() {
            curves.insert("sweep".to_owned(), json!(figures.sweep));
        }
        let (cell, workload) = (&view.cells()[row].id, &view.workloads()[column].name);
        (!curves.is_empty()).then(|| json!({ "cell": cell, "workload": workload, "figures": curves }))
    };
    let mut value: Value = view.places().filter_map(of_place).collect();
    round(&mut value);
    leave_out_zeros(&mut value);
    pack(&mut value);
    value
}

/// Pictures of a workload that read curves.
struct Drawn {
    latency: bool,
    windows: bool,
    sweep: bool,
}

fn drawn(view: &MatrixView<'_>, row: usize, column: usize) -> Drawn {
    Drawn {
        latency: latency::columns(view).0.contains(&column) && latency::rows(view, column).contains(&row)
            || histogram::columns(view).0.contains(&column) && histogram::rows(view, column).contains(&row),
        windows: timeline::columns(view).0.contains(&column) && timeline::rows(view, column).contains(&row),
        sweep: load_sweep::columns(view).0.contains(&column) && load_sweep::rows(view, column).contains(&row),
    }
}

/// Removes members of windows that are zero in all windows of a visit; whoever reads them takes zero for what is absent.
fn leave_out_zeros(value: &mut Value) {
    for result in value.as_array_mut().into_iter().flatten() {
        let Some(windows) = result.pointer_mut("/figures/windows").and_then(Value::as_array_mut) else { continue };
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
