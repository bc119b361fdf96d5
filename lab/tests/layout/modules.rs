//! The modules of a crate, a file each, and which of them uses which.
//!
//! Paths inside the arguments of macros are not seen, as the parser does not look there; what tests alone use is left out.

use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{Attribute, ItemMod, ItemUse, UseTree};

type Segments = Vec<String>;

/// Sources by their names.
pub struct Modules(pub BTreeMap<String, String>);

impl Modules {
    /// Files that use one another in a circle, the first one again at the end.
    pub fn circle(&self) -> Option<Vec<String>> {
        let mut uses: BTreeMap<&str, BTreeSet<String>> = self
            .0
            .iter()
            .map(|(name, text)| (&**name, self.used_by(name, text)))
            .collect();
        // A module that uses none of the remaining ones is no part of a circle.
        while let Some(free) = uses.iter().find_map(|(name, used)| {
            used.iter()
                .all(|used| !uses.contains_key(&**used))
                .then_some(*name)
        }) {
            uses.remove(free);
        }
        let mut circle = vec![uses.keys().next()?.to_string()];
        loop {
            let next = uses[&**circle.last()?]
                .iter()
                .find(|used| uses.contains_key(&***used))?;
            if let Some(first) = circle.iter().position(|name| name == next) {
                circle.push(next.clone());
                return Some(circle.split_off(first));
            }
            circle.push(next.clone());
        }
    }

    fn used_by(&self, name: &str, text: &str) -> BTreeSet<String> {
        let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut paths = Paths::default();
        paths.visit_file(&file);
        let mut used: BTreeSet<String> = paths
            .found
            .iter()
            .flat_map(|path| self.meant(name, path))
            .collect();
        used.remove(name);
        used
    }

    /// The module in which a path ends; if it names the module itself, all modules below that as well.
    fn meant(&self, from: &str, path: &[String]) -> Vec<String> {
        let mut rest = path.iter().filter(|segment| *segment != "self").peekable();
        let mut module = from.to_string();
        if rest.next_if(|segment| *segment == "crate").is_some() {
            while let Some(above) = self.parent(&module) {
                module = above;
            }
        }
        while rest.next_if(|segment| *segment == "super").is_some() {
            let Some(above) = self.parent(&module) else {
                return Vec::new();
            };
            module = above;
        }
        while let Some(below) = rest.peek().and_then(|segment| self.child(&module, segment)) {
            module = below;
            rest.next();
        }
        let below = format!("{}/", folder(&module));
        let all = rest.peek().is_none() && module != from;
        let is_meant = |name: &&String| **name == module || all && name.starts_with(&below);
        self.0.keys().filter(is_meant).cloned().collect()
    }

    fn child(&self, module: &str, name: &str) -> Option<String> {
        let below = folder(module);
        self.first([
            format!("{below}/{name}.rs"),
            format!("{below}/{name}/mod.rs"),
        ])
    }

    fn parent(&self, module: &str) -> Option<String> {
        let (above, name) = module.trim_end_matches("/mod.rs").rsplit_once('/')?;
        let names = ["mod.rs", "lib.rs", "main.rs"];
        let is_root = names[1..].contains(&name);
        self.first(names.map(|name| format!("{above}/{name}")))
            .filter(|_| !is_root)
    }

    fn first<const N: usize>(&self, names: [String; N]) -> Option<String> {
        names.into_iter().find(|name| self.0.contains_key(name))
    }
}

/// The folder of the modules that a file declares.
fn folder(module: &str) -> &str {
    let (above, name) = module.rsplit_once('/').expect("a source lies in a folder");
    match name {
        "mod.rs" | "lib.rs" | "main.rs" => above,
        _ => module.trim_end_matches(".rs"),
    }
}

/// All paths in a file.
#[derive(Default)]
struct Paths {
    found: Vec<Segments>,
    /// How many modules with bodies are around the present item; these are the file's own.
    inside: usize,
}

impl Paths {
    fn add(&mut self, path: Segments) {
        let own = path
            .iter()
            .take(self.inside)
            .filter(|segment| *segment == "super")
            .count();
        if self.inside == 0
            || own == self.inside
            || path.first().is_some_and(|first| first == "crate")
        {
            self.found.push(path[own..].to_vec());
        }
    }

    fn add_tree(&mut self, mut above: Segments, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                above.push(path.ident.to_string());
                self.add_tree(above, &path.tree);
            }
            UseTree::Name(name) => {
                above.push(name.ident.to_string());
                self.add(above);
            }
            UseTree::Rename(rename) => {
                above.push(rename.ident.to_string());
                self.add(above);
            }
            UseTree::Group(group) => group
                .items
                .iter()
                .for_each(|tree| self.add_tree(above.clone(), tree)),
            UseTree::Glob(_) => self.add(above),
        }
    }
}

impl Visit<'_> for Paths {
    fn visit_item_mod(&mut self, module: &ItemMod) {
        if !for_tests(&module.attrs) {
            self.inside += 1;
            visit::visit_item_mod(self, module);
            self.inside -= 1;
        }
    }

    fn visit_item_use(&mut self, item: &ItemUse) {
        if !for_tests(&item.attrs) {
            self.add_tree(Vec::new(), &item.tree);
        }
    }

    fn visit_visibility(&mut self, _: &syn::Visibility) {}

    fn visit_path(&mut self, path: &syn::Path) {
        self.add(
            path.segments
                .iter()
                .map(|segment| segment.ident.to_string())
                .collect(),
        );
        visit::visit_path(self, path);
    }
}

fn for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|condition| condition.is_ident("test"))
    })
}
