//! A stand-in until the real stores are merged; not to be kept.
#![allow(missing_docs, clippy::all, clippy::unwrap_used)]
use crate::{Attributes, Options, Store, View};
use std::collections::HashMap;
pub struct Naive {
    map: HashMap<Box<[u8]>, u32>,
    slots: Vec<Option<(Box<[u8]>, Box<[u8]>, Attributes, u32)>>,
    options: Options,
}
impl std::fmt::Debug for Naive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Naive")
    }
}
impl Store for Naive {
    type Place = u32;
    fn new(options: Options) -> Self {
        Self { map: HashMap::new(), slots: vec![], options }
    }
    fn hash(&self, key: &[u8]) -> u64 {
        self.options.hasher.hash(key)
    }
    fn find(&self, _: u64, key: &[u8]) -> Option<u32> {
        self.map.get(key).copied()
    }
    fn view(&self, p: u32) -> View<'_> {
        let e = self.slots[p as usize].as_ref().unwrap();
        View { key: &e.0, value: &e.1, attributes: e.2, shared: None }
    }
    fn access(&self, p: u32) -> u32 {
        self.slots[p as usize].as_ref().unwrap().3
    }
    fn set_access(&mut self, p: u32, word: u32) {
        self.slots[p as usize].as_mut().unwrap().3 = word
    }
    fn handle(&self, p: u32) -> u32 {
        p
    }
    fn place(&self, h: u32) -> Option<u32> {
        self.slots.get(h as usize)?.as_ref().map(|_| h)
    }
    fn insert(&mut self, _: u64, key: &[u8], value: &[u8], a: Attributes) -> u32 {
        let p = self.slots.len() as u32;
        self.slots.push(Some((key.into(), value.into(), a, 0)));
        self.map.insert(key.into(), p);
        p
    }
    fn replace(&mut self, _: u64, p: u32, value: &[u8], a: Attributes) -> (u32, bool) {
        let e = self.slots[p as usize].as_mut().unwrap();
        e.1 = value.into();
        e.2 = a;
        (p, false)
    }
    fn remove(&mut self, _: u64, p: u32) {
        let e = self.slots[p as usize].take().unwrap();
        self.map.remove(&e.0);
    }
    fn clear(&mut self) {
        self.map.clear();
        self.slots.clear()
    }
    fn scan(&self, c: u64, visit: &mut dyn FnMut(View<'_>)) -> u64 {
        for p in self.map.values() {
            visit(self.view(*p))
        }
        let _ = c;
        0
    }
    fn sample(&self, _: u64) -> Option<u32> {
        self.map.values().next().copied()
    }
    fn sample_expiring(&self, _: u64) -> Option<u32> {
        None
    }
    fn sweep_expiring(&self, _: u64, _: &mut Vec<u32>) -> u64 {
        0
    }
    fn len(&self) -> usize {
        self.map.len()
    }
    fn expiring(&self) -> usize {
        0
    }
    fn bytes(&self) -> usize {
        0
    }
    fn growth(&self, _: usize, _: usize, _: Attributes) -> usize {
        0
    }
    fn footprint(&self, k: usize, v: usize, _: Attributes) -> usize {
        k + v
    }
    fn compact(&mut self, _: usize, _: usize, _: Attributes) -> bool {
        false
    }
}
