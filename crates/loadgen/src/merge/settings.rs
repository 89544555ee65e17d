//! Settings of merged results: some must be equal, some add up, and some do not matter.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum as _;
use serde_json::{Value, json};

use super::{MergeError, Order};
use crate::result::NamedResult;

/// Settings of which each concurrent generator has its share.
const SHARES: &[&str] = &["clients", "connections", "rate", "rates", "requestors", "requests", "threads"];
/// Settings of which consecutive runs each have their own.
const PER_RUN: &[&str] = &["duration_s", "requests"];
/// Settings that may differ, since they say nothing about the measurement: the whole then has null.
const MAY_DIFFER: &[&str] =
    &["content", "fifo_dir", "pin", "prepared_requests", "request_log_size", "seed", "source_addresses"];

/// Number of results that went into a merged one.
const COUNT: &str = "merged";
/// Their order in time.
const ORDER: &str = "merged_as";

type Config = BTreeMap<String, Value>;

fn order_name(order: Order) -> Option<String> {
    order.to_possible_value().map(|value| value.get_name().to_owned())
}

pub(super) fn merge(parts: &[NamedResult], order: Order) -> Result<Config, MergeError> {
    let summed = match order {
        Order::Concurrent => SHARES,
        Order::Consecutive => PER_RUN,
    };
    let names: BTreeSet<_> = parts.iter().flat_map(|part| part.result.config.keys()).collect();
    let mut merged = Config::new();
    for name in names.into_iter().filter(|name| name.as_str() != COUNT) {
        let value = merge_one(parts, name, summed)?;
        merged.insert(name.clone(), value);
    }
    if parts.len() > 1 {
        let count = |part: &NamedResult| part.result.config.get(COUNT).and_then(Value::as_u64).unwrap_or(1);
        merged.insert(COUNT.to_owned(), json!(parts.iter().map(count).sum::<u64>()));
        merged.insert(ORDER.to_owned(), json!(order_name(order)));
    } else if let Some(count) = parts.first().and_then(|part| part.result.config.get(COUNT)) {
        merged.insert(COUNT.to_owned(), count.clone());
    }
    Ok(merged)
}

fn merge_one(parts: &[NamedResult], name: &str, summed: &[&str]) -> Result<Value, MergeError> {
    let value = |part: &NamedResult| part.result.config.get(name).cloned().unwrap_or(Value::Null);
    let values: Vec<_> = parts.iter().map(value).collect();
    if summed.contains(&name)
        && let Some(sum) = sum(&values)
    {
        return Ok(sum);
    }
    let Some(place) = values.iter().position(|value| *value != values[0]) else { return Ok(values[0].clone()) };
    // A merged result may be merged with a plain one, which has no order.
    if MAY_DIFFER.contains(&name) || name == ORDER {
        return Ok(Value::Null);
    }
    Err(MergeError::Differs {
        what: name.to_owned(),
        first: parts[0].name.clone(),
        ours: values[0].to_string(),
        other: parts[place].name.clone(),
        theirs: values[place].to_string(),
    })
}

/// Adds up numbers, or arrays of numbers of the same length.
fn sum(values: &[Value]) -> Option<Value> {
    if let Some(whole) = values.iter().map(Value::as_u64).sum::<Option<u64>>() {
        return Some(json!(whole));
    }
    if let Some(number) = values.iter().map(Value::as_f64).sum::<Option<f64>>() {
        return Some(json!(number));
    }
    let arrays = values.iter().map(Value::as_array).collect::<Option<Vec<_>>>()?;
    let length = arrays.first()?.len();
    if arrays.iter().any(|array| array.len() != length) {
        return None;
    }
    let column = |index: usize| sum(&arrays.iter().map(|array| array[index].clone()).collect::<Vec<_>>());
    (0..length).map(column).collect::<Option<Vec<_>>>().map(Value::Array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_arrays_of_numbers_have_sums() {
        assert_eq!(sum(&[json!(1), json!(2)]), Some(json!(3)));
        assert_eq!(sum(&[json!(1.5), json!(2)]), Some(json!(3.5)));
        assert_eq!(sum(&[json!([1, 2.5]), json!([3, 4])]), Some(json!([4, 6.5])));
        assert_eq!(sum(&[json!([1]), json!([3, 4])]), None);
        assert_eq!(sum(&[json!(null), json!(null)]), None);
    }
}
