//! Expands `#[derive(State)]`, where each named field of a struct is a state that is found by its name, and
//! `#[derive(OperatorState)]`, which also redistributes the fields to subtasks.

use crate::flott_type::runtime;
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use std::collections::BTreeSet;
use syn::{Data, DeriveInput, Error, Field, Fields, LitStr, Result, parse_quote, spanned::Spanned};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let krate = runtime(input)?;
    let fields = named_fields(input)?;
    let names = names(fields)?;
    let (mut declare, mut empty, mut holds, mut write, mut read) =
        (vec![], vec![], vec![], vec![], vec![]);
    for (number, (field, name)) in fields.iter().zip(&names).enumerate() {
        let (ident, ty) = (&field.ident, &field.ty);
        let (place, row) =
            (Literal::usize_unsuffixed(number), Literal::u32_unsuffixed(number as u32));
        let field_trait = quote_spanned!(ty.span()=> <#ty as #krate::state::StateField>);
        declare.push(quote!(#field_trait::declare(#name)));
        empty.push(quote!(#ident: #field_trait::empty()));
        holds.push(quote!(#field_trait::holds_nothing(&self.#ident)));
        write.push(quote!(#field_trait::write(&self.#ident, &mut rows.fields(#row));));
        read.push(quote!(#place => #field_trait::read(&mut self.#ident, row),));
    }
    let generics = bounded(input, &krate);
    let (implemented, used, clause) = generics.split_for_impl();
    let ident = &input.ident;
    Ok(quote! {
        #[automatically_derived]
        impl #implemented #krate::state::State for #ident #used #clause {
            fn declare() -> ::std::vec::Vec<#krate::state::StateDeclaration> {
                ::std::vec![#(#declare),*]
            }
            fn empty() -> Self {
                Self { #(#empty),* }
            }
            fn holds_nothing(&self) -> bool {
                #(#holds)&&*
            }
            fn write(&self, rows: &mut #krate::state::RowWriter) {
                #(#write)*
            }
            fn read(
                &mut self,
                field: usize,
                row: #krate::state::Row<'_>,
            ) -> ::std::result::Result<(), #krate::types::CodecError> {
                match field {
                    #(#read)*
                    _ => ::std::result::Result::Err(#krate::types::CodecError::Invalid {
                        what: "field of a state",
                    }),
                }
            }
        }
    })
}

/// Implements `OperatorState` and the `State` that it requires.
pub(crate) fn expand_operator(input: &DeriveInput) -> Result<TokenStream> {
    let state = expand(input)?;
    let krate = runtime(input)?;
    let (mut gather, mut lists, mut deal, mut passes) = (vec![], vec![], vec![], vec![]);
    for (number, field) in named_fields(input)?.iter().enumerate() {
        let (ident, ty) = (&field.ident, &field.ty);
        let list = format_ident!("field_{number}");
        gather.push(quote!(#list.push(part.#ident);));
        deal.push(quote_spanned! {ty.span()=>
            #ident: <#ty as #krate::state::OperatorStateField>::redistribute(#list, share)
        });
        lists.push(list);
        let row = Literal::u32_unsuffixed(number as u32);
        passes.push(quote_spanned! {ty.span()=>
            <#ty as #krate::state::OperatorStateField>::list(&mut self.#ident, #row, pass);
        });
    }
    let generics = bounded(input, &krate);
    let (implemented, used, clause) = generics.split_for_impl();
    let ident = &input.ident;
    Ok(quote! {
        #state
        #[automatically_derived]
        impl #implemented #krate::state::OperatorState for #ident #used #clause {
            fn redistribute(parts: ::std::vec::Vec<Self>, share: #krate::state::Share) -> Self {
                #(let mut #lists = ::std::vec::Vec::with_capacity(parts.len());)*
                for part in parts {
                    #(#gather)*
                }
                Self { #(#deal),* }
            }
            fn lists(&mut self, pass: &mut #krate::state::ListPass<'_, '_>) {
                #(#passes)*
            }
        }
    })
}

/// Returns the struct's generics, with the bound `FlottType` on each type parameter.
fn bounded(input: &DeriveInput, krate: &TokenStream) -> syn::Generics {
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(#krate::types::FlottType));
    }
    generics
}

type Named = syn::punctuated::Punctuated<Field, syn::Token![,]>;

fn named_fields(input: &DeriveInput) -> Result<&Named> {
    let why = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) if !fields.named.is_empty() => return Ok(&fields.named),
            Fields::Unnamed(_) => {
                "a struct of state needs named fields: their names are those of the states"
            }
            _ => "a struct of state needs at least one field, such as `count: Option<u64>`",
        },
        Data::Enum(_) => {
            "a state is declared by a struct; an enum can be the value in one of its fields, as `Option<…>`"
        }
        Data::Union(_) => "a state is declared by a struct: use one with named fields",
    };
    Err(Error::new_spanned(&input.ident, why))
}

/// Returns each field's state name: the field's own, or the one in `#[state(name = "…")]`. Refuses empty and equal
/// names.
fn names(fields: &Named) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut seen = BTreeSet::new();
    for field in fields {
        let mut name = field.ident.as_ref().map(|ident| ident.to_string()).unwrap_or_default();
        name = name.trim_start_matches("r#").to_owned();
        for attribute in field.attrs.iter().filter(|a| a.path().is_ident("state")) {
            attribute.parse_nested_meta(|meta| {
                if !meta.path.is_ident("name") {
                    return Err(meta.error("unknown option; there is `name = \"…\"`"));
                }
                let text: LitStr = meta.value()?.parse()?;
                if text.value().is_empty() {
                    return Err(Error::new_spanned(
                        &text,
                        "a state needs a name: leave `name` out to give it the field's",
                    ));
                }
                name = text.value();
                Ok(())
            })?;
        }
        if !seen.insert(name.clone()) {
            return Err(Error::new_spanned(
                field,
                format!(
                    "two states are named '{name}': give this one another name with `#[state(name = \"…\")]`"
                ),
            ));
        }
        names.push(name);
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(input: DeriveInput) -> String {
        expand(&input).unwrap_err().to_string()
    }

    #[test]
    fn only_structs_with_named_fields_are_states() {
        let tuple = refused(parse_quote!(
            struct Pair(Option<u8>, Option<u8>);
        ));
        assert!(tuple.contains("named fields"), "{tuple}");
        let unit = refused(parse_quote!(
            struct Nothing;
        ));
        assert!(unit.contains("at least one field"), "{unit}");
        let choice = refused(parse_quote!(
            enum Choice {
                A,
            }
        ));
        assert!(choice.contains("declared by a struct"), "{choice}");
    }

    #[test]
    fn options_that_do_not_exist_and_equal_names_are_refused() {
        let option = refused(parse_quote!(
            struct S {
                #[state(nmae = "b")]
                a: Option<u8>,
            }
        ));
        assert!(option.contains("there is `name"), "{option}");
        let equal = refused(parse_quote!(
            struct S {
                a: Option<u8>,
                #[state(name = "a")]
                b: Option<u8>,
            }
        ));
        assert_eq!(
            equal,
            "two states are named 'a': give this one another name with `#[state(name = \"…\")]`"
        );
    }
}
