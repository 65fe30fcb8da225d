//! Types that contain themselves, such as a tree. Whether such a type is a `KeyPart` depends on itself, which the compiler does
//! not resolve: it must not be asked about the type inside of its own fields.

use syn::{DeriveInput, GenericArgument, PathArguments, Type, TypePath, parse_quote};

/// Returns a field's type for the question whether the type `name` is a `KeyPart`: with a tuple of the type arguments of `name`
/// in place of `name`. `Vec<Tree<T>>` becomes `Vec<(T,)>`, which is a `KeyPart` if `Vec<Tree<T>>` is one once `Tree<T>` is.
pub(crate) fn without_itself(ty: &Type, input: &DeriveInput) -> Type {
    let mut ty = ty.clone();
    replace(&mut ty, input);
    ty
}

/// Returns true if a field's type contains the type of `input`.
pub(crate) fn contains_itself(ty: &Type, input: &DeriveInput) -> bool {
    replace(&mut ty.clone(), input)
}

/// Replaces the type of `input` in `ty`. Returns true if it is there.
fn replace(ty: &mut Type, input: &DeriveInput) -> bool {
    match ty {
        Type::Path(path) => {
            if let Some(arguments) = arguments_of_itself(path, input) {
                *ty = parse_quote!((#(#arguments,)*));
                return true;
            }
            let mut found = path.qself.as_mut().is_some_and(|of| replace(&mut of.ty, input));
            for segment in &mut path.path.segments {
                found |= replace_in_arguments(&mut segment.arguments, input);
            }
            found
        }
        Type::Array(array) => replace(&mut array.elem, input),
        Type::Group(group) => replace(&mut group.elem, input),
        Type::Paren(paren) => replace(&mut paren.elem, input),
        Type::Tuple(tuple) => {
            let mut found = false;
            for ty in &mut tuple.elems {
                found |= replace(ty, input);
            }
            found
        }
        // No other type is a `FlottType`.
        _ => false,
    }
}

fn replace_in_arguments(arguments: &mut PathArguments, input: &DeriveInput) -> bool {
    let PathArguments::AngleBracketed(list) = arguments else { return false };
    let mut found = false;
    for argument in &mut list.args {
        if let GenericArgument::Type(ty) = argument {
            found |= replace(ty, input);
        }
    }
    found
}

/// Returns the type arguments if `path` is the derived type, by its name or as `Self`; `None` if it is another type.
fn arguments_of_itself(path: &TypePath, input: &DeriveInput) -> Option<Vec<Type>> {
    let segment = path.path.segments.first()?;
    let alone = path.path.segments.len() == 1 && path.path.leading_colon.is_none();
    if !alone || (segment.ident != input.ident && segment.ident != "Self") {
        return None;
    }
    let PathArguments::AngleBracketed(list) = &segment.arguments else {
        let own = input.generics.type_params().map(|parameter| &parameter.ident);
        return Some(own.map(|name| parse_quote!(#name)).collect());
    };
    let types = list.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty.clone()),
        _ => None,
    });
    Some(types.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::ToTokens;

    fn replaced(ty: Type) -> String {
        let input = parse_quote!(
            struct Tree<K, V>(K, V);
        );
        without_itself(&ty, &input).into_token_stream().to_string()
    }

    #[test]
    fn the_type_itself_is_replaced_by_its_arguments_at_every_depth() {
        assert_eq!(replaced(parse_quote!(Vec<Tree<V, u8>>)), "Vec < (V , u8 ,) >");
        assert_eq!(
            replaced(parse_quote!(Option<(Box<Self>, u8)>)),
            "Option < (Box < (K , V ,) > , u8) >"
        );
        assert_eq!(
            replaced(parse_quote!([Wrapped<Vec<Tree>>; 2])),
            "[Wrapped < Vec < (K , V ,) > > ; 2]"
        );
    }

    #[test]
    fn types_of_the_same_name_in_another_module_and_other_types_stay() {
        for ty in ["Vec < other :: Tree < K > >", "K", "Serde < :: Tree >"] {
            assert_eq!(replaced(syn::parse_str(ty).unwrap()), ty);
        }
    }
}
