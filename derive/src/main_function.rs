//! Expands `#[flott::main]`: generates `main`, and refuses functions that cannot declare a job.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, ItemFn, LitStr, Result, parse::Parser};

pub(crate) fn expand(attribute: TokenStream, function: &ItemFn) -> Result<TokenStream> {
    let mut name: Option<LitStr> = None;
    let options = syn::meta::parser(|meta| {
        if meta.path.is_ident("name") {
            name = Some(meta.value()?.parse()?);
            return Ok(());
        }
        Err(meta.error("unknown option; there is `name = \"…\"`"))
    });
    options.parse2(attribute)?;
    let signature = &function.sig;
    if let Some(word) = &signature.asyncness {
        return Err(Error::new_spanned(
            word,
            "a job is declared by a plain function: remove `async`",
        ));
    }
    if signature.inputs.len() != 2 {
        return Err(Error::new_spanned(
            &signature.inputs,
            "a job is declared by `fn name(env: &Environment, args: Args) -> Result<(), E>`",
        ));
    }
    if signature.ident == "main" {
        return Err(Error::new_spanned(
            &signature.ident,
            "name the function after the job: `main` is made by #[flott::main]",
        ));
    }
    let build = &signature.ident;
    let name = name.map_or_else(|| build.to_string(), |name| name.value());
    Ok(quote! {
        #function

        fn main() -> ::std::process::ExitCode {
            ::flott::run(::flott::ProgramEntry::new().job(#name, #build))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn the_job_is_named_after_its_function() {
        let function = parse_quote!(
            fn counts(env: &Environment, args: Args) -> R {}
        );
        let made = expand(TokenStream::new(), &function).unwrap().to_string();
        assert!(made.contains("job (\"counts\" , counts)"), "{made}");
        let made = expand(quote!(name = "other"), &function).unwrap().to_string();
        assert!(made.contains("job (\"other\" , counts)"), "{made}");
    }

    #[test]
    fn what_can_t_be_a_job_is_refused_with_what_to_do() {
        let refused =
            |function: ItemFn| expand(TokenStream::new(), &function).unwrap_err().to_string();
        assert!(
            refused(parse_quote!(
                async fn a(e: &E, a: A) {}
            ))
            .contains("remove `async`")
        );
        assert!(
            refused(parse_quote!(
                fn a() {}
            ))
            .contains("env: &Environment")
        );
        assert!(
            refused(parse_quote!(
                fn main(e: &E, a: A) {}
            ))
            .contains("name the function")
        );
        let function = parse_quote!(
            fn a(e: &E, a: A) {}
        );
        assert!(expand(quote!(nam = "x"), &function).is_err());
    }
}
