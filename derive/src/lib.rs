//! The procedural macros of the programming API: `#[flott::main]`, `#[derive(FlottType)]`, `#[derive(State)]` and
//! `#[derive(OperatorState)]`. It must never depend on the runtime: it names it by path only.

mod flott_type;
mod main_function;
mod state;

use proc_macro::TokenStream;
use syn::{DeriveInput, ItemFn, parse_macro_input};

/// Implements `FlottType`: codec, schema and hash, field by field in the order of declaration.
///
/// Structs and enums of types that are `FlottType` themselves. A variant is known by its place, so new variants
/// go to the end. `#[flott(crate = path)]` names the crate that the trait comes from (default: `::flott`).
#[proc_macro_derive(FlottType, attributes(flott))]
pub fn derive_flott_type(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    flott_type::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `State` for a struct with named fields: each is a state of the function that the struct belongs to, kept
/// per key.
///
/// Fields are `Option<V>` for a single value, `ListState<V>`, `MapState<N, V>`, `ReducingState<R>` and
/// `AggregatingState<A>`. A field's name is its state's; `#[state(name = "…")]` gives the state another one, so that a field can be
/// renamed without losing what was kept. `#[flott(crate = path)]` is as for `FlottType`.
#[proc_macro_derive(State, attributes(state, flott))]
pub fn derive_state(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    state::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `OperatorState`, and `State` with it, for a struct with named fields: each is a state of a subtask, which belongs to no
/// key.
///
/// Fields are `ListState<V>`, whose values are dealt out when the parallelism changes, and `UnionListState<V>`, of which every subtask
/// gets all values. Attributes are those of `State`.
#[proc_macro_derive(OperatorState, attributes(state, flott))]
pub fn derive_operator_state(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    state::expand_operator(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a function that declares a job the program's `main`: `fn name(env: &Environment, args: Args) -> Result<…>`.
///
/// The job is registered under the function's name, or under `#[flott::main(name = "…")]`. Everything that a program
/// does as client, JobManager, TaskManager or host starts here.
#[proc_macro_attribute]
pub fn main(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let function = parse_macro_input!(item as ItemFn);
    main_function::expand(attribute.into(), &function)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
