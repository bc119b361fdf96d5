//! A sample of the economy's tree.

use std::collections::HashMap;
use tombola_kernel::abi::{Node, kind};

/// The part of the tree that contains a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// Base itself.
    Base,
    /// Best effort: the node is a user, or in a user's currency.
    BestEffort,
    Reservation,
    /// The frozen root: the node is frozen, or a user or currency that contains it.
    Frozen,
}

/// A thread, or a loan of tickets. A loan is active like a thread, and so is its borrower beside it; one CPU serves both.
pub fn is_leaf(node: &Node) -> bool {
    [kind::THREAD, kind::LOAN].contains(&node.kind)
}

pub fn is_process(node: &Node, parent_kind: Option<u32>) -> bool {
    match node.kind {
        kind::PROCESS => true,
        kind::THREAD => parent_kind != Some(kind::PROCESS),
        _ => false,
    }
}

/// The nodes that hold the processes' tickets, each with the part of the tree that contains it.
pub fn processes(nodes: &[Node]) -> Vec<(Node, Under)> {
    let sample = Sample::new(nodes);
    (0..sample.nodes.len())
        .filter(|place| is_process(&sample.nodes[*place], sample.parent_kind(*place)))
        .map(|place| (sample.nodes[place], sample.under[place]))
        .collect()
}

/// A sample of the tree, parents before their children.
pub struct Sample {
    pub nodes: Vec<Node>,
    pub parent: Vec<Option<usize>>,
    pub under: Vec<Under>,
}

impl Sample {
    // Leaves out nodes whose parent is missing, because it was made or freed while the tree was read.
    pub fn new(nodes: &[Node]) -> Self {
        let mut children: HashMap<u32, Vec<Node>> = HashMap::new();
        for node in nodes {
            children.entry(node.parent).or_default().push(*node);
        }
        let mut nodes = children.remove(&0).unwrap_or_default();
        let mut parent = vec![None; nodes.len()];
        let mut next = 0;
        while let Some(node) = nodes.get(next) {
            let found = children.remove(&node.index).unwrap_or_default();
            parent.resize(parent.len() + found.len(), Some(next));
            nodes.extend(found);
            next += 1;
        }
        let mut under: Vec<Under> = Vec::new();
        for (node, parent) in nodes.iter().zip(&parent) {
            let above = parent.map_or(Under::Base, |parent| under[parent]);
            under.push(match node.kind {
                kind::BEST_EFFORT => Under::BestEffort,
                kind::RESERVATION => Under::Reservation,
                kind::FROZEN => Under::Frozen,
                _ => above,
            });
        }
        Self {
            nodes,
            parent,
            under,
        }
    }

    pub fn parent_kind(&self, place: usize) -> Option<u32> {
        self.parent[place].map(|parent| self.nodes[parent].kind)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn node(index: u32, parent: u32, kind: u32, tickets: u32) -> Node {
        Node {
            index,
            parent,
            kind,
            tickets,
            active: 1,
            tgid: index,
            ..Node::default()
        }
    }

    // As the kernel counts them.
    pub fn settled(mut nodes: Vec<Node>) -> Vec<Node> {
        for place in 0..nodes.len() {
            let (index, of) = (nodes[place].index, nodes.clone());
            let active = of
                .iter()
                .filter(|node| node.parent == index && node.active != 0);
            nodes[place].clients = active.clone().count() as u32;
            nodes[place].weight = active.map(|node| u64::from(node.tickets)).sum();
        }
        nodes
    }

    /// The roots, best effort and a single user, without processes.
    pub fn users() -> Vec<Node> {
        vec![
            node(1, 0, kind::BASE, 1),
            node(2, 1, kind::BEST_EFFORT, 2_500),
            node(3, 0, kind::FROZEN, 1),
            node(4, 2, kind::USER, 1_000),
        ]
    }

    #[test]
    fn a_node_without_its_parent_is_left_out() {
        let nodes = [node(1, 0, kind::BASE, 1), node(9, 8, kind::THREAD, 100)];
        assert_eq!(Sample::new(&nodes).nodes.len(), 1);
    }
}
