//! The procedural macros of the programming API: `#[flott::main]`, `#[derive(FlottType)]`, `#[derive(State)]` and
//! `#[derive(OperatorState)]`. This crate must never depend on the runtime: the generated code names the runtime's
//! items by path.

mod flott_type;
mod main_function;
mod recursion;
mod state;

use proc_macro::TokenStream;
use syn::{DeriveInput, ItemFn, parse_macro_input};

/// Implements `FlottType` (the codec, the schema, the hash of a key, and the weight: the estimated size in memory) for a struct or enum,
/// field by field in the order of declaration; also `KeyPart`, if every field's type is a `KeyPart`, so that the type with `Eq` and `Clone`
/// can be a key.
///
/// Every field's type must be a `FlottType`; each type parameter gets that bound. A variant is encoded and hashed by its position. The
/// schema has the type's name and the names, order and types of fields and variants: after a change of any of them, also a new variant at
/// the end, a restore of state with the type is refused. Unions and enums without variants are refused by the compiler.
/// `#[flott(crate = path)]` names the crate that the traits come from (default: `::flott`).
///
/// A type may contain itself: `struct Tree { value: u64, children: Vec<Tree> }`. Two types that contain each other need
/// `#[flott(recursive)]` at one of them; otherwise the compiler names the field and says `overflow evaluating the requirement …
/// KeyPartUnlessFlottRecursive` (E0275). A type with this option, and every type that contains one, can be a record or a value of state but
/// not a key. Values may be nested 180 deep, counting every box, list and map; writing a deeper one fails the task.
#[proc_macro_derive(FlottType, attributes(flott))]
pub fn derive_flott_type(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    flott_type::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `State` for a struct with named fields: each field is a keyed state of the function that uses the struct.
///
/// A field is an `Option<V>` for a single value, a `ListState<V>`, `MapState<N, V>`, `ReducingState<R>` or `AggregatingState<A>`. The
/// state has the field's name; `#[state(name = "…")]` gives the state another name, so that a field can be renamed and its state is still
/// restored. Each type parameter gets the bound `FlottType`. `#[flott(crate = path)]` names the crate that the trait comes from (default:
/// `::flott`).
///
/// A savepoint with a state that the program's struct does not have, or has with another type, is refused at the restore; `flott run` can
/// drop a state that the struct does not have (`--allowNonRestoredState`). A field whose state the savepoint does not have begins empty.
/// Does not compile for enums, unions, structs without named fields, and states with empty or equal names.
#[proc_macro_derive(State, attributes(state, flott))]
pub fn derive_state(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    state::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `OperatorState`, and `State` with it, for a struct with named fields: each field is a state that belongs
/// to a subtask and to no key, for a `StatefulProcessFunction` or the writer of a sink.
///
/// A field is a `ListState<V>`, whose values are dealt out to the subtasks when a job is restored with another
/// parallelism, or a `UnionListState<V>`, of which every subtask gets all values; other types of fields do not compile. The attributes
/// are those of `#[derive(State)]`, and the same inputs are refused.
#[proc_macro_derive(OperatorState, attributes(state, flott))]
pub fn derive_operator_state(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    state::expand_operator(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Generates the program's `main` for a function that declares a job: `fn name(env: &Environment, args: Args) ->
/// Result<…>`.
///
/// The job is registered under the function's name, or under the name in `#[flott::main(name = "…")]`. The generated `main` calls
/// `flott::run` and returns its exit code. The attribute can be used once in a program, in the root module, where `main` belongs; a
/// program with several jobs calls `flott::run` itself.
///
/// The function itself stays as it is and can be called. Does not compile for an `async` function, for one that has not exactly two
/// parameters, for one that is named `main`, and with any option but `name`.
#[proc_macro_attribute]
pub fn main(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let function = parse_macro_input!(item as ItemFn);
    main_function::expand(attribute.into(), &function)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
