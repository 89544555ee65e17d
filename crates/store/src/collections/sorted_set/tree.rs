//! Weight-balanced tree over the positions of a table: order and ranks in logarithmic time.
//!
//! Nodes have the numbers of the entries that they stand for, and know nothing of their order: each call is told how the
//! sought entry compares with a node's. The weight of a tree is its size plus one; that of a subtree is at most
//! [`DELTA`] times its sibling's. With these two constants one single or double rotation restores that after a change of
//! one node (Hirai and Yamamoto, "Balancing weight-balanced trees", 2011).

use std::{cmp::Ordering, ops::Range};

use crate::slotted::allocated;

const NIL: u32 = u32::MAX;
const DELTA: u64 = 3;
const GAMMA: u64 = 2;

#[derive(Clone, Copy, Debug)]
struct Node {
    children: [u32; 2],
    size: u32,
}

const LEFT: usize = 0;
const RIGHT: usize = 1;

/// Order of the entries of a table.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    root: u32,
}

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: Vec::new(), root: NIL }
    }
}

impl Tree {
    /// Returns the memory held, the tree itself excluded.
    pub(super) fn bytes(&self) -> usize {
        allocated(self.nodes.capacity() * size_of::<Node>())
    }

    /// Makes room for the node of the entry that has been added at the end of the table.
    pub(super) fn push(&mut self) {
        self.nodes.push(Node { children: [NIL; 2], size: 1 });
    }

    /// Puts a node in its place; `compare` orders the entry before or after another.
    pub(super) fn link(&mut self, node: u32, compare: &impl Fn(u32) -> Ordering) {
        self.nodes[node as usize] = Node { children: [NIL; 2], size: 1 };
        self.root = self.link_below(self.root, node, compare);
    }

    fn link_below(&mut self, root: u32, node: u32, compare: &impl Fn(u32) -> Ordering) -> u32 {
        if root == NIL {
            return node;
        }
        let side = if compare(root).is_lt() { LEFT } else { RIGHT };
        let child = self.link_below(self.child(root, side), node, compare);
        self.nodes[root as usize].children[side] = child;
        self.balance(root)
    }

    /// Takes a node out of the order; `compare` is equal for that node alone.
    pub(super) fn unlink(&mut self, compare: &impl Fn(u32) -> Ordering) {
        self.root = self.unlink_below(self.root, compare);
    }

    fn unlink_below(&mut self, root: u32, compare: &impl Fn(u32) -> Ordering) -> u32 {
        if root == NIL {
            return NIL;
        }
        let side = match compare(root) {
            Ordering::Less => LEFT,
            Ordering::Greater => RIGHT,
            Ordering::Equal => return self.join(self.nodes[root as usize].children),
        };
        let child = self.unlink_below(self.child(root, side), compare);
        self.nodes[root as usize].children[side] = child;
        self.balance(root)
    }

    /// Makes one tree of two siblings.
    fn join(&mut self, [left, right]: [u32; 2]) -> u32 {
        if left == NIL || right == NIL {
            return if left == NIL { right } else { left };
        }
        let side = if self.size(left) > self.size(right) { LEFT } else { RIGHT };
        let (rest, nearest) = self.take_outermost([left, right][side], 1 - side);
        let mut children = [left, right];
        children[side] = rest;
        self.nodes[nearest as usize].children = children;
        self.balance(nearest)
    }

    /// Takes the first or the last node out of a tree. Returns the rest and the node.
    fn take_outermost(&mut self, root: u32, side: usize) -> (u32, u32) {
        let child = self.child(root, side);
        if child == NIL {
            return (self.child(root, 1 - side), root);
        }
        let (rest, taken) = self.take_outermost(child, side);
        self.nodes[root as usize].children[side] = rest;
        (self.balance(root), taken)
    }

    /// Removes the last node of the table, after giving its place in the order to `to`, which is not linked; `compare`
    /// finds the last node.
    pub(super) fn pop_into(&mut self, to: u32, compare: &impl Fn(u32) -> Ordering) {
        let last = (self.nodes.len() - 1) as u32;
        if to != last {
            let (mut parent, mut node) = (None, self.root);
            while node != last && node != NIL {
                let side = if compare(node).is_lt() { LEFT } else { RIGHT };
                parent = Some((node, side));
                node = self.child(node, side);
            }
            match parent {
                Some((parent, side)) => self.nodes[parent as usize].children[side] = to,
                None => self.root = to,
            }
            self.nodes[to as usize] = self.nodes[last as usize];
        }
        self.nodes.pop();
        if self.nodes.len() < self.nodes.capacity() / 4 {
            self.nodes.shrink_to(self.nodes.len() * 2);
        }
    }

