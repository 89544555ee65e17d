//! Which settings of the parts must agree, which add up, and which do not matter.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{MergeError, Order, Part};

/// Each generator has its own share of these.
const SHARED_OUT: &[&str] = &["clients", "connections", "rate", "rates", "requestors", "requests", "threads"];
/// Each run has its own.
const BY_RUN: &[&str] = &["duration_s", "requests"];
/// They say nothing about the measurement; where they differ the whole has null.
const PRIVATE: &[&str] =
    &["content", "fifo_dir", "pin", "prepared_requests", "request_log_size", "seed", "source_addresses"];

/// How many results went into a merged one, and how they lay in time.
const COUNT: &str = "merged";
const ORDER: &str = "merged_as";

type Config = BTreeMap<String, Value>;

pub(super) fn merge(parts: &[Part], order: Order) -> Result<Config, MergeError> {
    let summed = match order {
        Order::Concurrent => SHARED_OUT,
        Order::Consecutive => BY_RUN,
    };
    let names: BTreeSet<_> = parts.iter().flat_map(|part| part.result.config.keys()).collect();
    let mut merged = Config::new();
    for name in names.into_iter().filter(|name| name.as_str() != COUNT) {
        let value = merge_one(parts, name, summed)?;
        merged.insert(name.clone(), value);
    }
    if parts.len() > 1 {
        let count = |part: &Part| part.result.config.get(COUNT).and_then(Value::as_u64).unwrap_or(1);
        merged.insert(COUNT.to_owned(), json!(parts.iter().map(count).sum::<u64>()));
        merged.insert(ORDER.to_owned(), json!(order.name()));
    } else if let Some(count) = parts.first().and_then(|part| part.result.config.get(COUNT)) {
        merged.insert(COUNT.to_owned(), count.clone());
    }
    Ok(merged)
}

fn merge_one(parts: &[Part], name: &str, summed: &[&str]) -> Result<Value, MergeError> {
    let value = |part: &Part| part.result.config.get(name).cloned().unwrap_or(Value::Null);
    let values: Vec<_> = parts.iter().map(value).collect();
    if summed.contains(&name)
        && let Some(sum) = sum(&values)
    {
        return Ok(sum);
    }
    let Some(place) = values.iter().position(|value| *value != values[0]) else { return Ok(values[0].clone()) };
    if PRIVATE.contains(&name) {
        return Ok(Value::Null);
    }
    // A merged result may be merged with a plain one, which says nothing of an order.
    if name == ORDER {
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

/// Of numbers, or of arrays of them that are as long as one another.
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
