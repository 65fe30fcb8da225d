//! What functions hold: typed handles to the state of the key at hand.

use super::{States, Table};
use crate::{
    operators::{BoxError, KeyContext},
    types::{FlottType, Key},
};
use std::collections::BTreeMap;
use thiserror::Error;

/// State was used that `states` does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("this state was not named in the function's `states`")]
struct Undeclared;

/// One value per key.
#[derive(Debug, Clone)]
pub struct ValueState<K, V> {
    table: Option<Table<K, V>>,
}

impl<K, V> Default for ValueState<K, V> {
    fn default() -> Self {
        Self { table: None }
    }
}

impl<K: Key, V: FlottType> ValueState<K, V> {
    /// Names the state.
    pub fn visit(&mut self, name: &str, states: &mut States<'_>) {
        states.table(name, "value", &mut self.table);
    }
    /// The key's value.
    #[inline]
    pub fn get(&self, key: &KeyContext<'_, K>) -> Option<&V> {
        self.table.as_ref()?.get_at(key.address(), key.key())
    }
    /// The key's value, in place; made where there is none.
    ///
    /// # Errors
    /// When the state was not declared.
    #[inline]
    pub fn get_or_insert_with(
        &mut self,
        key: &KeyContext<'_, K>,
        make: impl FnOnce() -> V,
    ) -> Result<&mut V, BoxError> {
        let table = self.table.as_mut().ok_or(Undeclared)?;
        Ok(table.get_or_insert_at(key.address(), key.key(), make)?)
    }
    /// Sets the key's value.
    ///
    /// # Errors
    /// When the state was not declared.
    pub fn set(&mut self, key: &KeyContext<'_, K>, value: V) -> Result<(), BoxError> {
        let table = self.table.as_mut().ok_or(Undeclared)?;
        table.insert_at(key.address(), key.key(), value)?;
        Ok(())
    }
    /// Takes the key's value away.
    pub fn take(&mut self, key: &KeyContext<'_, K>) -> Option<V> {
        self.table.as_mut()?.remove_at(key.address(), key.key())
    }
}

/// A list per key.
#[derive(Debug, Clone)]
pub struct ListState<K, V> {
    table: Option<Table<K, Vec<V>>>,
}

impl<K, V> Default for ListState<K, V> {
    fn default() -> Self {
        Self { table: None }
    }
}

impl<K: Key, V: FlottType> ListState<K, V> {
    /// Names the state.
    pub fn visit(&mut self, name: &str, states: &mut States<'_>) {
        states.table(name, "list", &mut self.table);
    }
    /// The key's values.
    pub fn get(&self, key: &KeyContext<'_, K>) -> &[V] {
        let list = self.table.as_ref().and_then(|t| t.get_at(key.address(), key.key()));
        list.map_or(&[], Vec::as_slice)
    }
    /// Appends to the key's values.
    ///
    /// # Errors
    /// When the state was not declared.
    pub fn push(&mut self, key: &KeyContext<'_, K>, value: V) -> Result<(), BoxError> {
        let table = self.table.as_mut().ok_or(Undeclared)?;
        table.get_or_insert_at(key.address(), key.key(), Vec::new)?.push(value);
        Ok(())
    }
    /// Takes the key's values away.
    pub fn take(&mut self, key: &KeyContext<'_, K>) -> Vec<V> {
        let list = self.table.as_mut().and_then(|t| t.remove_at(key.address(), key.key()));
        list.unwrap_or_default()
    }
}

/// A map per key.
#[derive(Debug, Clone)]
pub struct MapState<K, N, V> {
    table: Option<Table<K, BTreeMap<N, V>>>,
}

impl<K, N, V> Default for MapState<K, N, V> {
    fn default() -> Self {
        Self { table: None }
    }
}

impl<K: Key, N: FlottType + Ord, V: FlottType> MapState<K, N, V> {
    /// Names the state.
    pub fn visit(&mut self, name: &str, states: &mut States<'_>) {
        states.table(name, "map", &mut self.table);
    }
    /// The value under a name in the key's map.
    pub fn get(&self, key: &KeyContext<'_, K>, name: &N) -> Option<&V> {
        self.table.as_ref()?.get_at(key.address(), key.key())?.get(name)
    }
    /// The key's map in the order of its names.
    pub fn iter<'s>(&'s self, key: &KeyContext<'_, K>) -> impl Iterator<Item = (&'s N, &'s V)> {
        let map = self.table.as_ref().and_then(|t| t.get_at(key.address(), key.key()));
        map.into_iter().flatten()
    }
    /// Sets a value in the key's map.
    ///
    /// # Errors
    /// When the state was not declared.
    pub fn insert(
        &mut self,
        key: &KeyContext<'_, K>,
        name: N,
        value: V,
    ) -> Result<Option<V>, BoxError> {
        let table = self.table.as_mut().ok_or(Undeclared)?;
        let map = table.get_or_insert_at(key.address(), key.key(), BTreeMap::new)?;
        Ok(map.insert(name, value))
    }
    /// Takes a value out of the key's map; the map goes with its last value.
    pub fn remove(&mut self, key: &KeyContext<'_, K>, name: &N) -> Option<V> {
        let table = self.table.as_mut()?;
        let mut map = table.remove_at(key.address(), key.key())?;
        let removed = map.remove(name);
        if !map.is_empty() {
            // The key was here a moment ago, so it is owned.
            let _ = table.insert_at(key.address(), key.key(), map);
        }
        removed
    }
    /// Takes the key's map away.
    pub fn take(&mut self, key: &KeyContext<'_, K>) -> BTreeMap<N, V> {
        let map = self.table.as_mut().and_then(|t| t.remove_at(key.address(), key.key()));
        map.unwrap_or_default()
    }
}