    /// Returns the number of entries for which `is_before` holds; it holds for none behind the first for which it does not.
    pub(super) fn partition_point(&self, is_before: impl Fn(u32) -> bool) -> usize {
        let (mut node, mut rank) = (self.root, 0);
        while node != NIL {
            node = match is_before(node) {
                true => {
                    rank += self.size(self.child(node, LEFT)) as usize + 1;
                    self.child(node, RIGHT)
                }
                false => self.child(node, LEFT),
            };
        }
        rank
    }

    /// Visits the entries of a range of ranks, in order or in reverse.
    pub(super) fn visit(&self, range: Range<usize>, is_reverse: bool, visit: &mut impl FnMut(u32)) {
        self.visit_below(self.root, 0, &range, is_reverse, visit);
    }

    fn visit_below(
        &self,
        root: u32,
        first: usize,
        range: &Range<usize>,
        is_reverse: bool,
        visit: &mut impl FnMut(u32),
    ) {
        if root == NIL || first >= range.end || first + self.size(root) as usize <= range.start {
            return;
        }
        let [left, right] = self.nodes[root as usize].children;
        let rank = first + self.size(left) as usize;
        let sides = if is_reverse { [(right, rank + 1), (left, first)] } else { [(left, first), (right, rank + 1)] };
        self.visit_below(sides[0].0, sides[0].1, range, is_reverse, visit);
        if range.contains(&rank) {
            visit(root);
        }
        self.visit_below(sides[1].0, sides[1].1, range, is_reverse, visit);
    }

    fn child(&self, node: u32, side: usize) -> u32 {
        self.nodes[node as usize].children[side]
    }

    fn size(&self, node: u32) -> u32 {
        if node == NIL { 0 } else { self.nodes[node as usize].size }
    }

    fn weight(&self, node: u32) -> u64 {
        u64::from(self.size(node)) + 1
    }

    /// Brings the size of a node up to date, and rotates its tree if one side has become too heavy. Returns the root.
    fn balance(&mut self, root: u32) -> u32 {
        let [left, right] = self.nodes[root as usize].children;
        self.update_size(root);
        let heavy = match (self.weight(left), self.weight(right)) {
            (left, right) if left > DELTA * right => LEFT,
            (left, right) if right > DELTA * left => RIGHT,
            _ => return root,
        };
        let child = self.child(root, heavy);
        if self.weight(self.child(child, 1 - heavy)) >= GAMMA * self.weight(self.child(child, heavy)) {
            let lifted = self.rotate(child, 1 - heavy);
            self.nodes[root as usize].children[heavy] = lifted;
        }
        self.rotate(root, heavy)
    }

    /// Lifts the child on one side above its parent. Returns it.
    fn rotate(&mut self, root: u32, side: usize) -> u32 {
        let child = self.child(root, side);
        self.nodes[root as usize].children[side] = self.child(child, 1 - side);
        self.nodes[child as usize].children[1 - side] = root;
        self.update_size(root);
        self.update_size(child);
        child
    }

    fn update_size(&mut self, node: u32) {
        let [left, right] = self.nodes[node as usize].children;
        self.nodes[node as usize].size = self.size(left) + self.size(right) + 1;
    }

    /// Checks sizes and weights of the whole tree.
    #[cfg(test)]
    pub(super) fn check(&self) {
        fn below(tree: &Tree, node: u32) -> u64 {
            if node == NIL {
                return 1;
            }
            let [left, right] = tree.nodes[node as usize].children;
            let (left, right) = (below(tree, left), below(tree, right));
            assert!(left <= DELTA * right && right <= DELTA * left, "weights {left} and {right}");
            assert_eq!(tree.weight(node), left + right);
            left + right
        }
        assert_eq!(below(self, self.root), self.nodes.len() as u64 + 1);
    }
}
