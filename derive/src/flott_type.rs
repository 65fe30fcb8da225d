//! Expands `#[derive(FlottType)]`: fields are encoded in the order of declaration, variants by their position. The
//! format is in `streaming/CODEC.md`.

use crate::recursion::{contains_itself, without_itself};
use proc_macro2::{Literal, Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::{
    Data, DeriveInput, Error, Fields, Generics, Ident, Member, Path, Result, Type, WherePredicate,
    parse_quote, parse_quote_spanned, spanned::Spanned,
};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let options = Options::of(input, true)?;
    let base = &options.base;
    let krate = quote!(#base::types);
    let body = match &input.data {
        Data::Struct(data) => of_struct(&krate, input, &data.fields),
        Data::Enum(data) if data.variants.is_empty() => {
            return Err(Error::new_spanned(
                &input.ident,
                "an enum without variants has no values and can't be a record: add a variant",
            ));
        }
        Data::Enum(data) => {
            let variants: Vec<_> = data.variants.iter().map(|v| (&v.ident, &v.fields)).collect();
            of_enum(&krate, input, &variants)
        }
        Data::Union(_) => {
            return Err(Error::new_spanned(
                &input.ident,
                "a union can't be a record, since nothing says which of its fields is set: use an enum",
            ));
        }
    };
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(#krate::FlottType));
    }
    let (implemented, used, clause) = generics.split_for_impl();
    let name = &input.ident;
    let itself = options.recursive || types(&input.data).any(|ty| contains_itself(ty, input));
    let fields: Vec<&Type> = types(&input.data).collect();
    let recursive = match itself || fields.is_empty() {
        true => quote!(#itself),
        false => quote!(#(<#fields as #krate::FlottType>::RECURSIVE)||*),
    };
    let key = key_part(&krate, input, &generics, options.recursive);
    Ok(quote! {
        #[automatically_derived]
        impl #implemented #krate::FlottType for #name #used #clause {
            const RECURSIVE: bool = #recursive;
            #body
        }
        #key
    })
}

/// Returns the implementation of `KeyPart`; none for a type with `#[flott(recursive)]`.
fn key_part(
    krate: &TokenStream,
    input: &DeriveInput,
    generics: &Generics,
    recursive: bool,
) -> TokenStream {
    if recursive {
        return TokenStream::new();
    }
    let mut generics = generics.clone();
    // A record need not be a key. With a lifetime in the bound, a field that is no `KeyPart` leaves the implementation
    // out instead of failing to compile here.
    // The spans are those of the user's code, so that the compiler shows the fields through which two types contain each other, and does
    // not advise to implement the trait by hand.
    let bound = |field: &Type| -> WherePredicate {
        let (ty, krate) = (without_itself(field, input), shown_at(field.span(), krate));
        parse_quote_spanned!(field.span()=> for<'key> #ty: #krate::KeyPartUnlessFlottRecursive)
    };
    generics.make_where_clause().predicates.extend(types(&input.data).map(bound));
    let (implemented, used, clause) = generics.split_for_impl();
    let name = &input.ident;
    let krate = shown_at(name.span(), krate);
    let key_part = quote_spanned!(name.span()=> #krate::KeyPart);
    quote! {
        #[automatically_derived]
        #[allow(private_bounds)]
        impl #implemented #key_part for #name #used #clause {}
    }
}

/// Returns the path of the module `types` with all its tokens at `span`, which is what the compiler's errors show of it.
fn shown_at(span: Span, krate: &TokenStream) -> TokenStream {
    let at_span = |mut token: TokenTree| {
        token.set_span(span);
        token
    };
    krate.clone().into_iter().map(at_span).collect()
}

/// Returns the types of all fields of the struct, or of all variants of the enum.
fn types(data: &Data) -> impl Iterator<Item = &Type> {
    let fields: Vec<&Fields> = match data {
        Data::Struct(data) => vec![&data.fields],
        Data::Enum(data) => data.variants.iter().map(|variant| &variant.fields).collect(),
        Data::Union(_) => Vec::new(),
    };
    fields.into_iter().flatten().map(|field| &field.ty)
}

/// Returns the path of the crate that the traits come from: `::flott`, or the one in `#[flott(crate = path)]`.
pub(crate) fn runtime(input: &DeriveInput) -> Result<TokenStream> {
    Ok(Options::of(input, false)?.base)
}

/// The options in `#[flott(…)]`.
struct Options {
    /// Path of the crate that the traits come from.
    base: TokenStream,
    /// True if the type contains itself through another derived type.
    recursive: bool,
}

impl Options {
    /// Reads the options. `may_recurse`: whether `recursive` is one of them.
    fn of(input: &DeriveInput, may_recurse: bool) -> Result<Self> {
        let mut options = Self { base: quote!(::flott), recursive: false };
        for attribute in input.attrs.iter().filter(|a| a.path().is_ident("flott")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("crate") {
                    let path: Path = meta.value()?.parse()?;
                    options.base = quote!(#path);
                    return Ok(());
                }
                if may_recurse && meta.path.is_ident("recursive") {
                    options.recursive = true;
                    return Ok(());
                }
                Err(meta.error(match may_recurse {
                    true => "unknown option; there are `crate = path` and `recursive`",
                    false => "unknown option; there is `crate = path`",
                }))
            })?;
        }
        Ok(options)
    }
}

/// The fields of a struct or variant, prepared for code generation.
struct Parts {
    pattern: TokenStream,
    bindings: Vec<Ident>,
    members: Vec<Member>,
    /// An expression that constructs the value from the bindings.
    bound: TokenStream,
    names: Vec<String>,
    types: Vec<Type>,
    make: TokenStream,
}

fn parts(krate: &TokenStream, constructor: &TokenStream, fields: &Fields) -> Parts {
    let bindings: Vec<Ident> = (0..fields.len()).map(|i| format_ident!("field_{i}")).collect();
    let types: Vec<Type> = fields.iter().map(|f| f.ty.clone()).collect();
    let decode = types.iter().map(|ty| quote!(<#ty as #krate::FlottType>::decode(input)?));
    let members: Vec<Member> = fields.members().collect();
    let (pattern, names, make) = match fields {
        Fields::Named(named) => {
            let idents: Vec<_> = named.named.iter().filter_map(|f| f.ident.clone()).collect();
            let names = idents.iter().map(ToString::to_string).collect();
            let pattern = quote!(#constructor { #(#idents: #bindings),* });
            (pattern, names, quote!(#constructor { #(#idents: #decode),* }))
        }
        Fields::Unnamed(_) => {
            let names = (0..fields.len()).map(|i| i.to_string()).collect();
            (quote!(#constructor(#(#bindings),*)), names, quote!(#constructor(#(#decode),*)))
        }
        Fields::Unit => (constructor.clone(), Vec::new(), constructor.clone()),
    };
    // A pattern that binds every field is also the expression that constructs the value.
    let bound = pattern.clone();
    Parts { pattern, bindings, members, bound, names, types, make }
}

/// Returns the function `type_name`, with the names of the type parameters in it, and the type's own name.
fn head(krate: &TokenStream, input: &DeriveInput) -> (TokenStream, String) {
    let name = input.ident.to_string();
    let parameters: Vec<_> = input.generics.type_params().map(|p| p.ident.clone()).collect();
    let text = if parameters.is_empty() {
        quote!(::std::string::String::from(#name))
    } else {
        quote! {{
            let parts = [#(<#parameters as #krate::FlottType>::type_name()),*];
            ::std::format!("{}<{}>", #name, parts.join(", "))
        }}
    };
    (quote!(fn type_name() -> ::std::string::String { #text }), name)
}

fn of_struct(krate: &TokenStream, input: &DeriveInput, fields: &Fields) -> TokenStream {
    let (type_name, name) = head(krate, input);
    let parts = parts(krate, &quote!(Self), fields);
    let columns = columns(krate, &parts);
    let Parts { pattern, bindings, names, types, make, .. } = parts;
    // Every value takes at least one byte, also a struct without fields, so that decoders can check counts.
    let empty = bindings.is_empty();
    let pad = empty.then(|| quote!(out.push(0);));
    let unpad = empty.then(|| {
        quote! {
            if input.byte()? != 0 {
                return ::std::result::Result::Err(#krate::CodecError::Invalid { what: #name });
            }
        }
    });
    quote! {
        #type_name
        fn describe(schema: &mut #krate::Schema) {
            schema.named::<Self>(#name, |schema| {
                let _ = &schema;
                #(schema.field::<#types>(#names);)*
            });
        }
        fn encode(&self, out: &mut ::std::vec::Vec<u8>) {
            let #pattern = self;
            #pad
            #(#krate::FlottType::encode(#bindings, out);)*
        }
        fn decode(
            input: &mut #krate::Reader<'_>,
        ) -> ::std::result::Result<Self, #krate::CodecError> {
            #unpad
            ::std::result::Result::Ok(#make)
        }
        fn hash_key(&self, hasher: &mut #krate::KeyHasher) {
            let _ = &hasher;
            let #pattern = self;
            #(#krate::FlottType::hash_key(#bindings, hasher);)*
        }
        fn weight(&self) -> usize {
            let #pattern = self;
            ::std::mem::size_of::<Self>()
                #(+ #krate::FlottType::weight(#bindings)
                    .saturating_sub(::std::mem::size_of::<#types>()))*
        }
        #columns
    }
}

/// Returns the functions that encode a batch of a struct as one column per field. A struct without fields gets none:
/// the defaults of the trait encode value by value.
fn columns(krate: &TokenStream, parts: &Parts) -> TokenStream {
    let Parts { bindings, members, bound, types, .. } = parts;
    if bindings.is_empty() {
        return TokenStream::new();
    }
    quote! {
        fn encode_column<'column, Values>(values: Values, out: &mut ::std::vec::Vec<u8>)
        where
            Values: ::std::iter::Iterator<Item = &'column Self> + ::std::clone::Clone,
        {
            #(<#types as #krate::FlottType>::encode_column(
                ::std::iter::Iterator::map(
                    ::std::clone::Clone::clone(&values),
                    |value| &value.#members,
                ),
                out,
            );)*
        }
        fn decode_column(
            count: usize,
            input: &mut #krate::Reader<'_>,
        ) -> ::std::result::Result<::std::vec::Vec<Self>, #krate::CodecError> {
            #(let mut #bindings = ::std::iter::IntoIterator::into_iter(
                <#types as #krate::FlottType>::decode_column(count, input)?,
            );)*
            let mut values = ::std::vec::Vec::with_capacity(count);
            while let (#(::std::option::Option::Some(#bindings),)*) =
                (#(::std::iter::Iterator::next(&mut #bindings),)*)
            {
                values.push(#bound);
            }
            ::std::result::Result::Ok(values)
        }
    }
}

fn of_enum(
    krate: &TokenStream,
    input: &DeriveInput,
    variants: &[(&Ident, &Fields)],
) -> TokenStream {
    let (type_name, name) = head(krate, input);
    let mut describe = Vec::new();
    let mut encode = Vec::new();
    let mut decode = Vec::new();
    let mut hash = Vec::new();
    let mut weight = Vec::new();
    let columns = columns_of_variants(krate, &name, variants);
    for (place, (ident, fields)) in variants.iter().enumerate() {
        let tag = Literal::u64_unsuffixed(place as u64);
        let Parts { pattern, bindings, names, types, make, .. } =
            parts(krate, &quote!(Self::#ident), fields);
        let variant = format!("{ident}(");
        describe.push(quote! {
            schema.word(#variant);
            #(schema.field::<#types>(#names);)*
            schema.word(")|");
        });
        encode.push(quote! {
            #pattern => {
                #krate::write_varint(#tag, out);
                #(#krate::FlottType::encode(#bindings, out);)*
            }
        });
        decode.push(quote!(#tag => ::std::result::Result::Ok(#make),));
        hash.push(quote! {
            #pattern => {
                hasher.write_u64(#tag);
                #(#krate::FlottType::hash_key(#bindings, hasher);)*
            }
        });
        weight.push(quote! {
            #pattern => ::std::mem::size_of::<Self>()
                #(+ #krate::FlottType::weight(#bindings)
                    .saturating_sub(::std::mem::size_of::<#types>()))*,
        });
    }
    quote! {
        #type_name
        fn describe(schema: &mut #krate::Schema) {
            schema.named::<Self>(#name, |schema| { #(#describe)* });
        }
        fn encode(&self, out: &mut ::std::vec::Vec<u8>) {
            match self { #(#encode)* }
        }
        fn decode(
            input: &mut #krate::Reader<'_>,
        ) -> ::std::result::Result<Self, #krate::CodecError> {
            match input.varint()? {
                #(#decode)*
                _ => ::std::result::Result::Err(#krate::CodecError::Invalid { what: #name }),
            }
        }
        fn hash_key(&self, hasher: &mut #krate::KeyHasher) {
            match self { #(#hash)* }
        }
        fn weight(&self) -> usize {
            match self { #(#weight)* }
        }
        #columns
    }
}

/// The most fields of an enum, of all variants together, that are encoded by columns: each column is a pass over all values, also
/// over those of the other variants.
const ENUM_COLUMNS_MAX: usize = 8;

/// Returns the functions that encode a batch of an enum as a column of variants, and one column per field with the values of its
/// variant. An enum of many fields gets none.
fn columns_of_variants(
    krate: &TokenStream,
    name: &str,
    variants: &[(&Ident, &Fields)],
) -> TokenStream {
    let fields: usize = variants.iter().map(|(_, fields)| fields.len()).sum();
    if fields > ENUM_COLUMNS_MAX {
        return TokenStream::new();
    }
    let mut tags = Vec::new();
    let mut encode = Vec::new();
    let mut decode = Vec::new();
    let mut make = Vec::new();
    for (place, (ident, fields)) in variants.iter().enumerate() {
        let tag = Literal::u64_unsuffixed(place as u64);
        let parts = parts(krate, &quote!(Self::#ident), fields);
        let pattern = &parts.pattern;
        tags.push(quote!(#pattern => #tag,));
        encode.push(encode_variant(krate, &parts));
        let (of_variant, value) = decode_variant(krate, place, &parts);
        decode.push(of_variant);
        make.push(quote!(#tag => { #value }));
    }
    quote! {
        #[allow(unused_variables, unreachable_patterns)]
        fn encode_column<'column, Values>(values: Values, out: &mut ::std::vec::Vec<u8>)
        where
            Values: ::std::iter::Iterator<Item = &'column Self> + ::std::clone::Clone,
        {
            #krate::write_variants(
                ::std::iter::Iterator::map(
                    ::std::clone::Clone::clone(&values),
                    |value| match value { #(#tags)* },
                ),
                out,
            );
            #(#encode)*
        }
        #[allow(unused_variables)]
        fn decode_column(
            count: usize,
            input: &mut #krate::Reader<'_>,
        ) -> ::std::result::Result<::std::vec::Vec<Self>, #krate::CodecError> {
            let wrong = #krate::CodecError::Invalid { what: #name };
            let variants = #krate::read_variants(count, input)?;
            #(#decode)*
            let mut values = ::std::vec::Vec::with_capacity(variants.len());
            for variant in variants {
                values.push(match variant {
                    #(#make)*
                    _ => return ::std::result::Result::Err(wrong),
                });
            }
            ::std::result::Result::Ok(values)
        }
    }
}

/// Returns the statements that append the columns of one variant's fields.
fn encode_variant(krate: &TokenStream, parts: &Parts) -> TokenStream {
    let Parts { pattern, bindings, types, .. } = parts;
    quote! {
        #(<#types as #krate::FlottType>::encode_column(
            ::std::iter::Iterator::filter_map(
                ::std::clone::Clone::clone(&values),
                |value| match value {
                    #pattern => ::std::option::Option::Some(#bindings),
                    _ => ::std::option::Option::None,
                },
            ),
            out,
        );)*
    }
}

/// Returns the statements that read the columns of the variant at `place`, and those that make its next value of them.
fn decode_variant(krate: &TokenStream, place: usize, parts: &Parts) -> (TokenStream, TokenStream) {
    let Parts { bindings, bound, types, .. } = parts;
    let tag = Literal::u64_unsuffixed(place as u64);
    let columns: Vec<_> =
        (0..bindings.len()).map(|field| format_ident!("column_{place}_{field}")).collect();
    let read = quote! {
        let count = variants.iter().filter(|variant| **variant == #tag).count();
        #(let mut #columns = ::std::iter::IntoIterator::into_iter(
            <#types as #krate::FlottType>::decode_column(count, input)?,
        );)*
    };
    let make = quote! {
        #(let #bindings = ::std::iter::Iterator::next(&mut #columns).ok_or(wrong)?;)*
        #bound
    };
    (read, make)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(input: DeriveInput) -> String {
        expand(&input).unwrap_err().to_string()
    }

    #[test]
    fn types_without_values_and_unions_are_refused() {
        assert!(
            refused(parse_quote!(
                enum Nothing {}
            ))
            .contains("no values")
        );
        assert!(refused(parse_quote!(union U { a: u8 })).contains("union"));
        assert!(
            refused(parse_quote!(
                #[flott(krate = x)]
                struct S;
            ))
            .contains("crate = path")
        );
    }

    #[test]
    fn parameters_are_bounded_and_named() {
        let made = expand(&parse_quote!(
            struct Pair<A, B> {
                a: A,
                b: B,
            }
        ))
        .unwrap()
        .to_string();
        assert!(made.contains("A : :: flott :: types :: FlottType"), "{made}");
        assert!(made.contains("join"), "{made}");
    }
}
